"""What an edit changed, as a unified diff for people who look at the session. Pure; bounded in time and size."""

_MOST_LINES = 1500
"""Of the changed middle; a diff of more takes long, and nobody reads it."""
_MOST_CHARS = 20_000
_CONTEXT = 3


def unified_difference(before: str, after: str, name: str) -> str | None:
    """The diff; None if it would be too large. Lines common to both ends are not compared twice."""
    from difflib import unified_diff

    old, new = before.splitlines(), after.splitlines()
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if max(len(old), len(new)) - start - end > _MOST_LINES:
        return None
    first, tail = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    lines = unified_diff(
        old[first : len(old) - tail], new[first : len(new) - tail], name, name, n=_CONTEXT, lineterm=""
    )
    diff = "\n".join(_shifted(line, first) for line in lines)
    return diff if len(diff) <= _MOST_CHARS else None


def _shifted(line: str, offset: int) -> str:
    """A hunk's header with the line numbers of the whole files."""
    if not offset or not line.startswith("@@ "):
        return line
    ranges = line.split(" ")[1:3]
    moved: list[str] = []
    for part in ranges:
        number, comma, count = part[1:].partition(",")
        moved.append(f"{part[0]}{int(number) + offset}{comma}{count}")
    return f"@@ {' '.join(moved)} @@"
