"""Sessions after the fact: opened, shown, exported, imported, compared. Nothing here changes what it reads."""
