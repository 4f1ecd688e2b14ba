"""What a report says before the conversation, as titled lists of facts, the same in text and HTML. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from checkpoint.jsontypes import JsonObject
from runner.inspection.wording import basis_words, settlement_words


@dataclass(frozen=True, slots=True)
class Section:
    """`facts`: by their name; absent ones are left out. `items`: a list below them. `text`: long, to be folded."""

    name: str
    title: str
    facts: Mapping[str, str]
    items: tuple[str, ...] = ()
    text: str | None = None


_OF_BODY = ("input_consumed", "questions", "checkpoint", "undelivered", "warnings", "usage", "timings", "labels")


def sections(overview: JsonObject) -> Iterator[Section]:
    """From an overview; only those that have something to say."""
    source, session, head = overview["source"], overview["session"], overview["head"]
    where = {"source": f"{source['address']} ({source['kind']})", "session": basis_words(source["basis"])}
    yield Section("source", "Source", _facts(where))
    if head is not None:
        yield Section("pipeline", "Pipeline", _pipeline(head))
    if overview["terminal"] is not None:
        yield _settlement(overview["terminal"])
    if overview["checkpoint"] is not None:
        restored = {"restore point": source["restore_point"]}
        yield Section("checkpoint", "Checkpoint", _facts({**overview["checkpoint"], **restored}))
    if session is not None:
        yield Section("session", "Session", _session(session))
    if overview["warnings"]:
        yield Section("warnings", "Warnings", {}, tuple(overview["warnings"]))
    if overview["damage"]:
        damage = (f"{item['place']}: {item['what']}" for item in overview["damage"])
        yield Section("damage", "Damage", {}, tuple(damage))


def _pipeline(head: JsonObject) -> Mapping[str, str]:
    claim = f"attempt {head['attempt']}, claim {head['claim_id']}, revision {head['revision']}"
    return _facts(
        {
            "pipeline": f"{head['pipeline_id']} of session {head['session_id']}",
            "state": head["state"],
            "claim": f"{claim}, claimed at {head['claimed_at']}",
            "limits": f"deadline {head['deadline_s']:g} s, grace {head['grace_s']:g} s",
            "callback": head["callback_url"],
            "restored": head["restore"],
            "progress": head["progress"],
        }
    )


def _settlement(body: JsonObject) -> Section:
    settlement: Any = body.get("settlement")
    text = cast("JsonObject", settlement).get("text") if isinstance(settlement, dict) else None
    facts = {"settled as": settlement_words(body), **{name: body.get(name) for name in _OF_BODY}}
    return Section("settlement", "Settlement", _facts(facts), (), text if isinstance(text, str) else None)


def _session(session: JsonObject) -> Mapping[str, str]:
    times = f"{session['first_at']} to {session['last_at']}" if session["first_at"] else None
    return _facts(
        {
            "id": session["id"],
            "name": session["name"],
            "version": session["version"],
            "entries": f"{session['entries']:,} ({session['active_entries']:,} on the active branch)",
            "bytes": f"{session['bytes']:,}",
            "leaf": session["leaf_id"],
            "model": session["model"],
            "thinking": session["thinking_level"],
            "time": times,
            "folder": session["cwd"],
            "forked from": session["parent_session"],
            "kinds": ", ".join(f"{count} {kind}" for kind, count in session["types"].items()),
        }
    )


def _facts(facts: Mapping[str, Any]) -> Mapping[str, str]:
    shown = {name: value for name, value in facts.items() if value is not None and value not in ([], {}, "")}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in shown.items()}
