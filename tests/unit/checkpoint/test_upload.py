import hashlib
import os
import threading
from pathlib import Path

import msgspec
import pytest

from checkpoint.errors import CheckpointFailed, StoreError
from checkpoint.freeze import Stored, freeze
from checkpoint.manifest import RestorePoint, digest_of, parse_manifest
from checkpoint.restore import fetch
from checkpoint.segments import Extent, encode_segment
from checkpoint.store.port import Conflict, PutResult
from checkpoint.upload import store_lines, upload
from checkpoint.upload_plan import (
    MERGE_OVER,
    SMALL_BYTES,
    StoreFile,
    StoreLines,
    StoreManifest,
    kept_segments,
    upload_order,
)
from tests.fakes.memory_store import MemoryStore
from tests.unit.checkpoint.checkpoints import (
    HEADER,
    Collector,
    candidate_of,
    checkpoint_of,
    facts,
    segment,
    session_lines,
)

DATA = HEADER + session_lines(20)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


# Freeze.


def test_freezing_cuts_a_partial_append_and_keeps_the_rest(log: Path) -> None:
    log.write_bytes(DATA + b'{"type":"mess')
    candidate = freeze(log, size=len(DATA), entries=20, leaf_id="x", stored=Stored())
    assert log.read_bytes() == DATA
    assert candidate.digest == digest_of(DATA)
    assert (candidate.size, candidate.entries, candidate.leaf_id) == (len(DATA), 20, "x")


def test_the_digest_of_a_candidate_covers_what_is_not_stored_yet(log: Path) -> None:
    log.write_bytes(DATA)
    stored = Stored(restored=(segment(len(HEADER)),))
    assert freeze(log, size=len(DATA), entries=20, leaf_id=None, stored=stored).digest == digest_of(DATA[len(HEADER) :])


@pytest.mark.parametrize(("content", "size"), [(DATA[:-1], len(DATA)), (DATA[:-1], len(DATA) - 1)])
def test_a_log_that_lost_bytes_or_ends_within_a_line_is_no_candidate(log: Path, content: bytes, size: int) -> None:
    log.write_bytes(content)
    with pytest.raises(CheckpointFailed, match=r"log\.jsonl") as failure:
        freeze(log, size=size, entries=20, leaf_id=None, stored=Stored())
    assert failure.value.reason == "log_changed"


def test_a_log_shorter_than_what_is_stored_is_stored_whole(log: Path) -> None:
    log.write_bytes(DATA)
    longer = Stored(restored=(segment(len(DATA) + 1),))
    assert freeze(log, size=len(DATA), entries=20, leaf_id=None, stored=longer).stored == Stored()


# The plan.


def test_the_manifest_comes_after_everything_it_names() -> None:
    assert upload_order([Extent(0, 5), Extent(5, 9)], ["a", "b"]) == (
        StoreLines(Extent(0, 5)),
        StoreLines(Extent(5, 9)),
        StoreFile("a"),
        StoreFile("b"),
        StoreManifest(),
    )
    assert upload_order([], []) == (StoreManifest(),)


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([10] * MERGE_OVER, MERGE_OVER),
        ([10] * (MERGE_OVER + 1), 0),
        ([10, SMALL_BYTES, *[10] * (MERGE_OVER + 1)], 2),
        ([*[10] * (MERGE_OVER + 1), SMALL_BYTES], MERGE_OVER + 2),
        ([SMALL_BYTES - 1] * (MERGE_OVER + 1), 0),
        ([], 0),
    ],
)
def test_only_small_segments_of_this_pipeline_at_the_end_are_merged(sizes: list[int], kept: int) -> None:
    own = tuple(segment(size) for size in sizes)
    restored = tuple(segment(3) for _ in range(40))
    assert kept_segments(Stored(restored, own), merge=True) == restored + own[:kept]
    assert kept_segments(Stored(restored, own), merge=False) == restored + own


# Upload.


def test_objects_are_stored_in_order_and_the_manifest_names_them(store: MemoryStore, log: Path) -> None:
    uploaded, point = checkpoint_of(store, log, DATA)
    keys = [key for key, _ in store.writes]
    assert keys == [uploaded.manifest.segments[0].key, "sessions/s1/checkpoints/p1.1.c1.json"]
    data = store.objects[uploaded.key]
    assert digest_of(data) == uploaded.digest == point.digest
    assert parse_manifest(data, "x") == uploaded.manifest
    assert uploaded.sent_bytes == sum(size for _, size in store.writes)
    named = msgspec.json.decode(data)
    assert list(named) == [
        "version",
        "session_id",
        "pipeline_id",
        "attempt",
        "created_at",
        "runner",
        "parent",
        "segments",
        "chain",
        "entries",
        "bytes",
        "leaf_id",
        "pending_questions",
        "counters",
        "files",
    ]
    assert list(named["segments"][0]) == ["key", "bytes", "digest", "stored_bytes", "lines"]
    assert named["parent"] is None
    assert named["segments"][0]["lines"] == 21
    assert (named["entries"], named["bytes"], named["leaf_id"]) == (20, len(DATA), "leaf")


@pytest.mark.parametrize("point", [{"manifest": "m", "digest": "sha256:" + "0" * 64}, {"jsonl": "j"}])
def test_a_parent_is_written_as_it_was_given(store: MemoryStore, log: Path, point: dict[str, str]) -> None:
    parent = msgspec.convert(point, RestorePoint)
    uploaded = upload(store, candidate_of(log, DATA), facts(parent=parent))
    assert msgspec.json.decode(store.objects[uploaded.key])["parent"] == point


def test_an_upload_made_again_changes_nothing_and_gives_the_same(store: MemoryStore, log: Path) -> None:
    first, _ = checkpoint_of(store, log, DATA)
    before = dict(store.objects)
    second, _ = checkpoint_of(store, log, DATA)
    assert (second.key, second.digest) == (first.key, first.digest)
    assert store.objects == before


class CutShort(MemoryStore):
    """Loses the connection for good after so many writes took effect."""

    def __init__(self, writes: int) -> None:
        super().__init__(after=self._count)
        self._left = writes
        self._counting = threading.Lock()

    def _count(self, operation: str, key: str) -> None:
        del operation, key
        with self._counting:
            self._left -= 1
            if self._left < 0:
                raise StoreError("unreachable", "gone")


def test_an_upload_cut_short_anywhere_is_finished_by_the_next(log: Path) -> None:
    line = os.urandom(200_000).hex().encode()
    candidate = candidate_of(log, HEADER + b"".join(b"%d %s\n" % (n, line) for n in range(90)))  # three segments
    whole = MemoryStore()
    expected = upload(whole, candidate, facts())
    assert len(whole.objects) == 4
    for writes in range(4):
        store = CutShort(writes)
        with pytest.raises(StoreError, match="gone"):
            upload(store, candidate, facts())
        again = MemoryStore()
        again.objects.update(store.objects)
        assert upload(again, candidate, facts()) == expected
        assert again.objects == whole.objects


def test_another_manifest_under_our_key_is_not_taken_for_ours(store: MemoryStore, log: Path) -> None:
    checkpoint_of(store, log, DATA)
    with pytest.raises(CheckpointFailed, match=r"p1\.1\.c1\.json") as failure:
        checkpoint_of(store, log, DATA + session_lines(1, start=20))
    assert failure.value.reason == "manifest_taken"


def test_a_log_changed_after_the_freeze_is_not_stored_as_a_checkpoint(store: MemoryStore, log: Path) -> None:
    candidate = candidate_of(log, DATA)
    log.write_bytes(DATA.replace(b"hello 7", b"hello 8"))
    with pytest.raises(CheckpointFailed) as failure:
        upload(store, candidate, facts())
    assert failure.value.reason == "log_changed"
    assert not [key for key in store.objects if "checkpoints/" in key]


def test_a_session_without_new_lines_costs_a_manifest_only(store: MemoryStore, log: Path) -> None:
    first, _ = checkpoint_of(store, log, DATA)
    stored = Stored(restored=first.manifest.segments)
    store.writes.clear()
    second = upload(store, candidate_of(log, DATA, stored), facts("c2"))
    assert [key for key, _ in store.writes] == [second.key]
    assert second.manifest.segments == first.manifest.segments


def test_transcripts_are_stored_beside_the_session_under_their_names(
    store: MemoryStore, log: Path, tmp_path: Path
) -> None:
    transcript = tmp_path / "sub.jsonl"
    transcript.write_bytes(session_lines(5))
    uploaded, point = checkpoint_of(store, log, DATA, files={"subagent-1": transcript})
    (file,) = uploaded.manifest.files
    assert (file.name, file.bytes, file.lines) == ("subagent-1", transcript.stat().st_size, 5)
    assert file.digest == digest_of(transcript.read_bytes())
    assert file.key in store.objects
    assert fetch(store, point, tmp_path / "again", Collector()).manifest == uploaded.manifest


def test_conflicts_are_waited_out(log: Path) -> None:
    class Busy(MemoryStore):
        conflicts = 3

        def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
            self.conflicts -= 1
            return Conflict() if self.conflicts >= 0 else super().put_if_absent(key, body)

    waited: list[float] = []
    upload(Busy(), candidate_of(log, DATA), facts(), pause=waited.append)
    assert len(waited) == 3
    stuck = Busy()
    stuck.conflicts = 1000
    with pytest.raises(StoreError) as failure:
        upload(stuck, candidate_of(log, DATA), facts(), pause=waited.append)
    assert failure.value.reason == "unreachable"


# Progress of a running log.


def test_progress_adds_a_segment_a_time_and_merges_the_small_ones(store: MemoryStore, log: Path) -> None:
    base, point = checkpoint_of(store, log, DATA)
    stored = Stored(restored=base.manifest.segments)
    content = DATA
    counts: list[int] = []
    for turn in range(40):
        content += session_lines(2, start=20 + 2 * turn)
        log.write_bytes(content + b'{"half a li')
        stored = store_lines(store, "s1", log, len(content), stored).stored
        counts.append(len(stored.own))
        assert stored.restored == base.manifest.segments
        assert stored.size == len(content)
    assert counts[:17] == list(range(1, 18))
    assert max(counts) == MERGE_OVER + 1
    uploaded = upload(store, candidate_of(log, content, stored), facts("c2", parent=point))
    restored = log.with_name("again")
    fetch(store, RestorePoint(manifest=uploaded.key, digest=uploaded.digest), restored, Collector())
    assert restored.read_bytes() == content


def test_a_checkpoint_under_a_signal_merges_nothing(store: MemoryStore, log: Path) -> None:
    log.write_bytes(DATA)
    own = ()
    position = 0
    for line in DATA.splitlines(keepends=True):
        position += len(line)
        own = store_lines(store, "s1", log, position, Stored(own=own), merge=False).stored.own
    assert len(own) == 21
    store.writes.clear()
    candidate = freeze(log, size=len(DATA), entries=20, leaf_id=None, stored=Stored(own=own))
    assert len(upload(store, candidate, facts(), merge=False).manifest.segments) == 21
    assert len(store.writes) == 1
    assert len(upload(store, candidate, facts("c2")).manifest.segments) == 1


# Cost.


def test_new_lines_on_a_large_session_cost_little_more_than_their_compressed_bytes(
    store: MemoryStore, log: Path, tmp_path: Path
) -> None:
    """200 KB new on 100 MB old: at most the compressed delta and a tenth, and 8 KB."""
    old = HEADER + b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() * 78 + b"\n" for n in range(20_000))
    base, point = checkpoint_of(store, log, old)
    fetched = fetch(store, point, tmp_path / "restored", Collector())
    new = b"".join(os.urandom(2500).hex().encode() + b"\n" for _ in range(40))
    uploaded = upload(store, candidate_of(tmp_path / "restored", old + new, fetched.stored), facts("c2", parent=point))
    delta = len(encode_segment("s1", [new]).stored)
    assert len(base.manifest.segments) == 6
    assert uploaded.sent_bytes <= 1.1 * delta + 8 * 1024
