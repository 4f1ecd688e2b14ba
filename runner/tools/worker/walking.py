# (pathlib would take a third of the worker's start)
"""Walking through a folder as `grep` and `find` see it: hidden files too, but not what git ignores, nor `.git` itself.

Every `.gitignore` counts from the workspace down, in a repository or not. Links are not followed. What cannot be read
is left out, as a search would.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runner.tools.worker.globs import glob_regex
from runner.tools.worker.places import Refusal

_MAX_RULES_BYTES = 1 << 20


class Found(NamedTuple):
    relative: str
    """Below the folder where the walk began, with slashes."""
    real: str
    is_folder: bool


class _Rule(NamedTuple):
    regex: re.Pattern[str]
    folder: str
    """The folder whose file says it; the pattern is about paths below."""
    by_name: bool
    folders_only: bool
    negated: bool


def walk(start: str, workspace: str) -> Iterator[Found]:
    """Everything below `start` in the order of names, a folder before what is in it."""
    rules = _rules_above(start, workspace)
    stack: list[tuple[str, str, Sequence[_Rule]]] = [(start, "", (*rules, *_rules_in(start)))]
    while stack:
        folder, prefix, rules = stack.pop()
        below: list[tuple[str, str, Sequence[_Rule]]] = []
        for entry in _entries(folder):
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _ignored(entry.path, is_folder, rules):
                continue
            relative = prefix + entry.name
            if entry.is_symlink():
                continue
            yield Found(relative, entry.path, is_folder)
            if is_folder:
                below.append((entry.path, relative + "/", (*rules, *_rules_in(entry.path))))
        stack.extend(reversed(below))


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _rules_above(start: str, workspace: str) -> list[_Rule]:
    """Of the folders from the workspace down to, not including, `start`."""
    folders: list[str] = []
    folder = start
    while folder != workspace and folder.startswith(workspace.rstrip("/") + "/"):
        folder = os.path.dirname(folder)
        folders.append(folder)
    return [rule for folder in reversed(folders) for rule in _rules_in(folder)]


def _rules_in(folder: str) -> list[_Rule]:
    try:
        # Never a link or a pipe: the file is somebody else's.
        descriptor = os.open(
            os.path.join(folder, ".gitignore"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(descriptor, "rb") as file:
            text = file.read(_MAX_RULES_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    return [rule for line in text.split("\n") if (rule := _rule(line, folder)) is not None]


def _rule(line: str, folder: str) -> _Rule | None:
    line = line.rstrip("\r")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    by_name = "/" not in pattern
    pattern = pattern.lstrip("/")
    if not pattern:
        return None
    try:
        return _Rule(glob_regex(pattern), folder, by_name, folders_only, negated)
    except Refusal:
        return None


def _ignored(path: str, is_folder: bool, rules: Sequence[_Rule]) -> bool:
    """The last rule that matches decides."""
    for rule in reversed(rules):
        if rule.folders_only and not is_folder:
            continue
        subject = path.rpartition("/")[2] if rule.by_name else path[len(rule.folder.rstrip("/")) + 1 :]
        if rule.regex.fullmatch(subject) is not None:
            return not rule.negated
    return False
