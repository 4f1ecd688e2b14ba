"""What must hold of one pipeline whatever happened to its processes: the invariants of docs/guarantees.md as checks.

Read with the product's own restore (the session restores) and, where it counts, from the raw objects.
"""

import hashlib
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint.head import Head, parse_head
from checkpoint.keys import head_key
from checkpoint.manifest import RestorePoint, parse_manifest
from checkpoint.restore import fetch
from checkpoint.session.context import load_context
from checkpoint.session.indexer import SessionIndexer
from checkpoint.store.port import ObjectStore
from settlement.callback import Terminal
from tests.e2e.models_scene import KEY
from tests.e2e.scene import Json, Run, messages, texts

if TYPE_CHECKING:
    from tests.faults.world import Trial


class Watched:
    """The objects of one store, looked at after every end of a process: nothing immutable may ever change or go."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._seen: dict[str, str] = {}

    def look(self) -> None:
        """Invariant 4: stored segments and manifests never change and are never deleted."""
        now: dict[str, str] = {}
        for found in self._store.list("sessions/"):
            stored = self._store.get(found.key)
            assert stored is not None, found.key
            now[found.key] = hashlib.sha256(stored.data).hexdigest()
            assert KEY.encode() not in stored.data, f"a secret is in {found.key}"
        changed = {key for key, digest in self._seen.items() if now.get(key) != digest}
        assert not changed, f"stored objects changed or vanished: {changed}"
        self._seen = now


def head_of(store: ObjectStore, pipeline_id: str) -> Head | None:
    key = head_key(pipeline_id)
    stored = store.get(key)
    return None if stored is None else parse_head(stored.data, store.address(key))


def check_before_callback(store: ObjectStore, pipeline_id: str, body: bytes) -> None:
    """Invariant 2: a callback comes after its checkpoint and its record are stored, which holds its exact bytes."""
    head = head_of(store, pipeline_id)
    assert head is not None, "a callback without a head"
    assert head.fields.terminal is not None, "a callback before its record"
    assert head.fields.terminal.body.encode() == body, "a callback with other bytes than the record"
    checkpoint = json.loads(body)["checkpoint"]
    if checkpoint["decision"] == "commit":
        restored_bytes(store, checkpoint["manifest"], checkpoint["digest"])


def restored_bytes(store: ObjectStore, manifest: str, digest: str) -> bytes:
    """The session's lines, by the product's own restore."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        path, indexer = Path(folder, "session.jsonl"), SessionIndexer()
        fetch(store, RestorePoint(manifest=manifest, digest=digest), path, indexer)
        load_context(path, indexer.finish())
        return path.read_bytes()


def check_restorable(trial: "Trial") -> None:
    """Invariant 4, at any time: what the server has committed for the session can be restored."""
    point = trial.world.server.restore_point(trial.session_id)
    if point is not None and point.manifest is not None and point.digest is not None:
        restored_bytes(trial.store, point.manifest, point.digest)


def check_settled(trial: "Trial", run: Run, *, may_repeat: bool = True) -> list[Json]:
    """Everything, once the relaunches have come to an end. Returns the entries of the committed session.

    `may_repeat`: a tool may have run again after a kill, as `checkpoint.every: end` allows.
    """
    assert run.exit == 0, (run.exit, run.stderr)
    assert not [one.exit for one in trial.runs if one.exit == 70], "a defect"
    terminal = check_committed_once(trial)
    assert run.terminal == terminal.model_dump(mode="json") | {"labels": run.terminal["labels"]}
    assert terminal.settlement.kind == trial.scenario.kind
    entries = check_session(trial, terminal)
    assert terminal.input_consumed
    asked = [block["id"] for message in messages(entries, "assistant") for block in _calls(message)]
    answered = [message["toolCallId"] for message in messages(entries, "toolResult")]
    assert asked == answered, "tool calls and their results do not match"
    check_questions(trial, terminal, entries)
    check_tools(trial, entries, may_repeat=may_repeat)
    check_secrets(trial)
    return entries


def check_kept(trial: "Trial", run: Run, reason: str) -> None:
    """It failed before it began: one terminal record, the session where it was, the input still to be given."""
    assert run.exit == 0, (run.exit, run.stderr)
    before = trial.world.server.restore_point(trial.session_id)
    terminal = check_committed_once(trial)
    assert terminal.settlement.kind == "failure"
    assert terminal.settlement.reason == reason
    assert terminal.checkpoint.decision == "keep_previous"
    assert not terminal.input_consumed
    assert before is not None
    assert before.manifest is not None
    assert before.digest is not None
    assert restored_bytes(trial.store, before.manifest, before.digest) == trial.base


def check_committed_once(trial: "Trial") -> Terminal:
    """Invariants 1 and 2: one terminal record in the store, acknowledged; the same one at the server, once."""
    committed = [one for one in trial.world.server.committed if one.pipeline_id == trial.pipeline_id]
    assert len(committed) == 1, f"{len(committed)} terminal records committed"
    head = head_of(trial.store, trial.pipeline_id)
    assert head is not None
    assert head.fields.state in ("terminal", "acknowledged"), head.fields.state
    assert head.fields.terminal is not None
    assert set(trial.told) == {head.fields.terminal.body.encode()}, "callbacks of one pipeline with different bodies"
    return committed[0]


def check_session(trial: "Trial", terminal: Terminal) -> list[Json]:
    """Invariants 4 and 6: the committed session restores, goes on from the old lines, and has the input once, or not
    at all if the record says that it was not taken.
    """
    point = trial.world.server.restore_point(trial.session_id)
    assert point is not None
    assert point.manifest is not None
    assert point.digest is not None
    assert (point.manifest, point.digest) == (terminal.checkpoint.manifest, terminal.checkpoint.digest)
    lines = restored_bytes(trial.store, point.manifest, point.digest)
    assert lines.startswith(trial.base), "a restored line was changed"
    stored = trial.store.get(point.manifest)
    assert stored is not None
    assert parse_manifest(stored.data, point.manifest).bytes == len(lines)
    header, *entries = [json.loads(line) for line in lines.splitlines()]
    assert header["type"] == "session"
    assert len(entries) == terminal.checkpoint.entries, "an acknowledged entry is missing"
    ids = Counter(entry["id"] for entry in entries)
    assert max(ids.values()) == 1, "an entry is there twice"
    given: Any = trial.input
    wanted = given["reply"]["message"] if "reply" in given else given["message"]
    said = [texts(message) for message in messages(entries, "user")]
    assert said.count(wanted) == int(terminal.input_consumed), f"the input is there {said.count(wanted)} times"
    return entries


def check_questions(trial: "Trial", terminal: Terminal, entries: list[Json]) -> None:
    """Invariant 5: `ask_user` is a question that the server shows and whose result is in the session; no other card."""
    listed = {question.question_id for question in terminal.questions}
    owed = trial.world.server.owed(trial.pipeline_id)
    shown = [card.question_id for card in trial.world.server.cards if card.pipeline_id == trial.pipeline_id]
    assert len(shown) == len(set(shown)), "a question was shown twice"
    assert set(owed.wait_for) == listed
    assert set(shown) == listed | set(owed.withdraw), "a card was neither listed nor withdrawn"
    assert trial.every != "call" or set(shown) == listed, "a question was asked anew"
    if terminal.settlement.kind == "ask_user":
        assert len(listed) == 1
        results = [message for message in messages(entries, "toolResult") if message["toolName"] == "ask_user"]
        assert "ask_user_sent" in texts(results[-1])


def check_tools(trial: "Trial", entries: list[Json], *, may_repeat: bool) -> None:
    """A call with a good result had its effect; one that had it more than once only where that is allowed."""
    effects = Counter(trial.journal)
    notes = [message for message in messages(entries, "toolResult") if message["toolName"] == "note"]
    for message in notes:
        if message["isError"]:
            said = texts(message)  # in doubt after a takeover, or ended by a signal
            assert "not known whether" in said or "aborted" in said, said
        elif message["toolCallId"] != "call_note" or not trial.scenario.replies:
            assert effects[message["toolCallId"]] >= 1, "a result without its effect"
    if not may_repeat:
        assert not effects or max(effects.values()) == 1, f"a call had its effect more than once: {effects}"


def check_secrets(trial: "Trial") -> None:
    """Invariant 7, where this harness can see it."""
    said = "".join(run.output + run.stderr for run in trial.runs)
    assert KEY not in said
    assert trial.world.server.secret not in said


def _calls(message: Json) -> list[Json]:
    return [block for block in message["content"] if block.get("type") == "toolCall"]
