"""Glob patterns as regular expressions, in the language of ripgrep, fd and gitignore. Pure.

`*` and `?` stop at a slash, `**` between slashes crosses folders, `[a-z]` and `[!a-z]` are sets, `{a,b}` alternatives,
a backslash takes the next character as it is.
"""

import re
from functools import lru_cache

from runner.tools.worker.places import Refusal


@lru_cache(maxsize=512)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Matches whole relative paths (with `fullmatch`). Raises Refusal for a pattern that is none."""
    try:
        return re.compile(_translated(pattern), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refusal(f"The glob pattern {pattern!r} cannot be used ({error})") from None


class PathFilter:
    """A pattern as a tool's argument: without a slash it is about names, with one about paths below the folder."""

    def __init__(self, pattern: str) -> None:
        self._about_paths = "/" in pattern.rstrip("/")
        self._folders_only = pattern.endswith("/")
        self._regex = glob_regex(pattern.strip("/"))

    def matches(self, relative: str, *, is_folder: bool) -> bool:
        if self._folders_only and not is_folder:
            return False
        subject = relative if self._about_paths else relative.rpartition("/")[2]
        return self._regex.fullmatch(subject) is not None


def _translated(pattern: str) -> str:
    out: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            at, part = _stars(pattern, at)
            out.append(part)
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            at, part = _set(pattern, at)
            out.append(part)
        elif char == "{" and "}" in pattern[at:]:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out) + ")" * depth


def _stars(pattern: str, at: int) -> tuple[int, str]:
    """What a `*` just before `at` stands for."""
    start = at - 1
    while pattern[at : at + 1] == "*":
        at += 1
    if at - start == 1:
        return at, "[^/]*"
    after_slash = start == 0 or pattern[start - 1] == "/"
    if after_slash and pattern[at : at + 1] == "/":
        return at + 1, "(?:[^/]+/)*"
    return at, ".*" if after_slash and at == len(pattern) else "[^/]*"


def _set(pattern: str, at: int) -> tuple[int, str]:
    """The set whose bracket is just before `at`; a bracket that is never closed stands for itself."""
    negated = pattern[at : at + 1] in ("!", "^")
    first = at + 1 if negated else at
    end = pattern.find("]", first + 1)
    if end < 0:
        return at, r"\["
    inner = pattern[first:end].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
    inner = inner.replace("&&", r"\&&").replace("||", r"\||").replace("~~", r"\~~").replace("--", r"\--")
    return end + 1, f"(?!/)[{'^' if negated else ''}{inner}]"
