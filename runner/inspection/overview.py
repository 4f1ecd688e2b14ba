"""Everything about a source but the words of its conversation, as one JSON object (docs/inspection.md).

The reports show it, `runner inspect --format json` prints it, `runner diff` compares parts of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import msgspec

from checkpoint.head import Head
from checkpoint.jsontypes import JsonObject
from checkpoint.manifest import Manifest
from checkpoint.segments import total_bytes
from checkpoint.session.ids import iso_time
from checkpoint.session.javascript import UNDEFINED
from runner.inspection.session_file import SessionFile
from runner.inspection.source import Source
from runner.inspection.survey import Survey, Turn, survey


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A session and what one pass over it has shown. `active`: positions of the active branch, to their place on it."""

    file: SessionFile
    found: Survey
    active: Mapping[int, int]
    cycle: bool


def surveyed(file: SessionFile) -> Surveyed:
    """Look at every entry once, decoding one at a time."""
    branch = file.index.branch()
    active = {position: place for place, position in enumerate(branch.positions)}
    return Surveyed(file, survey(file.entries(), active), active, branch.cycle is not None)


def overview(source: Source, session: Surveyed | None, files: Mapping[str, Surveyed]) -> JsonObject:
    """The whole but `tree` and `entries`."""
    damage = [{"place": item.place, "what": item.what} for item in source.damage]
    for one in (session, *files.values()):
        if one is not None:
            damage += [{"place": f"line {line}", "what": what} for line, what in one.found.faults]
            damage += [{"place": "active branch", "what": "it is a cycle and has no beginning"}] if one.cycle else []
    return {
        "version": 1,
        "type": "inspection",
        "source": {
            "address": source.address,
            "kind": source.kind,
            "basis": source.basis,
            "restore_point": msgspec.to_builtins(source.restore_point),
            "parent": msgspec.to_builtins(source.parent),
        },
        "head": None if source.head is None else head_facts(source.head),
        "terminal": source.terminal,
        "checkpoint": None if source.manifest is None else checkpoint_facts(source.manifest),
        "session": None if session is None else session_facts(session),
        "usage": None if session is None else usage_facts(session),
        "files": [
            {"name": name, "session": session_facts(one), "usage": usage_facts(one)} for name, one in files.items()
        ],
        "warnings": list(source.warnings),
        "damage": damage,
    }


def head_facts(head: Head) -> JsonObject:
    fields, progress = head.fields, head.fields.progress
    return {
        "pipeline_id": fields.pipeline_id,
        "session_id": fields.session_id,
        "state": fields.state,
        "attempt": fields.attempt,
        "claim_id": fields.claim_id,
        "revision": fields.revision,
        "claimed_at": fields.claimed_at,
        "deadline_s": fields.deadline_s,
        "grace_s": fields.grace_s,
        "callback_url": fields.callback_url,
        "restore": msgspec.to_builtins(fields.restore),
        "progress": None
        if progress is None
        else {
            "entries": progress.entries,
            "leaf_id": progress.leaf_id,
            "segments": len(progress.segments),
            "bytes": total_bytes(progress.segments),
            "input_consumed": progress.input_consumed,
            "usage": progress.usage,
            "stop": progress.stop,
        },
    }


def checkpoint_facts(manifest: Manifest) -> JsonObject:
    return {
        "session_id": manifest.session_id,
        "pipeline_id": manifest.pipeline_id,
        "attempt": manifest.attempt,
        "created_at": manifest.created_at,
        "runner": manifest.runner,
        "parent": msgspec.to_builtins(manifest.parent),
        "entries": manifest.entries,
        "bytes": manifest.bytes,
        "leaf_id": manifest.leaf_id,
        "segments": len(manifest.segments),
        "stored_bytes": sum(segment.stored_bytes for segment in manifest.segments),
        "pending_questions": msgspec.to_builtins(manifest.pending_questions),
        "counters": msgspec.to_builtins(manifest.counters),
        "files": [{"name": file.name, "lines": file.lines, "bytes": file.bytes} for file in manifest.files],
    }


def session_facts(session: Surveyed) -> JsonObject:
    file, found = session.file, session.found
    index = file.index
    return {
        "id": index.session_id,
        "version": index.header.get("version", 1) if file.old_version is None else file.old_version,
        "cwd": index.header.get("cwd"),
        "parent_session": index.header.get("parentSession"),
        "name": found.name,
        "entries": len(index),
        "active_entries": len(session.active),
        "bytes": index.size,
        "leaf_id": index.leaf_id,
        "model": found.model,
        "thinking_level": found.thinking_level,
        "first_at": None if found.first_ms is None else _iso(found.first_ms),
        "last_at": None if found.last_ms is None else _iso(found.last_ms),
        "types": found.types,
        "labels": found.labels,
    }


def usage_facts(session: Surveyed) -> JsonObject:
    found = session.found
    return {
        "total": asdict(found.usage),
        "turns": [_turn_facts(turn) for turn in found.turns],
        "other": [{"entry_id": use.entry_id, "what": use.what, "usage": asdict(use.usage)} for use in found.other],
    }


def _turn_facts(turn: Turn) -> JsonObject:
    return {
        "number": turn.number,
        "entry_id": turn.entry_id,
        "active": turn.active,
        "model": turn.model,
        "stop_reason": turn.stop_reason,
        "error": turn.error,
        "usage": asdict(turn.usage),
        "model_ms": model_ms(turn),
        "tools": [
            {
                "call_id": tool.call_id,
                "name": tool.name,
                "result_entry_id": tool.result_entry_id,
                "failed": tool.failed,
                "ms": tool.ms,
            }
            for tool in turn.tools
        ],
    }


def model_ms(turn: Turn) -> int | None:
    """From the entry that was answered to the answer."""
    return None if turn.began_ms is None or turn.ended_ms is None else max(0, turn.ended_ms - turn.began_ms)


def tree_facts(session: Surveyed) -> list[JsonObject]:
    """Every entry with its parent, in file order."""
    labels = session.found.labels
    rows: list[JsonObject] = []
    for position, head in enumerate(session.file.index.heads):
        label = labels.get(head.id) if isinstance(head.id, str) else None
        rows.append(
            {
                "id": None if head.id is UNDEFINED else head.id,
                "parent_id": None if head.parent_id is UNDEFINED else head.parent_id,
                "type": None if head.type is UNDEFINED else head.type,
                "line": session.file.index.lines[position],
                "active": position in session.active,
                **({} if label is None else {"label": label}),
            }
        )
    return rows


def _iso(ms: int) -> str | None:
    """None for a time that no calendar has."""
    try:
        return iso_time(ms)
    except (ValueError, OverflowError, OSError):
        return None
