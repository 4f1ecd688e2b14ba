"""Runs a directory of recorded session files against our reading, and says where we differ from Pi.

    python -m tests.conformance.session DIR

A case is `NAME.jsonl` with `NAME.expected.json`. It is read leniently (`on_damage="skip"`) and compared with
what Pi 1.6 made of it (`both`, else `pi16`): header, entries, branch, context, messages, what a model sees,
what opening does to the file, and what happens to two appended entries. Prints the failures and `N passed, N
failed`; exit 1 on any.

Refuses to excuse a file by its name: what we do otherwise on purpose is a rule in `session_differences`.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.annotations import read_annotations
from checkpoint.session.context import load_projection
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import SessionIndex
from checkpoint.session.javascript import UNDEFINED
from checkpoint.session.llm import convert_to_llm
from checkpoint.session.log import SessionLog
from checkpoint.session.migration import index_file, migrate
from tests.conformance.session_differences import adapt

NOT_COMPARED = frozenset(
    {"warnings", "listing", "error", "death", "providerView", "providerViewError", "positionalIds"}
)
"""Pi's own wording and lists, and what is done to messages later, on the way to a provider."""

USER: JsonObject = {"role": "user", "content": [{"type": "text", "text": "one more"}], "timestamp": 1}
ASSISTANT: JsonObject = {"role": "assistant", "content": [{"type": "text", "text": "done"}], "timestamp": 2}


@dataclass
class Result:
    """One case: `differences` is empty if it passed."""

    name: str
    differences: list[str] = field(default_factory=list[str])


def run_directory(directory: Path) -> list[Result]:
    """All cases of a directory, by name."""
    expected_files = sorted(directory.glob("*.expected.json"))
    return [
        run_case(file.with_name(file.name.removesuffix(".expected.json") + ".jsonl"), file) for file in expected_files
    ]


def run_case(session: Path, expected_file: Path) -> Result:
    """One case. A traceback of ours is a difference, not the end of the run."""
    result = Result(session.name.removesuffix(".jsonl"))
    recorded: JsonObject = parse(decode_text(expected_file.read_bytes()))
    expected: JsonObject = recorded.get("both") or recorded["pi16"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            ours = observe(session, Path(folder))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this program reports
            result.differences.append(f"{type(error).__name__}: {error}")
            return result
    expected = adapt(expected, ours)
    for name in sorted({*expected, *ours} - NOT_COMPARED):
        found, wanted = ours.get(name), expected.get(name)
        if (where := first_difference(found, wanted)) is not None:
            result.differences.append(f"{name}{where}")
    return result


def observe(session: Path, folder: Path) -> JsonObject:
    """What we make of a session file, in the terms of the recordings."""
    log = folder / "session.jsonl"
    shutil.copyfile(session, log)
    before = log.read_bytes()
    seen: JsonObject = {}
    try:
        index = index_file(log, "skip")
        has_new_ids = index.version < 2
        if index.needs_migration:
            log = folder / "migrated.jsonl"
            index = migrate(folder / "session.jsonl", log, "skip")
    except SessionDamaged as error:
        return {
            "outcome": "throws",
            "stage": "open",
            "reason": error.reason,
            "fileAfterOpen": "unchanged",
            "append": {"skipped": "does not open"},
        }
    seen |= _structure(log, index)
    seen |= _context(log, index)
    seen |= _opened(log, index, before)
    return _positional(seen, index) if has_new_ids else seen


def _structure(log: Path, index: SessionIndex) -> JsonObject:
    annotations = read_annotations(log, index)
    cwd = index.header.get("cwd")
    return {
        "header": index.header,
        "sessionId": index.session_id,
        "cwd": cwd if isinstance(cwd, str) else "<process cwd>",
        "sessionName": annotations.name,
        "labels": annotations.labels,
        "entryCount": index.entries,
        "entries": [[_known(head.id), _known(head.type), _known(head.parent_id)] for head in index.heads],
        "leafId": index.leaf_id,
    }


def _context(log: Path, index: SessionIndex) -> JsonObject:
    branch = index.branch()
    ids = [_known(index.heads[position].id) for position in branch.positions] if index.leaf_id else []
    seen: JsonObject = {} if branch.cycle is not None else {"branch": ids}
    try:
        projection = load_projection(log, index)
    except SessionDamaged as error:
        return {**seen, "outcome": "throws", "stage": "context", "reason": error.reason}
    messages = [message for _, message in projection.messages]
    return {
        **seen,
        "outcome": "opens",
        "contextEntries": [_known(index.heads[position].id) for position in projection.positions],
        "model": projection.model,
        "thinkingLevel": projection.thinking_level,
        "messages": messages,
        "llm": convert_to_llm(messages),
    }


def _opened(log: Path, index: SessionIndex, before: bytes) -> JsonObject:
    """What opening for appending does to the file, and what becomes of two entries appended to it."""
    writer = SessionLog.open(log, index)
    opened = log.read_bytes()
    if opened == before:
        seen: JsonObject = {"fileAfterOpen": "unchanged"}
    elif opened == before + b"\n":
        seen = {"fileAfterOpen": "newline_appended"}
    else:
        lines = [parse(decode_text(line)) for line in opened.split(b"\n") if line]
        seen = {"fileAfterOpen": "rewritten", "linesAfterOpen": lines}
    user_id = writer.append_message(USER)
    assistant_id = writer.append_message(ASSISTANT)
    writer.close()
    after = log.read_bytes()
    again = index_file(log, "skip")
    appended: JsonObject = parse(decode_text(after[len(opened) :].split(b"\n")[0]))
    seen["append"] = {
        "originalBytesKept": after.startswith(before),
        "openedBytesKept": after.startswith(opened),
        "firstAppendedParentIsLeaf": appended.get("parentId") == index.leaf_id,
        "firstAppendedHasParentKey": "parentId" in appended,
        "entriesBefore": index.entries,
        "entriesAfterReopen": again.entries,
        "entriesLost": index.entries + 2 - again.entries,
        "userEntrySurvives": user_id in again.by_id,
        "assistantEntrySurvives": assistant_id in again.by_id,
    }
    return seen


def _known(value: Any) -> Any:
    return None if value is UNDEFINED else value


def _positional(seen: JsonObject, index: SessionIndex) -> JsonObject:
    """New ids are random: write them as `@k`, the place in the file, as the recordings do."""
    places = {head.id: f"@{position + 1}" for position, head in enumerate(index.heads)}

    def place(value: Any) -> Any:
        if isinstance(value, str):
            return places.get(value, value)
        if isinstance(value, list):
            return [place(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: place(item) for key, item in cast("JsonObject", value).items()}
        return value

    return place(seen)


def first_difference(found: Any, wanted: Any) -> str | None:
    """Where two JSON values differ, as a path and both values; None if they are the same. Works at any depth."""
    todo: list[tuple[str, Any, Any]] = [("", found, wanted)]
    while todo:
        path, one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            ours, pi = cast("JsonObject", one), cast("JsonObject", other)
            todo.extend((f"{path}.{key}", ours[key], pi[key]) for key in ours)
        elif isinstance(one, list) and isinstance(other, list):
            ones, others = cast("list[Any]", one), cast("list[Any]", other)
            if len(ones) != len(others):
                return f"{path}: {len(ones)} elements, Pi has {len(others)}"
            pairs = zip(ones, others, strict=True)
            todo.extend((f"{path}[{place}]", *pair) for place, pair in enumerate(pairs))
        elif isinstance(one, (dict, list)) or isinstance(one, bool) != isinstance(other, bool) or one != other:
            return f"{path}: {_short(one)}, Pi has {_short(other)}"
    return None


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return "a deep value"
    return text if len(text) <= 160 else text[:157] + "..."


def report(results: list[Result]) -> Iterator[str]:
    """Failures, then the count."""
    failed = [result for result in results if result.differences]
    for result in failed:
        yield f"FAILED {result.name}"
        yield from (f"    {difference}" for difference in result.differences)
    yield f"{len(results) - len(failed)} passed, {len(failed)} failed"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m tests.conformance.session DIR", file=sys.stderr)
        return 2
    results = run_directory(Path(arguments[0]))
    print("\n".join(report(results)))
    if not results:
        print(f"there are no *.expected.json files in {arguments[0]}", file=sys.stderr)
    return 1 if not results or any(result.differences for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
