"""The session log: Pi's JSONL file, version 3, read with care and only ever appended to."""
