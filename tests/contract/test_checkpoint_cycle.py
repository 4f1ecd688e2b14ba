"""A pipeline's whole life on every store: claim, checkpoint, commit, acknowledge; then the next pipeline goes on."""

from pathlib import Path

from checkpoint.freeze import NOTHING_STORED, freeze
from checkpoint.head import Acknowledged, AlreadyTerminal, Claimant, Claimed, Fenced, Terminal, Updated
from checkpoint.head_writer import HeadWriter
from checkpoint.manifest import RestorePoint
from checkpoint.restore import fetch
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.port import ObjectStore
from checkpoint.upload import CheckpointFacts, upload
from tests.unit.checkpoint.checkpoints import HEADER, Collector, session_lines

DATA = HEADER + session_lines(30, text="x" * 5000)


def claimant(claim_id: str, attempt: int) -> Claimant:
    return Claimant("p1", "s1", attempt, claim_id, "2025-01-01T00:00:00.000Z", 3600, 25, None, None)


def facts(claim_id: str, parent: RestorePoint | None) -> CheckpointFacts:
    return CheckpointFacts("s1", "p1", 1, claim_id, "2025-01-01T00:00:00.000Z", "1.0.0", parent)


def test_a_session_goes_through_a_pipeline_and_on_into_the_next(store: ObjectStore, tmp_path: Path) -> None:
    prove_conditions(store)
    writer, late = HeadWriter(store, "p1"), HeadWriter(store, "p1")
    assert isinstance(writer.claim(claimant("c1", 1)), Claimed)
    assert isinstance(late.claim(claimant("c2", 1)), Fenced)

    store.put_if_absent("uploads/session.jsonl", DATA)
    log = tmp_path / "log.jsonl"
    fetched = fetch(store, RestorePoint(jsonl="uploads/session.jsonl"), log, Collector())
    assert fetched.stored == NOTHING_STORED
    candidate = freeze(log, size=fetched.size, entries=30, leaf_id="x", stored=fetched.stored)
    uploaded = upload(store, candidate, facts("c1", fetched.parent))
    terminal = Terminal(body="{}", webhook_id="term_p1", manifest=uploaded.key, digest=uploaded.digest)
    assert isinstance(writer.commit_terminal(terminal), Updated)
    assert isinstance(late.claim(claimant("c3", 2)), AlreadyTerminal)
    assert isinstance(writer.acknowledge(), Acknowledged)
    assert isinstance(late.acknowledge(), Acknowledged)

    again = tmp_path / "again.jsonl"
    restored = fetch(store, RestorePoint(manifest=uploaded.key, digest=uploaded.digest), again, Collector())
    assert again.read_bytes() == DATA
    with again.open("ab") as file:
        file.write(session_lines(1, start=30))
    grown = freeze(again, size=again.stat().st_size, entries=31, leaf_id="y", stored=restored.stored)
    second = upload(store, grown, facts("c9", restored.parent))
    assert len(second.manifest.segments) == 2
    third = tmp_path / "third.jsonl"
    fetch(store, RestorePoint(manifest=second.key, digest=second.digest), third, Collector())
    assert third.read_bytes() == again.read_bytes()


def test_a_takeover_fences_the_process_it_took_over_from(store: ObjectStore) -> None:
    stalled, relaunched = HeadWriter(store, "p1"), HeadWriter(store, "p1")
    stalled.claim(claimant("c1", 1))
    assert isinstance(relaunched.claim(claimant("c2", 2)), Claimed)
    mine = Terminal(body='{"by": "relaunched"}', webhook_id="term_p1", manifest=None, digest=None)
    theirs = Terminal(body='{"by": "stalled"}', webhook_id="term_p1", manifest=None, digest=None)
    assert isinstance(stalled.commit_terminal(theirs), Fenced)
    assert isinstance(relaunched.commit_terminal(mine), Updated)
    assert isinstance(stalled.commit_terminal(theirs), Fenced)
    found = HeadWriter(store, "p1").read()
    assert found is not None
    assert found.fields.terminal == mine
