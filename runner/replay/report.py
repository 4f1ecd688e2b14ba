"""What a replay came to, as text for a person or as one JSON object (docs/replay.md). Pure.

Whatever comes from the session is made harmless before it is shown.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.inspection.differences import ABSENT, Change, json_changes
from runner.inspection.visible_text import visible_line
from runner.models.shapes import an_object
from runner.replay.replaying import Replayed
from runner.replay.tape import Divergence

MAX_VALUE_CHARS = 400
"""Of one side of a change, as shown to a person; the JSON report has all of it."""
MAX_CHANGES = 20


class Report(Struct, frozen=True, kw_only=True):
    source: str
    entries: Sequence[JsonObject]
    replayed: Replayed
    settlement: JsonObject | None
    """What the replay came to; None if it did not come to its end."""
    changes: Sequence[Change] | None
    """Where the recorded terminal record differs from it; None if there is none to compare with."""
    until: str | None = None
    stopped: bool = False
    """A person ended the replay between two turns."""
    warnings: Sequence[str] = ()

    @property
    def same(self) -> bool:
        return self.replayed.divergence is None and not self.changes

    def entry_id(self, position: int) -> str | None:
        if not 0 <= position < len(self.entries):
            return None
        found = self.entries[position].get("id")
        return found if isinstance(found, str) else None


# --- text ---------------------------------------------------------------------------------------------------


def report_text(report: Report) -> str:
    replayed = report.replayed
    lines = [f"replay of {visible_line(report.source)}", f"replayed: {_amount(report)}"]
    lines += [f"warning: {visible_line(warning)}" for warning in report.warnings]
    for position in replayed.left:
        lines.append(
            f"note: {_at(report, position)}: the recorded run was left here without an answer, and so was the replay"
        )
    if replayed.divergence is None:
        lines.append(f"messages: same{_how_far(report)}")
    else:
        lines += _divergence_lines(report, replayed.divergence)
    lines += _settlement_lines(report)
    lines.append("same" if report.same else "different")
    return "".join(f"{line}\n" for line in lines)


def _amount(report: Report) -> str:
    replayed = report.replayed
    entries = _count(len(report.entries), "entry", "entries")
    return f"{_count(replayed.turns, 'turn')} in {_count(replayed.runs, 'run')}, {entries}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _how_far(report: Report) -> str:
    if report.stopped:
        return f", as far as {_at(report, report.replayed.at)}, where you ended it"
    return "" if report.until is None else f", until entry {visible_line(report.until)}"


def _at(report: Report, position: int) -> str:
    if not 0 <= position < len(report.entries):
        return "the beginning"
    entry = report.entries[position]
    kind = an_object(entry.get("message")).get("role") or entry.get("type")
    return f"entry {visible_line(str(entry.get('id')))} ({visible_line(str(kind))})"


def _divergence_lines(report: Report, divergence: Divergence) -> list[str]:
    lines = [f"different at {_at(report, divergence.position)}: {visible_line(divergence.what)}"]
    match divergence.cause:
        case "changed":
            return lines + change_lines(json_changes(divergence.recorded, divergence.replayed))
        case "unanswered" if divergence.recorded is None:
            return lines
        case "only_recorded" | "unanswered":
            return [*lines, f"  - recorded: {_shown(divergence.recorded)}"]
        case "only_replayed":
            return [*lines, *([f"  + replayed: {_shown(divergence.replayed)}"] if divergence.replayed else [])]


def _settlement_lines(report: Report) -> list[str]:
    settlement = report.settlement
    if settlement is None:
        return []
    said = settlement.get("reason") or settlement.get("text") or ""
    shown = f"settlement: {settlement['kind']}{f' ({_cut(visible_line(str(said)))})' if said else ''}"
    if report.changes is None:
        return [f"{shown}; no terminal record to compare it with"]
    if not report.changes:
        return [f"{shown}; the terminal record is the same"]
    return [f"{shown}; the terminal record differs", *change_lines(report.changes)]


def change_lines(changes: Sequence[Change]) -> list[str]:
    """A diff: each place that differs, with both values."""
    lines: list[str] = []
    for change in changes[:MAX_CHANGES]:
        lines.append(f"  {visible_line(change.path) or '(the whole)'}")
        lines += [f"  - recorded: {_shown(change.a)}", f"  + replayed: {_shown(change.b)}"]
    if len(changes) > MAX_CHANGES:
        lines.append(f"  and {len(changes) - MAX_CHANGES} more places")
    return lines


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "(absent)"
    return _cut(visible_line(json.dumps(value, ensure_ascii=False)))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}… ({len(text):,} characters)"


# --- JSON ---------------------------------------------------------------------------------------------------


def report_json(report: Report) -> str:
    """One line of ASCII."""
    replayed = report.replayed
    value: JsonObject = {
        "type": "replay",
        "source": report.source,
        "same": report.same,
        "runs": replayed.runs,
        "turns": replayed.turns,
        "entries": len(report.entries),
        "last_entry_id": report.entry_id(replayed.at),
        "until": report.until,
        "stopped": report.stopped,
        "left": [report.entry_id(position) for position in replayed.left],
        "difference": None if replayed.divergence is None else _divergence_json(report, replayed.divergence),
        "settlement": report.settlement,
        "settlement_changes": None if report.changes is None else [change_json(change) for change in report.changes],
        "warnings": list(report.warnings),
    }
    return json.dumps(value) + "\n"


def _divergence_json(report: Report, divergence: Divergence) -> JsonObject:
    changes: list[Change] = []
    if divergence.cause == "changed":
        changes = json_changes(divergence.recorded, divergence.replayed)
    return {
        "entry_id": report.entry_id(divergence.position),
        "cause": divergence.cause,
        "what": divergence.what,
        "recorded": divergence.recorded,
        "replayed": divergence.replayed,
        "changes": [change_json(change) for change in changes],
    }


def change_json(change: Change) -> JsonObject:
    """A side that does not have the place at all is left out."""
    sides = {"recorded": change.a, "replayed": change.b}
    return {"path": change.path, **{name: value for name, value in sides.items() if value is not ABSENT}}
