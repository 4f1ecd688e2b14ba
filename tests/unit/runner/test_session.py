"""Opening a session, over every recorded file: what the rest of the process gets to see."""

import json
import shutil
from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.freeze import NOTHING_STORED
from checkpoint.head import Head, HeadFields
from checkpoint.manifest import RestorePoint
from checkpoint.session.index import OnDamage
from checkpoint.session.indexer import SessionIndexer
from runner.session import OpenSession, open_session
from settlement.outcome import BeforeRunFailure
from tests.fakes.memory_store import MemoryStore

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "session").glob("*.jsonl"))


def claimed(restore: RestorePoint | None) -> Head:
    fields = HeadFields(
        version=1,
        pipeline_id="p1",
        session_id="s1",
        attempt=1,
        claim_id="c1",
        revision=1,
        state="claimed",
        claimed_at="2026-01-01T00:00:00.000Z",
        deadline_s=10.0,
        grace_s=1.0,
        callback_url=None,
        restore=restore,
        progress=None,
        terminal=None,
    )
    return Head(fields, {})


def opened(
    folder: Path, content: bytes | None, on_damage: OnDamage = "fail", store: MemoryStore | None = None
) -> OpenSession | BeforeRunFailure:
    """Open the session whose plain file has this content; None: a new one."""
    store = store or MemoryStore()
    if content is not None:
        store.objects["old.jsonl"] = content
    return open_session(
        store,
        claimed(RestorePoint(jsonl="old.jsonl") if content is not None else None),
        folder,
        on_damage=on_damage,
        workspace=Path("/workspace"),
        ask_tools=frozenset({"ask_user"}),
        other_store=None,
    )


@pytest.mark.parametrize("on_damage", ["fail", "skip"])
def test_every_recorded_file_is_opened_for_appending_or_refused_in_words(tmp_path: Path, on_damage: OnDamage) -> None:
    found = {OpenSession: 0, BeforeRunFailure: 0}
    for source in CORPUS:
        folder = tmp_path / source.stem
        folder.mkdir()
        session = opened(folder, source.read_bytes(), on_damage)
        found[type(session)] += 1
        if isinstance(session, BeforeRunFailure):
            assert session.reason == "restore_failed", source.name
            assert len(session.message) > 20, source.name
        else:
            session.log.append_message({"role": "user", "content": [], "timestamp": 0})
            session.log.close()
            check = SessionIndexer("skip")
            check.feed(session.path.read_bytes())
            index = check.finish()
            assert (index.leaf_id, index.size) == (session.log.leaf_id, session.log.size), source.name
            assert session.log.entries == session.kept.entries + 1, source.name
        shutil.rmtree(folder)
    assert found[OpenSession] > found[BeforeRunFailure] > 10


def test_a_new_session_has_a_header_and_nothing_else(tmp_path: Path) -> None:
    session = opened(tmp_path, None)
    assert isinstance(session, OpenSession)
    session.log.close()
    (header,) = [json.loads(line) for line in session.path.read_bytes().splitlines()]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, "/workspace")
    assert (session.messages, session.parent, session.pending, session.kept.entries) == ([], None, (), 0)
    assert session.stored == NOTHING_STORED


def test_failed_answers_at_the_end_stay_in_the_log_and_are_not_in_the_transcript(tmp_path: Path) -> None:
    source = next(path for path in CORPUS if path.stem == "error-tail-1").read_bytes()
    session = opened(tmp_path, source)
    assert isinstance(session, OpenSession)
    session.log.close()
    assert session.path.read_bytes().startswith(source)
    assert session.messages[-1].get("stopReason") not in ("error", "aborted")


def test_a_session_that_ends_with_a_question_waits_for_its_answer(tmp_path: Path) -> None:
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    result = {
        "role": "toolResult",
        "toolCallId": "call-1",
        "toolName": "ask_user",
        "content": [{"type": "text", "text": '{"ask_user_sent": true}'}],
        "isError": False,
        "timestamp": 0,
    }
    entry = {"type": "message", "id": "a1", "parentId": None, "timestamp": header["timestamp"], "message": result}
    session = opened(tmp_path, b"".join(json.dumps(line).encode() + b"\n" for line in (header, entry)))
    assert isinstance(session, OpenSession)
    session.log.close()
    assert session.pending == ("call-1",)


def test_a_store_that_cannot_be_reached_is_no_fault_of_the_session(tmp_path: Path) -> None:
    def down(_operation: str, _key: str) -> None:
        raise StoreError("unreachable", "The store is down.")

    with pytest.raises(StoreError):
        opened(tmp_path, b"", store=MemoryStore(before=down))
