"""Reads the table of docs/isolation.md: what each attack can do at each level."""

from pathlib import Path

from runner.isolation.confinement import LEVELS, Level

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "isolation.md"
WORDS = ("holds", "open", "varies")

Promised = dict[str, dict[tuple[Level, str], str]]


def read_table(text: str) -> Promised:
    """Rows `| what | attack | none | process | landlock | namespace |`; a cell is a word, or `word, as root word`."""
    found: Promised = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 2 + len(LEVELS) or not cells[1].startswith("`"):
            continue
        row: dict[tuple[Level, str], str] = {}
        for level, cell in zip(LEVELS, cells[2:], strict=True):
            ordinary, _, root = cell.partition(", as root ")
            row[level, "ordinary"], row[level, "root"] = ordinary, root or ordinary
        assert set(row.values()) <= set(WORDS), f"{line}: only {WORDS}"
        found[cells[1].strip("`")] = row
    return found


PROMISED = read_table(DOCUMENT.read_text())


def attacks_of_table() -> list[str]:
    return sorted(PROMISED)
