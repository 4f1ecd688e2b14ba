"""The contract of `ObjectStore`, over the fake, the folder, moto and SeaweedFS."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.file_store import FileStore
from checkpoint.store.port import Conflict, ObjectStore, PreconditionFailed, PutResult, Written

KEY = "pipelines/p1/head.json"
RACERS = 12
STALE = '"00000000000000000000000000000000"'


def content(store: ObjectStore, key: str = KEY) -> bytes:
    found = store.get(key)
    assert found is not None
    return found.data


def written(answer: PutResult) -> str:
    assert isinstance(answer, Written)
    return answer.etag


def race(racers: Callable[[int], PutResult]) -> list[PutResult]:
    """All racers' answers, let loose at once."""
    gate = threading.Barrier(RACERS)

    def run(number: int) -> PutResult:
        gate.wait(timeout=20)
        return racers(number)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def test_a_missing_object_is_none_to_get_and_stream(store: ObjectStore) -> None:
    assert store.get(KEY) is None
    assert store.stream(KEY) is None


def test_an_object_reads_back_as_written_under_the_etag_of_its_write(store: ObjectStore) -> None:
    etag = written(store.put_if_absent(KEY, b"one"))
    found = store.get(KEY)
    assert found is not None
    assert (found.data, found.etag) == (b"one", etag)


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    written(store.put_if_absent(KEY, b""))
    assert content(store) == b""
    pieces = store.stream(KEY)
    assert pieces is not None
    assert b"".join(pieces) == b""


def test_an_object_that_exists_is_not_created_again(store: ObjectStore) -> None:
    store.put_if_absent(KEY, b"one")
    assert store.put_if_absent(KEY, b"two") == PreconditionFailed()
    assert store.put_if_absent(KEY, b"one") == PreconditionFailed()
    assert content(store) == b"one"


def test_an_object_is_replaced_under_its_etag_only(store: ObjectStore) -> None:
    first = written(store.put_if_absent(KEY, b"one"))
    second = written(store.put_if_match(KEY, b"two", first))
    assert store.put_if_match(KEY, b"three", first) == PreconditionFailed()
    assert store.put_if_match(KEY, b"three", STALE) == PreconditionFailed()
    assert content(store) == b"two"
    written(store.put_if_match(KEY, b"three", second))
    assert content(store) == b"three"


def test_the_etag_of_a_read_serves_for_a_replacement(store: ObjectStore) -> None:
    store.put_if_absent(KEY, b"one")
    found = store.get(KEY)
    assert found is not None
    written(store.put_if_match(KEY, b"two", found.etag))
    assert content(store) == b"two"


def test_replacing_what_is_not_there_fails_and_creates_nothing(store: ObjectStore) -> None:
    assert store.put_if_match(KEY, b"one", STALE) == PreconditionFailed()
    assert store.get(KEY) is None


def test_of_many_creators_exactly_one_wins(store: ObjectStore) -> None:
    answers = race(lambda number: store.put_if_absent(KEY, b"%d" % number))
    winners = [number for number, answer in enumerate(answers) if isinstance(answer, Written)]
    assert len(winners) == 1
    assert all(isinstance(answer, Written | PreconditionFailed | Conflict) for answer in answers)
    assert content(store) == b"%d" % winners[0]


def test_of_many_replacers_exactly_one_wins(store: ObjectStore) -> None:
    etag = written(store.put_if_absent(KEY, b"start"))
    answers = race(lambda number: store.put_if_match(KEY, b"%d" % number, etag))
    winners = [number for number, answer in enumerate(answers) if isinstance(answer, Written)]
    assert len(winners) == 1
    assert content(store) == b"%d" % winners[0]


def test_concurrent_increments_are_all_counted(store: ObjectStore) -> None:
    store.put_if_absent(KEY, b"0")

    def increment(_: int) -> PutResult:
        while True:
            found = store.get(KEY)
            assert found is not None
            answer = store.put_if_match(KEY, b"%d" % (int(found.data) + 1), found.etag)
            if isinstance(answer, Written):
                return answer

    race(increment)
    assert content(store) == b"%d" % RACERS


def test_a_large_body_goes_from_a_file_and_comes_back_in_pieces(store: ObjectStore, tmp_path: Path) -> None:
    body = bytes(range(256)) * 16 * 1024  # 4 MiB
    source = tmp_path / "body"
    source.write_bytes(body)
    written(store.put_if_absent("sessions/s1/large", source))
    pieces = store.stream("sessions/s1/large")
    assert pieces is not None
    received = list(pieces)
    assert b"".join(received) == body
    assert max(map(len, received)) <= 2**20
    assert store.put_if_absent("sessions/s1/large", source) == PreconditionFailed()


def test_a_stream_may_be_dropped_half_way(store: ObjectStore) -> None:
    store.put_if_absent(KEY, b"x" * 3 * 2**20)
    for _ in range(20):  # more often than a connection pool is wide
        pieces = store.stream(KEY)
        assert pieces is not None
        next(pieces)
        del pieces
    assert len(content(store)) == 3 * 2**20


def test_more_than_the_limit_is_not_read(store: ObjectStore) -> None:
    store.put_if_absent(KEY, b"12345")
    found = store.get(KEY, limit=5)
    assert found is not None
    with pytest.raises(StoreError, match="more than 4") as failure:
        store.get(KEY, limit=4)
    assert failure.value.reason == "too_large"


def test_objects_are_listed_by_prefix(store: ObjectStore) -> None:
    keys = {"a/b", "a-b", "a/c/c", "a0", "b/a", "a/B"}
    for key in keys:
        store.put_if_absent(key, key.encode())
    assert listed(store, "a") == keys - {"b/a"}
    assert listed(store, "a/") == {"a/b", "a/c/c", "a/B"}
    assert listed(store, "a/c") == {"a/c/c"}
    assert listed(store, "c") == set()
    found = next(store.list("b/a"))
    assert found.size == 3
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=5)


def test_the_age_of_an_object_is_told_by_the_stores_own_clock(store: ObjectStore) -> None:
    if isinstance(store, FileStore):
        with pytest.raises(StoreError, match="is no folder"):
            store.now()
    store.put_if_absent("seed", b"x")
    before = store.now()
    store.put_if_absent(KEY, b"one")
    after = store.now()
    found = store.get(KEY)
    assert found is not None
    second = timedelta(seconds=1.1)  # S3 tells whole ones
    assert found.modified is not None
    assert before - second < found.modified < after + second
    (seen,) = store.list(KEY)
    assert abs(seen.modified - found.modified) < second
    assert listed(store, "") == {"seed", KEY}, "asking for the time leaves nothing"


def listed(store: ObjectStore, prefix: str) -> set[str]:
    keys = [found.key for found in store.list(prefix)]
    assert len(keys) == len(set(keys))
    return set(keys)


def test_many_objects_are_all_listed(store: ObjectStore) -> None:
    keys = [f"many/{number:04}" for number in range(120)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store.put_if_absent, keys, [b"x"] * len(keys)))
    assert listed(store, "many/") == set(keys)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "../a",
        "a/../b",
        "./a",
        ".hidden",
        "a/.hidden",
        "a\nb",
        "a\x00b",
        "a\\b",
        "x" * 300,
    ],
)
def test_keys_that_could_leave_the_store_are_refused(store: ObjectStore, key: str) -> None:
    for call in (
        lambda: store.get(key),
        lambda: store.stream(key),
        lambda: store.put_if_absent(key, b"x"),
        lambda: store.put_if_match(key, b"x", STALE),
    ):
        with pytest.raises(StoreError, match="is no key") as failure:
            call()
        assert failure.value.reason == "misconfigured"


@pytest.mark.parametrize("key", ["a", "a.b", "ä/ü", "a b+c%20d&e=f?g#h", "x" * 255, "1/2/3/4/5/6"])
def test_unusual_keys_are_kept_apart_and_read_back(store: ObjectStore, key: str) -> None:
    written(store.put_if_absent(key, b"unusual"))
    assert content(store, key) == b"unusual"
    assert listed(store, key[:1]) == {key}


def test_the_store_proves_its_conditions_first_and_again(store: ObjectStore) -> None:
    prove_conditions(store)
    prove_conditions(store)
