from typing import Any

import pytest

from checkpoint.errors import DamagedRecord, StoreError
from checkpoint.head import (
    Acknowledged,
    AlreadyTerminal,
    Claimed,
    Fenced,
    OtherSession,
    Progress,
    RejectedBefore,
    Terminal,
    Updated,
    parse_head,
)
from checkpoint.head_writer import ROUNDS, HeadWriter, new_claim_id
from checkpoint.keys import head_key
from checkpoint.manifest import chain_of
from checkpoint.store.port import Conflict, PutResult
from tests.fakes.memory_store import MemoryStore
from tests.unit.checkpoint.checkpoints import claimant

KEY = head_key("p1")
TERMINAL = Terminal(body='{"type": "terminal"}', webhook_id="term_p1", manifest=None, digest=None)
OTHER = Terminal(body="{}", webhook_id="term_p1", manifest=None, digest=None)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def progress(entries: int) -> Progress:
    return Progress(
        segments=(), entries=entries, leaf_id=None, chain=chain_of(()), input_consumed=False, usage={"turns": entries}
    )


def stored(store: MemoryStore) -> dict[str, Any]:
    return parse_head(store.objects[KEY], KEY).json


def writer(store: MemoryStore) -> HeadWriter:
    return HeadWriter(store, "p1", pause=lambda _: None)


def claimed(store: MemoryStore, claim_id: str = "mine", attempt: int = 1) -> HeadWriter:
    made = writer(store)
    assert isinstance(made.claim(claimant(claim_id, attempt=attempt)), Claimed)
    return made


def lose_answers(store: MemoryStore, count: int, operation: str = "put") -> None:
    """The next `count` such calls take effect, and their answers are lost."""
    left = [count]

    def after(made: str, key: str) -> None:
        if made.startswith(operation) and key == KEY and left[0] > 0:
            left[0] -= 1
            raise StoreError("unreachable", "the answer was lost")

    store.after = after


def test_a_pipeline_runs_through_its_states_one_revision_each(store: MemoryStore) -> None:
    mine = claimed(store)
    assert (stored(store)["revision"], stored(store)["state"]) == (1, "claimed")
    assert isinstance(mine.update(progress(2)), Updated)
    assert (stored(store)["revision"], stored(store)["progress"]["entries"]) == (2, 2)
    assert isinstance(mine.commit_terminal(TERMINAL), Updated)
    assert (stored(store)["revision"], stored(store)["state"]) == (3, "terminal")
    assert stored(store)["terminal"]["body"] == TERMINAL.body
    assert isinstance(mine.acknowledge(), Acknowledged)
    assert (stored(store)["revision"], stored(store)["state"]) == (4, "acknowledged")
    assert len(store.writes) == 4


def test_a_rejection_is_noted(store: MemoryStore) -> None:
    mine = claimed(store)
    mine.commit_terminal(TERMINAL)
    assert isinstance(mine.reject(), RejectedBefore)
    assert stored(store)["state"] == "rejected"


def test_a_first_claim_is_a_single_request(store: MemoryStore) -> None:
    made: list[str] = []

    def before(operation: str, key: str) -> None:
        made.append(f"{operation} {key}")

    store.before = before
    claimed(store)
    assert made == [f"put_if_absent {KEY}"]


def test_a_takeover_carries_restore_point_and_progress_and_fences_the_old_owner(store: MemoryStore) -> None:
    old = claimed(store, "old")
    old.update(progress(5))
    before = stored(store)
    new = writer(store)
    result = new.claim(claimant("new", attempt=2))
    assert isinstance(result, Claimed)
    assert result.over is not None
    assert result.head.fields.progress == progress(5)
    assert stored(store) == {**before, "attempt": 2, "claim_id": "new", "revision": 3}
    for write in (lambda: old.update(progress(6)), lambda: old.commit_terminal(TERMINAL), old.acknowledge):
        assert isinstance(write(), Fenced)
    assert stored(store)["claim_id"] == "new"
    assert isinstance(new.commit_terminal(OTHER), Updated)


def test_the_other_rows_of_the_claim_table_write_nothing(store: MemoryStore) -> None:
    claimed(store, "old", attempt=2)
    assert isinstance(writer(store).claim(claimant("new", attempt=2)), Fenced)
    assert isinstance(writer(store).claim(claimant("new", attempt=3, session_id="s2")), OtherSession)
    assert stored(store)["claim_id"] == "old"


def test_a_relaunch_finds_the_stored_terminal_and_can_acknowledge_it(store: MemoryStore) -> None:
    claimed(store).commit_terminal(TERMINAL)
    again = writer(store)
    result = again.claim(claimant("new", attempt=2))
    assert isinstance(result, AlreadyTerminal)
    assert result.head.fields.terminal == TERMINAL
    assert isinstance(again.acknowledge(), Acknowledged)
    assert isinstance(writer(store).claim(claimant("newer", attempt=3)), Acknowledged)


def test_a_redelivery_reads_the_head_and_acknowledges_it(store: MemoryStore) -> None:
    claimed(store).commit_terminal(TERMINAL)
    deliverer = writer(store)
    read = deliverer.read()
    assert read is not None
    assert read.fields.terminal == TERMINAL
    assert isinstance(deliverer.acknowledge(), Acknowledged)
    assert writer(MemoryStore()).read() is None


def test_two_redeliveries_both_hear_what_was_noted_first(store: MemoryStore) -> None:
    owner = claimed(store)
    owner.commit_terminal(TERMINAL)
    other = writer(store)
    other.read()
    assert isinstance(owner.reject(), RejectedBefore)
    assert isinstance(other.acknowledge(), RejectedBefore)
    assert isinstance(other.reject(), RejectedBefore)
    assert stored(store)["state"] == "rejected"


def test_writing_before_claiming_is_a_defect(store: MemoryStore) -> None:
    with pytest.raises(RuntimeError):
        writer(store).commit_terminal(TERMINAL)


def test_a_terminal_record_is_final(store: MemoryStore) -> None:
    mine = claimed(store)
    mine.commit_terminal(TERMINAL)
    assert isinstance(mine.commit_terminal(OTHER), AlreadyTerminal)
    assert isinstance(mine.update(progress(9)), AlreadyTerminal)
    assert stored(store)["terminal"]["body"] == TERMINAL.body
    assert stored(store)["progress"] is None


def test_unknown_fields_of_a_later_writer_survive_every_write(store: MemoryStore) -> None:
    mine = claimed(store, "old")
    store.objects[KEY] = store.objects[KEY][:-1] + b',"later":{"x":[1]}}'
    assert mine.read() is not None
    mine.update(progress(1))
    new = claimed(store, "new", attempt=2)
    new.commit_terminal(TERMINAL)
    new.acknowledge()
    assert stored(store)["later"] == {"x": [1]}


# Lost answers and conflicts.


def test_a_claim_whose_answer_was_lost_may_be_made_again(store: MemoryStore) -> None:
    mine = writer(store)
    lose_answers(store, 1)
    with pytest.raises(StoreError):
        mine.claim(claimant())
    assert isinstance(mine.claim(claimant()), Claimed)
    assert isinstance(mine.commit_terminal(TERMINAL), Updated)


def test_a_write_that_the_stores_own_retry_made_twice_is_ours(store: MemoryStore) -> None:
    class RetriesItself(MemoryStore):
        """Every conditional replacement takes effect, and its retry gets the answer."""

        def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
            super().put_if_match(key, body, etag)
            return super().put_if_match(key, body, etag)

    mine = claimed(RetriesItself())
    assert isinstance(mine.update(progress(1)), Updated)
    assert isinstance(mine.commit_terminal(TERMINAL), Updated)
    assert isinstance(mine.acknowledge(), Acknowledged)


def test_after_a_lost_answer_the_next_write_goes_on_from_what_took_effect(store: MemoryStore) -> None:
    mine = claimed(store)
    lose_answers(store, 1)
    with pytest.raises(StoreError):
        mine.update(progress(1))
    assert isinstance(mine.update(progress(2)), Updated)
    assert stored(store)["progress"]["entries"] == 2
    assert stored(store)["revision"] == 3


def test_a_lost_commit_is_found_by_the_next_one_and_not_replaced(store: MemoryStore) -> None:
    mine = claimed(store)
    lose_answers(store, 1)
    with pytest.raises(StoreError):
        mine.commit_terminal(TERMINAL)
    result = mine.commit_terminal(OTHER)
    assert isinstance(result, AlreadyTerminal)
    assert result.head.fields.terminal == TERMINAL
    assert isinstance(mine.acknowledge(), Acknowledged)


def test_conflicts_are_waited_out_a_bounded_number_of_times(store: MemoryStore) -> None:
    class Busy(MemoryStore):
        conflicts = 0

        def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
            self.conflicts -= 1
            return Conflict() if self.conflicts >= 0 else super().put_if_match(key, body, etag)

    busy = Busy()
    waited: list[float] = []
    mine = HeadWriter(busy, "p1", pause=waited.append)
    mine.claim(claimant())
    busy.conflicts = 2
    assert isinstance(mine.update(progress(1)), Updated)
    assert len(waited) == 2
    busy.conflicts = 1000
    with pytest.raises(StoreError, match=r"head\.json") as failure:
        mine.update(progress(2))
    assert failure.value.reason == "unreachable"
    assert len(waited) == 2 + ROUNDS


def test_a_vanished_record_fences(store: MemoryStore) -> None:
    mine = claimed(store)
    store.objects.clear()
    assert mine.commit_terminal(TERMINAL) == Fenced(None)
    assert store.objects == {}


def test_garbage_in_the_place_of_the_head_is_named_and_left_alone(store: MemoryStore) -> None:
    store.objects[KEY] = b"garbage"
    with pytest.raises(DamagedRecord, match=r"memory:///pipelines/p1/head\.json"):
        writer(store).claim(claimant())
    assert store.objects[KEY] == b"garbage"


def test_claim_ids_are_ids_and_differ() -> None:
    ids = {new_claim_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(made) == 16 and made.isalnum() for made in ids)
