# (pathlib would take a third of the worker's start)
"""`grep`, `find` and `ls`. What they find is bounded in number, size and time, and says so where it was cut."""

import os
import re
import stat
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from runner.tools.truncation import MAX_BYTES, keep_head, size_text
from runner.tools.worker.globs import PathFilter
from runner.tools.worker.places import Places, Refusal, open_regular, shown
from runner.tools.worker.text_form import SNIFFED_BYTES, is_binary, mark_of
from runner.tools.worker.walking import walk

GREP_MATCHES, FIND_RESULTS, LS_ENTRIES = 100, 1000, 500
"""Pi's default limits."""
MOST_RESULTS = 10_000
MOST_CONTEXT = 100
LINE_CHARS = 500
SEARCH_S = 40.0
"""A search that takes longer ends with what it has found."""
_LINE_BYTES = 1 << 20
"""A longer line is searched in pieces."""
_LINES_A_LOOK = 4096
"""After so many lines the clock is looked at."""
_WIDE_BYTES = 16 * 1024 * 1024
"""Of a UTF-16 or UTF-32 file: as much is searched."""
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
}


class _Search:
    """The time that is left, and what is told at the end."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SEARCH_S
        self.notes: list[str] = []
        self.details: dict[str, Any] = {}

    def out_of_time(self) -> bool:
        if time.monotonic() < self._ends:
            return False
        self.notes.append(f"Stopped after {SEARCH_S:g} s: search a smaller folder for the rest")
        self.details["timedOut"] = True
        return True

    def result(self, lines: Iterable[str], nothing: str) -> dict[str, Any]:
        text = "\n".join(lines)
        cut = keep_head(text, max_lines=len(text) + 1, max_bytes=MAX_BYTES)
        if cut.by is not None:
            self.notes.append(f"Cut at {size_text(MAX_BYTES)}")
            self.details["truncated"] = cut.by
        parts = [cut.text or nothing]
        if self.notes:
            parts.append(f"[{'. '.join(self.notes)}]")
        return {"content": [{"type": "text", "text": "\n\n".join(parts)}], "details": self.details}


def _limit(args: dict[str, Any], default: int) -> int:
    given = args.get("limit")
    return default if given is None else max(1, min(int(given), MOST_RESULTS))


def _existing(places: Places, args: dict[str, Any]) -> tuple[str, bool]:
    """The real path to search in, and whether it is a folder."""
    real = places.to_read(args.get("path") or ".")
    return real, stat.S_ISDIR(os.stat(real).st_mode)


# --- grep ---------------------------------------------------------------------------------------------------


def grep(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real, is_folder = _existing(places, args)
    regex = _compiled(args["pattern"], literal=bool(args.get("literal")), ignore_case=bool(args.get("ignoreCase")))
    context = max(0, min(int(args.get("context") or 0), MOST_CONTEXT))
    limit = _limit(args, GREP_MATCHES)
    search = _Search()
    lines: list[str] = []
    left, long_lines = limit, False
    for name, path in _files(real, is_folder, args.get("glob"), places):
        if search.out_of_time():
            break
        found = _search_file(path, shown(name), regex, context, left, search)
        if found.lines and lines and context:
            lines.append("--")
        lines += found.lines
        left -= found.matches
        long_lines = long_lines or found.long_lines
        if found.stopped == "time":
            break
        if found.stopped == "limit":
            search.notes.append(f"Stopped at {limit} matches: refine the pattern, or use limit={limit * 2}")
            search.details["matchLimitReached"] = limit
            break
    if long_lines:
        search.notes.append(f"Lines are cut at {LINE_CHARS} characters: use read for the whole line")
        search.details["linesTruncated"] = True
    return search.result(lines, "No matches found")


def _compiled(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    source = (
        re.escape(pattern)
        if literal
        else re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], match[0]), pattern)
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(source, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refusal(
            f"The pattern is no regular expression ({error}): correct it, or set literal to search for the text itself"
        ) from None


def _files(real: str, is_folder: bool, glob: str | None, places: Places) -> Iterator[tuple[str, str]]:
    """(name to show, real path) of the files to search."""
    if not is_folder:
        yield real.rpartition("/")[2], real
        return
    negated = glob is not None and glob.startswith("!")
    wanted = None if glob is None else PathFilter(glob[1:] if negated else glob)
    for found in walk(real, places.workspace):
        if found.is_folder:
            continue
        if wanted is None or wanted.matches(found.relative, is_folder=False) is not negated:
            yield found.relative, found.real


class _InFile(NamedTuple):
    lines: list[str]
    matches: int
    long_lines: bool
    stopped: Literal["limit", "time"] | None = None


def _search_file(path: str, name: str, regex: re.Pattern[str], context: int, limit: int, search: _Search) -> _InFile:
    """Up to `limit` matching lines; stopped if there is another one. Binary and unreadable files hold nothing."""
    lines: list[str] = []
    before: deque[tuple[int, str]] = deque(maxlen=context)
    matches, last, after, long_lines = 0, 0, 0, False

    def add(number: int, mark: str, text: str) -> None:
        nonlocal last, long_lines
        if context and last and number > last + 1:
            lines.append("--")
        long_lines = long_lines or len(text) > LINE_CHARS
        lines.append(f"{name}{mark}{number}{mark} {text[:LINE_CHARS]}")
        last = number

    for number, text in _text_lines(path, name):
        if number % _LINES_A_LOOK == 0 and search.out_of_time():
            return _InFile(lines, matches, long_lines, "time")
        if regex.search(text) is not None:
            if matches == limit:
                return _InFile(lines, matches, long_lines, "limit")
            matches += 1
            for earlier in before:
                add(earlier[0], "-", earlier[1])
            before.clear()
            add(number, ":", text)
            after = context
        elif after:
            add(number, "-", text)
            after -= 1
        elif context:
            before.append((number, text))
    return _InFile(lines, matches, long_lines)


def _text_lines(path: str, name: str) -> Iterator[tuple[int, str]]:
    try:
        file = open_regular(path, name)
    except (OSError, Refusal):
        return
    with file:
        head = file.read(SNIFFED_BYTES)
        if is_binary(head):
            return
        form = mark_of(head)
        encoding = "utf-8" if form is None else form.encoding
        if form is not None and form.is_wide:
            file.seek(len(form.mark))
            yield from enumerate(file.read(_WIDE_BYTES).decode(encoding, "replace").splitlines(), 1)
            return
        file.seek(0 if form is None else len(form.mark))
        number, ended = 0, True
        while raw := file.readline(_LINE_BYTES):
            number += ended
            ended = raw.endswith(b"\n")
            yield number, raw.rstrip(b"\r\n").decode("utf-8", "replace")


# --- find and ls --------------------------------------------------------------------------------------------


def find(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real, is_folder = _existing(places, args)
    if not is_folder:
        raise Refusal(f"{places.shown(real)} is no folder: find searches in folders")
    wanted, limit = PathFilter(args["pattern"]), _limit(args, FIND_RESULTS)
    search = _Search()
    lines: list[str] = []
    for seen, found in enumerate(walk(real, places.workspace)):
        if seen % 256 == 0 and search.out_of_time():
            break
        if wanted.matches(found.relative, is_folder=found.is_folder):
            if len(lines) == limit:
                search.notes.append(f"Stopped at {limit} results: refine the pattern, or use limit={limit * 2}")
                search.details["resultLimitReached"] = limit
                break
            lines.append(shown(found.relative) + ("/" if found.is_folder else ""))
    return search.result(lines, "No files found")


def ls(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real, is_folder = _existing(places, args)
    if not is_folder:
        raise Refusal(f"{places.shown(real)} is no folder: use read to see a file")
    limit = _limit(args, LS_ENTRIES)
    search = _Search()
    with os.scandir(real) as entries:
        # Links to folders count as folders; where a link leads is not told, since it may lead out.
        names = sorted(
            (shown(entry.name) + ("/" if entry.is_dir() else "") for entry in entries),
            key=lambda name: (name.lower(), name),
        )
    if len(names) > limit:
        search.notes.append(f"{limit} of {len(names)} entries: use limit={limit * 2} for more")
        search.details["entryLimitReached"] = limit
    return search.result(names[:limit], "(the folder is empty)")
