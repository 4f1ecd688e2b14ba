"""A claim that nothing follows is settled in the store, so that its late process is fenced."""

import json

from checkpoint.head import AlreadyTerminal, Claimed, Fenced, Terminal
from checkpoint.head_writer import HeadWriter
from runner.server.heads import StoredHeads
from tests.fakes.memory_store import MemoryStore
from tests.unit.checkpoint.checkpoints import claimant

RECORD = Terminal(body="{}", webhook_id="term_p1", manifest=None, digest=None)


def claimed(store: MemoryStore) -> HeadWriter:
    writer = HeadWriter(store, "p1", pause=lambda _: None)
    assert isinstance(writer.claim(claimant("mine")), Claimed)
    return writer


def test_a_claim_becomes_lost_and_its_late_process_is_fenced() -> None:
    store = MemoryStore()
    zombie = claimed(store)
    seen = StoredHeads(store).settle_as_lost("p1", "attempt 3 of 3 was lost")
    assert seen is not None
    assert seen.body is not None
    settlement = json.loads(seen.body)["settlement"]
    assert settlement["reason"] == "lost"
    assert settlement["message"].startswith("attempt 3 of 3 was lost: ")
    assert isinstance(zombie.commit_terminal(RECORD), Fenced)
    assert StoredHeads(store).look("p1") == seen


def test_a_record_that_came_meanwhile_stands() -> None:
    store = MemoryStore()
    claimed(store).commit_terminal(RECORD)
    assert StoredHeads(store).settle_as_lost("p1", "lost") is None
    again = HeadWriter(store, "p1").claim(claimant("other", attempt=2))
    assert isinstance(again, AlreadyTerminal)
    assert StoredHeads(store).settle_as_lost("p2", "lost") is None, "nobody has claimed it"
