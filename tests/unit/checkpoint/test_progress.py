"""Progress in the head, and the checkpoint that is made of it, over a store in memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkpoint.errors import CheckpointFailed, RestoreFailed
from checkpoint.freeze import NOTHING_STORED, Stored
from checkpoint.head import Claimant, Head, ProgressBase, Updated
from checkpoint.head_writer import HeadWriter
from checkpoint.manifest import Counters, RestorePoint, digest_of
from checkpoint.progress import ProgressWriter, Snapshot, store_progress_manifest
from checkpoint.restore import fetch
from checkpoint.session.indexer import SessionIndexer
from tests.fakes.memory_store import MemoryStore

AT = "2026-01-01T00:00:00.000Z"
HEADER = json.dumps({"type": "session", "version": 3, "id": "x", "timestamp": AT, "cwd": "/"}).encode() + b"\n"


def line(number: int) -> bytes:
    parent = f"e{number - 1}" if number else None
    entry = {"type": "custom", "customType": "test", "id": f"e{number}", "parentId": parent, "timestamp": AT}
    return json.dumps(entry).encode() + b"\n"


class Pipeline:
    """A claimed pipeline whose log grows line by line."""

    def __init__(self, folder: Path, restore: RestorePoint | None = None, stored: Stored = NOTHING_STORED) -> None:
        self.store = MemoryStore()
        self.log = folder / "log.jsonl"
        self.log.write_bytes(HEADER)
        self.entries = 0
        self.head = HeadWriter(self.store, "p1")
        self.head.claim(
            Claimant(
                pipeline_id="p1",
                session_id="s1",
                attempt=1,
                claim_id="c1",
                claimed_at=AT,
                deadline_s=10.0,
                grace_s=1.0,
                callback_url=None,
                restore=restore,
            )
        )
        base = ProgressBase(counters=Counters(turns=3))
        self.writer = ProgressWriter(self.store, self.head, "s1", self.log, stored, lambda: base)

    def turn(self, **more: Any) -> Snapshot:
        with self.log.open("ab") as file:
            file.write(line(self.entries))
        self.entries += 1
        snapshot = Snapshot(
            size=self.log.stat().st_size,
            entries=self.entries,
            leaf_id=f"e{self.entries - 1}",
            usage={"turns": self.entries, "total_tokens": 10, "cost_usd": 0.5},
            input_consumed=True,
            **more,
        )
        self.writer.store(snapshot, merge=True)
        assert isinstance(self.writer.point(snapshot), Updated)
        return snapshot

    @property
    def claimed(self) -> Head:
        assert self.head.head is not None
        return self.head.head


def test_what_the_head_points_to_restores_to_the_log_as_it_was(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    for _ in range(20):
        pipeline.turn()
    progress = pipeline.claimed.fields.progress
    assert progress is not None
    fetched = fetch(pipeline.store, None, tmp_path / "restored", SessionIndexer(), progress=progress)

    assert fetched.path.read_bytes() == pipeline.log.read_bytes()
    assert len(progress.segments) <= 17


def test_a_line_is_in_the_store_before_the_head_says_so(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.turn()
    written = [key for key, _ in pipeline.store.writes]
    assert "/segments/" in written[-2]
    assert written[-1] == "pipelines/p1/head.json"


def test_a_checkpoint_of_the_progress_restores_like_any_other(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    transcript = tmp_path / "subagent-1.jsonl"
    transcript.write_bytes(HEADER)
    pipeline.turn(files={"subagent-1.jsonl": transcript})
    pipeline.turn(files={"subagent-1.jsonl": transcript})
    uploaded = store_progress_manifest(pipeline.store, pipeline.claimed.fields, created_at=AT, runner="1.0.0")

    assert uploaded is not None
    point = RestorePoint(manifest=uploaded.key, digest=uploaded.digest)
    fetched = fetch(pipeline.store, point, tmp_path / "restored", SessionIndexer())
    assert fetched.path.read_bytes() == pipeline.log.read_bytes()
    assert uploaded.manifest.counters == Counters(turns=5, total_tokens=10, cost_usd=0.5)
    assert [file.name for file in uploaded.manifest.files] == ["subagent-1.jsonl"]
    assert (uploaded.manifest.entries, uploaded.manifest.leaf_id) == (2, "e1")


def test_progress_behind_a_manifest_is_committed_with_what_was_before(tmp_path: Path) -> None:
    before = Pipeline(tmp_path)
    before.turn()
    first = store_progress_manifest(before.store, before.claimed.fields, created_at=AT, runner="1.0.0")
    assert first is not None
    point = RestorePoint(manifest=first.key, digest=first.digest)
    pipeline = Pipeline(tmp_path, point, Stored(restored=first.manifest.segments))
    pipeline.store.objects |= before.store.objects | pipeline.store.objects
    pipeline.log.write_bytes(HEADER + line(0))
    pipeline.entries = 1
    pipeline.turn()
    for restored in (None, first.manifest.segments):
        second = store_progress_manifest(
            pipeline.store, pipeline.claimed.fields, created_at=AT, runner="1.0.0", restored=restored
        )
        assert second is not None
        assert second.manifest.parent == point
        assert second.manifest.bytes == len(HEADER + line(0) + line(1))


def test_several_processes_make_one_checkpoint_of_one_head(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.turn()
    head = pipeline.claimed.fields
    first = store_progress_manifest(pipeline.store, head, created_at=AT, runner="1.0.0")
    later = store_progress_manifest(pipeline.store, head, created_at=AT.replace("2026", "2027"), runner="1.1.0")
    assert first is not None
    assert later is not None
    assert (later.key, later.digest, later.manifest) == (first.key, first.digest, first.manifest)
    assert digest_of(pipeline.store.objects[first.key]) == later.digest

    pipeline.turn()
    further = store_progress_manifest(pipeline.store, pipeline.claimed.fields, created_at=AT, runner="1.0.0")
    assert further is not None
    assert further.key != first.key

    pipeline.store.objects[first.key] = b"{}"
    with pytest.raises(CheckpointFailed, match="another manifest"):
        store_progress_manifest(pipeline.store, head, created_at=AT, runner="1.0.0")


def test_a_head_without_progress_has_no_checkpoint_and_foreign_progress_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    assert store_progress_manifest(pipeline.store, pipeline.claimed.fields, created_at=AT, runner="1") is None
    pipeline.turn()
    json_head = pipeline.claimed.json
    foreign = {**json_head["progress"], "chain": digest_of(b"another")}
    from checkpoint.head import head_of

    fields = head_of({**json_head, "progress": foreign}).fields
    with pytest.raises(RestoreFailed):
        store_progress_manifest(pipeline.store, fields, created_at=AT, runner="1")
