from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.keys import CONDITIONS_MARKER
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.port import Conflict, PutResult, Written
from tests.fakes.memory_store import MemoryStore


class IgnoresNoneMatch(MemoryStore):
    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        self.objects.pop(key, None)
        return super().put_if_absent(key, body)


class IgnoresMatch(MemoryStore):
    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        del etag
        self.objects[key] = body
        self.writes.append((key, len(body)))
        return Written('"any"')


class IgnoresBoth(IgnoresMatch, IgnoresNoneMatch):
    pass


class Busy(MemoryStore):
    """Answers 409 a number of times first."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        self.times -= 1
        return Conflict() if self.times >= 0 else super().put_if_absent(key, body)


@pytest.mark.parametrize("there", [False, True], ids=["first", "again"])
@pytest.mark.parametrize(
    ("store", "header"),
    [(IgnoresNoneMatch(), "If-None-Match"), (IgnoresMatch(), "If-Match"), (IgnoresBoth(), "If-None-Match")],
    ids=["none-match", "match", "both"],
)
def test_a_store_that_ignores_a_condition_is_refused_by_name(store: MemoryStore, header: str, there: bool) -> None:
    if there:
        store.objects[CONDITIONS_MARKER] = b"{}"
    with pytest.raises(StoreError, match=rf"memory:///.*{header}.*store\.unsafe_conditions") as failure:
        prove_conditions(store)
    assert failure.value.reason == "unsafe_conditions"


def test_unsafe_conditions_asks_nothing() -> None:
    store = IgnoresBoth()
    prove_conditions(store, unsafe_conditions=True)
    assert store.writes == []


def test_once_the_marker_is_there_the_proof_is_two_requests_and_changes_nothing() -> None:
    store = MemoryStore()
    prove_conditions(store)
    before = dict(store.objects)
    store.writes.clear()
    prove_conditions(store)
    assert len(store.writes) == 2
    assert store.objects == before


def test_a_conflict_is_waited_out() -> None:
    waited: list[float] = []
    prove_conditions(Busy(2), pause=waited.append)
    assert len(waited) == 2


def test_a_store_that_only_conflicts_is_no_proof_of_anything() -> None:
    with pytest.raises(StoreError) as failure:
        prove_conditions(Busy(1000), pause=lambda _: None)
    assert failure.value.reason == "unreachable"
