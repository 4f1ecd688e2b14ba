import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from checkpoint.errors import RestoreFailed, StoreError
from checkpoint.freeze import Stored
from checkpoint.head import Progress
from checkpoint.manifest import RestorePoint, Segment, chain_of, digest_of
from checkpoint.restore import fetch
from checkpoint.segments import encode_segment
from checkpoint.store.port import ObjectStore
from checkpoint.upload import store_lines, upload
from tests.fakes.memory_store import MemoryStore
from tests.unit.checkpoint.checkpoints import (
    HEADER,
    Collector,
    candidate_of,
    checkpoint_of,
    facts,
    session_lines,
)

DATA = HEADER + session_lines(50)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "restored.jsonl"


def test_a_checkpoint_restores_to_the_bytes_it_was_made_of(store: MemoryStore, tmp_path: Path, dest: Path) -> None:
    uploaded, point = checkpoint_of(store, tmp_path / "log.jsonl", DATA)
    indexer = Collector()
    fetched = fetch(store, point, dest, indexer)
    assert dest.read_bytes() == indexer.data == DATA
    assert fetched.size == len(DATA)
    assert fetched.parent == point
    assert fetched.manifest == uploaded.manifest
    assert fetched.stored == Stored(restored=uploaded.manifest.segments)


def test_a_session_of_several_segments_and_frames_restores(store: MemoryStore, tmp_path: Path, dest: Path) -> None:
    data = HEADER + b"".join(os.urandom(300_000).hex().encode() + b"\n" for _ in range(60))  # 36 MB
    uploaded, point = checkpoint_of(store, tmp_path / "log.jsonl", data)
    assert len(uploaded.manifest.segments) == 3
    assert sum(segment.lines for segment in uploaded.manifest.segments) == 61
    fetch(store, point, dest, Collector())
    assert dest.read_bytes() == data


def test_a_log_that_grew_after_a_restore_stores_only_its_new_lines(
    store: MemoryStore, tmp_path: Path, dest: Path
) -> None:
    first, point = checkpoint_of(store, tmp_path / "log.jsonl", DATA)
    fetched = fetch(store, point, dest, Collector())
    grown = DATA + session_lines(3, start=50)
    second = upload(store, candidate_of(dest, grown, fetched.stored), facts("c2", parent=fetched.parent))
    assert second.manifest.segments[:-1] == first.manifest.segments
    assert second.manifest.segments[-1].lines == 3
    assert second.manifest.parent == point
    again = tmp_path / "again.jsonl"
    fetch(store, RestorePoint(manifest=second.key, digest=second.digest), again, Collector())
    assert again.read_bytes() == grown


@pytest.mark.parametrize("pack", [False, True], ids=["plain", "zstd"])
def test_a_plain_session_restores_and_nothing_of_it_counts_as_stored(
    store: MemoryStore, dest: Path, pack: bool
) -> None:
    stored = zstandard.compress(DATA) if pack else DATA
    store.put_if_absent("uploads/session.jsonl", stored)
    fetched = fetch(store, RestorePoint(jsonl="uploads/session.jsonl"), dest, Collector())
    assert dest.read_bytes() == DATA
    assert fetched.stored == Stored()
    assert fetched.parent == RestorePoint(jsonl="uploads/session.jsonl", digest=digest_of(stored))


@pytest.mark.parametrize("of", ["object", "lines"])
def test_the_digest_of_a_packed_session_may_be_that_of_the_object_or_of_its_lines(
    store: MemoryStore, dest: Path, of: str
) -> None:
    packed = zstandard.compress(DATA)
    store.put_if_absent("a.jsonl.zst", packed)
    point = RestorePoint(jsonl="a.jsonl.zst", digest=digest_of(packed if of == "object" else DATA))
    assert fetch(store, point, dest, Collector()).parent == point


def test_a_plain_session_restores_from_a_local_file(store: MemoryStore, tmp_path: Path, dest: Path) -> None:
    source = tmp_path / ".pi" / "a session.jsonl"
    source.parent.mkdir()
    source.write_bytes(DATA)
    fetch(store, RestorePoint(jsonl=source.as_uri()), dest, Collector())
    assert dest.read_bytes() == DATA
    assert source.read_bytes() == DATA


def test_a_plain_session_restores_from_another_bucket(store: MemoryStore, dest: Path) -> None:
    other = MemoryStore()
    other.put_if_absent("deep/a.jsonl", DATA)
    asked: list[str] = []

    def open_other(address: str) -> ObjectStore:
        asked.append(address)
        return other

    fetch(store, RestorePoint(jsonl="s3://archive/deep/a.jsonl"), dest, Collector(), other_store=open_other)
    assert asked == ["s3://archive"]
    assert dest.read_bytes() == DATA


# What a restore refuses: (what is wrong, how it comes to be, the reason and a word of the message).


Spoil = Callable[[MemoryStore, RestorePoint], RestorePoint]


def _gone_manifest(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    del store.objects[point.manifest or ""]
    return point


def _other_digest(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    del store
    return RestorePoint(manifest=point.manifest, digest=digest_of(b"other"))


def _garbage_manifest(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    return _with_manifest(store, point, b"\xff\x00 no json")


def _changed_chain(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    old = store.objects[point.manifest or ""]
    return _with_manifest(
        store,
        point,
        old.replace(b'"chain":"sha256:', b'"chain":"sha256:0', 1).replace(b'","entries"', b'"  ,"entries"'),
    )


def _with_manifest(store: MemoryStore, point: RestorePoint, data: bytes) -> RestorePoint:
    store.objects[point.manifest or ""] = data
    return RestorePoint(manifest=point.manifest, digest=digest_of(data))


def _segment_of(store: MemoryStore) -> str:
    return next(key for key in store.objects if "/segments/" in key)


def _gone_segment(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    del store.objects[_segment_of(store)]
    return point


def _flipped_segment(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    key = _segment_of(store)
    data = bytearray(store.objects[key])
    data[len(data) // 2] ^= 1
    store.objects[key] = bytes(data)
    return point


def _torn_segment(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    key = _segment_of(store)
    store.objects[key] = store.objects[key][:-7]
    return point


def _longer_segment(store: MemoryStore, point: RestorePoint) -> RestorePoint:
    store.objects[_segment_of(store)] += b"more"
    return point


@pytest.mark.parametrize(
    ("spoil", "reason", "named"),
    [
        (_gone_manifest, "missing", "checkpoints/"),
        (_other_digest, "wrong_digest", "checkpoints/"),
        (_garbage_manifest, "damaged", "checkpoints/"),
        (_changed_chain, "damaged", "checkpoints/"),
        (_gone_segment, "missing", "segments/"),
        (_flipped_segment, "damaged", "segments/"),
        (_torn_segment, "damaged", "segments/"),
        (_longer_segment, "damaged", "segments/"),
    ],
)
def test_a_spoiled_checkpoint_is_refused_by_name_and_leaves_no_file(
    store: MemoryStore, tmp_path: Path, dest: Path, spoil: Spoil, reason: str, named: str
) -> None:
    _, point = checkpoint_of(store, tmp_path / "log.jsonl", DATA)
    with pytest.raises(RestoreFailed, match=named) as failure:
        fetch(store, spoil(store, point), dest, Collector())
    assert failure.value.reason == reason
    assert not dest.exists()


def test_a_segment_that_expands_beyond_what_the_manifest_says_is_not_expanded_further(
    store: MemoryStore, dest: Path
) -> None:
    bomb = encode_segment("s1", [b"\0" * (64 * 2**20)])
    lying = Segment(key=bomb.segment.key, bytes=1000, digest=digest_of(b""), stored_bytes=len(bomb.stored), lines=1)
    store.put_if_absent(lying.key, bomb.stored)
    progress = _progress((lying,))
    indexer = Collector()
    with pytest.raises(RestoreFailed, match="another length"):
        fetch(store, None, dest, indexer, progress=progress)
    assert indexer.data == b""


def test_a_packed_session_larger_than_allowed_is_refused_while_it_expands(store: MemoryStore, dest: Path) -> None:
    store.put_if_absent("bomb.jsonl", zstandard.compress(b"\0" * (64 * 2**20)))
    indexer = Collector()
    with pytest.raises(RestoreFailed) as failure:
        fetch(store, RestorePoint(jsonl="bomb.jsonl"), dest, indexer, max_bytes=3 * 2**20)
    assert failure.value.reason == "too_large"
    assert len(indexer.data) <= 3 * 2**20


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_packed_session_that_ends_early_is_refused(store: MemoryStore, dest: Path, cut: int) -> None:
    store.put_if_absent("a.jsonl", zstandard.compress(HEADER + os.urandom(200_000).hex().encode() + b"\n")[:-cut])
    with pytest.raises(RestoreFailed, match="zstd") as failure:
        fetch(store, RestorePoint(jsonl="a.jsonl"), dest, Collector())
    assert failure.value.reason == "damaged"


@pytest.mark.parametrize("source", ["gone.jsonl", "file:///gone/session.jsonl", "s3://archive/gone.jsonl"])
def test_a_missing_plain_session_is_named(store: MemoryStore, dest: Path, source: str) -> None:
    with pytest.raises(RestoreFailed, match=r"gone.*does not exist") as failure:
        fetch(store, RestorePoint(jsonl=source), dest, Collector(), other_store=lambda _: MemoryStore())
    assert failure.value.reason == "missing"


def test_a_wrong_digest_comes_before_the_damage_it_explains(store: MemoryStore, dest: Path) -> None:
    store.put_if_absent("a.jsonl", DATA)
    point = RestorePoint(jsonl="a.jsonl", digest=digest_of(b"other"))
    with pytest.raises(RestoreFailed) as failure:
        fetch(store, point, dest, Collector(refuse=b"hello 7"))
    assert failure.value.reason == "wrong_digest"


def test_damage_inside_the_right_session_is_the_indexers_to_report(store: MemoryStore, dest: Path) -> None:
    store.put_if_absent("a.jsonl", DATA)
    with pytest.raises(ValueError, match="the indexer objects"):
        fetch(store, RestorePoint(jsonl="a.jsonl", digest=digest_of(DATA)), dest, Collector(refuse=b"hello 7"))
    assert not dest.exists()


def test_a_store_that_fails_half_way_is_no_damage(tmp_path: Path, dest: Path) -> None:
    class Failing(MemoryStore):
        def stream(self, key: str) -> Iterator[bytes] | None:
            yield DATA[:100]
            raise StoreError("unreachable", "gone")

    with pytest.raises(StoreError, match="gone"):
        fetch(Failing(), RestorePoint(jsonl="a.jsonl"), dest, Collector())
    assert not dest.exists()


# Progress of a taken-over head.


def _progress(segments: tuple[Segment, ...], base: tuple[Segment, ...] = ()) -> Progress:
    return Progress(
        segments=segments,
        entries=1,
        leaf_id=None,
        chain=chain_of((*base, *segments)),
        input_consumed=True,
        usage={},
    )


def test_progress_goes_on_top_of_the_restored_manifest(store: MemoryStore, tmp_path: Path, dest: Path) -> None:
    base, point = checkpoint_of(store, tmp_path / "log.jsonl", DATA)
    grown = DATA + session_lines(4, start=50)
    log = tmp_path / "grown.jsonl"
    log.write_bytes(grown)
    lines = store_lines(store, "s1", log, len(grown), Stored(restored=base.manifest.segments))
    progress = _progress(lines.stored.own, base.manifest.segments)
    fetched = fetch(store, point, dest, Collector(), progress=progress)
    assert dest.read_bytes() == grown
    assert fetched.stored == lines.stored
    assert fetched.manifest == base.manifest


def test_progress_of_a_session_from_a_plain_file_holds_all_of_it(
    store: MemoryStore, tmp_path: Path, dest: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(DATA)
    lines = store_lines(store, "s1", log, len(DATA), Stored())
    point = RestorePoint(jsonl="no-longer-there.jsonl", digest=digest_of(b"whatever"))
    fetched = fetch(store, point, dest, Collector(), progress=_progress(lines.stored.own))
    assert dest.read_bytes() == DATA
    assert fetched.parent == point
    assert fetched.stored == Stored(own=lines.stored.own)


def test_progress_that_belongs_to_another_restore_point_is_refused(
    store: MemoryStore, tmp_path: Path, dest: Path
) -> None:
    base, point = checkpoint_of(store, tmp_path / "log.jsonl", DATA)
    other = encode_segment("s1", [session_lines(2)]).segment
    progress = _progress((other,), (other, *base.manifest.segments))
    with pytest.raises(RestoreFailed, match="progress"):
        fetch(store, point, dest, Collector(), progress=progress)
