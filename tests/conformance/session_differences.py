"""Where we differ from Pi on purpose, each with its reason. A rule looks at what happened, never at a file's
name.

Each rule gets what Pi did (`pi`) and what we did (`ours`), and gives what we should have done instead of Pi;
None if it is not about this case.
"""

from collections.abc import Callable

from checkpoint.jsontypes import JsonObject
from checkpoint.session.header import format_version


def a_cycle_is_an_error(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi follows the parents until the process dies. A runner that hangs reports nothing to anybody."""
    if pi["outcome"] != "unbounded_loop":
        return None
    return {**pi, "outcome": "throws", "stage": "context", "reason": "cycle"}


def an_empty_file_is_an_error(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi begins a new session in it. Here a file is only ever restored, and an empty one means that the
    session was lost on the way: going on without it would answer the user as if it had never been.
    """
    if pi["outcome"] != "new_session":
        return None
    return {
        "outcome": "throws",
        "stage": "open",
        "reason": "empty",
        "fileAfterOpen": "unchanged",
        "append": {"skipped": "does not open"},
    }


def errors_have_a_reason(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi's errors are whatever JavaScript throws; ours name the line, and say what to do. A context that
    cannot be built has no entries here.
    """
    if not pi["outcome"] == ours["outcome"] == "throws" or "reason" in pi:
        return None
    kept = {name: value for name, value in pi.items() if name != "contextEntries"}
    return {**kept, "reason": "not_a_session" if pi["stage"] == "open" else "message"}


def a_missing_message_matters_only_where_it_is_read(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi fails on it anywhere on the branch. What lies before the last compaction is not decoded here:
    restoring costs what the active context costs, and such an entry cannot reach a model.
    """
    if pi["outcome"] != "throws" or pi["stage"] != "context" or ours["outcome"] != "opens":
        return None
    kept = (
        "header",
        "sessionId",
        "cwd",
        "sessionName",
        "entryCount",
        "entries",
        "leafId",
        "labels",
        "append",
    )
    return {**ours, **{name: pi[name] for name in kept}}


def an_appended_entry_always_has_a_parent_field(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi leaves the field out when the last entry has no id. With null it is a root all the same, and strict
    readers (the 0.83 harness) take the file.
    """
    append: JsonObject = pi["append"]
    if append.get("firstAppendedHasParentKey") is not False:
        return None
    return {**pi, "append": {**append, "firstAppendedHasParentKey": True}}


def a_version_that_is_no_number_changes_nothing(pi: JsonObject, ours: JsonObject) -> JsonObject | None:
    """Pi writes the same entries again, which may change the style of the JSON and drops lines that it
    skipped. Here a session line, once written, is never rewritten.
    """
    if pi["fileAfterOpen"] != "rewritten" or "header" not in pi or format_version(pi["header"]) <= 3:
        return None
    ours_instead: JsonObject = {
        **pi,
        "fileAfterOpen": ours["fileAfterOpen"],
        "append": {**pi["append"], "originalBytesKept": True},
    }
    ours_instead.pop("linesAfterOpen", None)
    return ours_instead


DIFFERENCES: tuple[Callable[[JsonObject, JsonObject], JsonObject | None], ...] = (
    a_cycle_is_an_error,
    an_empty_file_is_an_error,
    errors_have_a_reason,
    a_missing_message_matters_only_where_it_is_read,
    an_appended_entry_always_has_a_parent_field,
    a_version_that_is_no_number_changes_nothing,
)


def adapt(pi: JsonObject, ours: JsonObject) -> JsonObject:
    """What we should have done where Pi did `pi`, by the rules above."""
    expected = pi
    for difference in DIFFERENCES:
        changed = difference(expected, ours)
        expected = expected if changed is None else changed
    return expected
