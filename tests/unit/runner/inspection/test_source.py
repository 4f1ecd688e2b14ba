"""Opening a source: every kind of it, whole and damaged, and never touched."""

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from checkpoint.freeze import Stored
from checkpoint.manifest import RestorePoint, digest_of
from runner.errors import Refused
from runner.inspection.errors import SourceFailed
from runner.inspection.meter import Unit
from runner.inspection.source import open_source, source_kind
from tests.unit.runner.inspection.stored import (
    CORPUS,
    NOWHERE,
    Shelf,
    assistant,
    point,
    session_bytes,
    snapshot,
    user,
)

DATA = session_bytes(user("Deploy it."), assistant("Done."))
LINES = DATA.splitlines(keepends=True)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def read(address: str, on_damage: Any = "fail") -> tuple[str, str, bytes | None, list[str], list[str]]:
    with open_source(address, NOWHERE, on_damage=on_damage) as source:
        data = source.session.stored.read_bytes() if source.session is not None else None
        damage = [f"{item.place}: {item.what}" for item in source.damage]
        return source.kind, source.basis, data, list(source.warnings), damage


@pytest.mark.parametrize(
    ("address", "kind", "store", "key"),
    [
        ("s3://b/x/pipelines/p1/head.json", "head", "s3://b/x", "pipelines/p1/head.json"),
        ("pipelines/p1/head.json", "head", ".", "pipelines/p1/head.json"),
        ("/pipelines/p1/head.json", "head", "/", "pipelines/p1/head.json"),
        ("a/sessions/s1/checkpoints/p.1.c.json", "manifest", "a", "sessions/s1/checkpoints/p.1.c.json"),
        ("sessions/s1/diagnostics/p.1.c.jsonl.zst", "plain", "", "sessions/s1/diagnostics/p.1.c.jsonl.zst"),
        ("pipelines/../head.json", "plain", "", "pipelines/../head.json"),
    ],
)
def test_the_address_tells_what_kind_of_source_it_is(address: str, kind: str, store: str, key: str) -> None:
    assert source_kind(address) == (kind, store, key)


@pytest.mark.parametrize("address", ["", "file://[", "gs://bucket/session.jsonl", "s3:///x.jsonl"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Refused), open_source(address, NOWHERE):
        pass


def test_a_plain_session_is_opened_with_and_without_zstd_and_through_a_link(tmp_path: Path) -> None:
    plain, packed, link = tmp_path / "a b.jsonl", tmp_path / ".hidden.zst", tmp_path / "link"
    plain.write_bytes(DATA)
    packed.write_bytes(zstandard.compress(DATA))
    link.symlink_to(plain)
    before = snapshot(tmp_path)
    for address in (str(plain), plain.as_uri(), str(packed), str(link)):
        assert read(address) == ("plain", "plain", DATA, [], [])
    assert snapshot(tmp_path) == before


def test_a_manifest_is_opened_with_its_transcripts_and_its_parent(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "sub.jsonl").write_bytes(LINES[0])
    first = shelf.checkpoint(LINES[0] + LINES[1])
    uploaded = shelf.checkpoint(
        DATA,
        "p2",
        point(first),
        Stored(restored=first.manifest.segments),
        files={"subagent-1.jsonl": tmp_path / "sub.jsonl"},
    )
    before = snapshot(shelf.root)
    with open_source(shelf.path(uploaded.key), NOWHERE) as source:
        assert (source.kind, source.basis, source.restore_point) == ("manifest", "checkpoint", point(uploaded))
        assert source.parent == point(first)
        assert source.session is not None
        assert source.session.stored.read_bytes() == DATA
        assert [entry.value["message"]["role"] for entry in source.session.entries()] == ["user", "assistant"]
        assert [(name, file.stored.read_bytes()) for name, file in source.files] == [("subagent-1.jsonl", LINES[0])]
        folder = source.session.stored.parent
    assert not folder.exists()
    assert snapshot(shelf.root) == before


def test_a_settled_head_gives_the_session_it_committed(shelf: Shelf) -> None:
    uploaded = shelf.checkpoint(DATA)
    address = shelf.head(terminal=({"type": "terminal", "version": 1}, uploaded))
    with open_source(address, NOWHERE) as source:
        assert (source.kind, source.basis) == ("head", "checkpoint")
        assert source.terminal == {"type": "terminal", "version": 1}
        assert source.session is not None
        assert source.session.stored.read_bytes() == DATA


def test_a_claimed_head_gives_its_progress_on_top_of_what_was_restored(shelf: Shelf) -> None:
    base = shelf.checkpoint(LINES[0] + LINES[1], "p0")
    address = shelf.head(restore=point(base), progress=DATA, before=Stored(restored=base.manifest.segments))
    assert read(address) == ("head", "progress", DATA, [], [])


def test_the_progress_of_a_new_session_is_the_whole_of_it(shelf: Shelf) -> None:
    assert read(shelf.head(progress=DATA)) == ("head", "progress", DATA, [], [])


def test_a_head_without_progress_gives_what_it_was_to_restore(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(DATA)
    restore = RestorePoint(jsonl=(tmp_path / "old.jsonl").as_uri(), digest=digest_of(DATA))
    assert read(shelf.head(restore=restore)) == ("head", "restore", DATA, [], [])


def test_a_run_that_kept_its_previous_checkpoint_gives_that_one(shelf: Shelf) -> None:
    base = shelf.checkpoint(DATA, "p0")
    address = shelf.head(restore=point(base), terminal=({"type": "terminal"}, None))
    assert read(address) == ("head", "restore", DATA, [], [])


def test_a_head_that_has_nothing_yet_is_shown_without_a_session(shelf: Shelf) -> None:
    assert read(shelf.head()) == ("head", "nothing", None, [], [])


@pytest.mark.parametrize("address", ["nowhere.jsonl", "pipelines/p9/head.json", "sessions/s1/checkpoints/p9.1.c.json"])
def test_a_source_that_does_not_exist_is_named(shelf: Shelf, address: str) -> None:
    with pytest.raises(SourceFailed, match="check the") as failure, open_source(shelf.path(address), NOWHERE):
        pass
    assert (failure.value.reason, failure.value.exit_code) == ("missing", 78)


def test_a_folder_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is a folder"), open_source(str(tmp_path), NOWHERE):
        pass


def test_a_damaged_line_is_named_with_how_much_was_read_before_it(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(LINES[0] + LINES[1] + b"{torn\n" + LINES[2])
    size = len(LINES[0] + LINES[1])
    with pytest.raises(SourceFailed) as failure, open_source(str(path), NOWHERE):
        pass
    assert (failure.value.reason, failure.value.place) == ("damaged", f"{path}, line 3")
    assert (failure.value.read_lines, failure.value.read_bytes) == (2, size)
    assert f"2 lines were read before it ({size} bytes)" in failure.value.message
    _, _, data, _, damage = read(str(path), "skip")
    assert data == path.read_bytes()
    assert damage == [f"{path}, line 3: this is no JSON; skipped"]


def test_a_packed_session_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(zstandard.compress(LINES[0] + LINES[1]) + zstandard.compress(LINES[2])[:-6])
    with pytest.raises(SourceFailed, match="2 lines were read before it") as failure:
        read(str(path))
    assert failure.value.reason == "damaged"
    _, _, data, _, damage = read(str(path), "skip")
    assert data == LINES[0] + LINES[1]
    assert damage == [f"{path}: ends in the middle of its zstd data"]


def test_a_packed_session_with_a_flipped_bit_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(DATA))
    packed[len(packed) // 2] ^= 1
    path.write_bytes(packed)
    with pytest.raises(SourceFailed, match="not whole zstd data"):
        read(str(path))


def test_a_lost_segment_is_an_error_or_listed_and_the_others_are_read(shelf: Shelf) -> None:
    uploaded = shelf.segments(*LINES)
    second = uploaded.manifest.segments[1].key
    shelf.spoil(second, None)
    with pytest.raises(SourceFailed) as failure, open_source(shelf.path(uploaded.key), NOWHERE):
        pass
    assert failure.value.place == shelf.store.address(second)
    assert (failure.value.reason, failure.value.read_lines) == ("missing", 1)
    kind, _, data, warnings, damage = read(shelf.path(uploaded.key), "skip")
    assert (kind, data) == ("manifest", LINES[0] + LINES[2])
    assert damage[0] == f"{shelf.store.address(second)}: it does not exist"
    assert "instead of the 2 that the manifest declares" in warnings[-1]


def test_a_segment_with_other_bytes_is_an_error_and_what_it_still_gives_is_kept(shelf: Shelf) -> None:
    uploaded = shelf.segments(LINES[0], LINES[1] + LINES[2])
    key = uploaded.manifest.segments[1].key
    shelf.spoil(key, zstandard.compress(LINES[1]) + zstandard.compress(LINES[2])[:-6])
    with pytest.raises(SourceFailed, match="1 line was read before it") as failure:
        read(shelf.path(uploaded.key))
    assert failure.value.place == shelf.store.address(key)
    _, _, data, _, damage = read(shelf.path(uploaded.key), "skip")
    assert data == LINES[0] + LINES[1]
    assert "does not hold the bytes its name promises; 1 of its 2 lines were kept" in damage[0]


def test_a_manifest_of_another_digest_than_the_head_names_is_an_error_or_listed(shelf: Shelf) -> None:
    uploaded, other = shelf.checkpoint(DATA), shelf.checkpoint(LINES[0] + LINES[1], "p2")
    address = shelf.head(terminal=({}, uploaded))
    shelf.spoil(uploaded.key, (shelf.root / other.key).read_bytes())
    with pytest.raises(SourceFailed, match=f"{other.digest} instead of {uploaded.digest}") as failure:
        read(address)
    assert failure.value.place == shelf.store.address(uploaded.key)
    _, _, data, _, damage = read(address, "skip")
    assert data == LINES[0] + LINES[1]
    assert len(damage) == 1


@pytest.mark.parametrize("key", ["pipelines/p1/head.json", "sessions/s1/checkpoints/p.1.c.json"])
def test_a_record_that_is_no_json_is_named_even_when_damage_is_skipped(shelf: Shelf, key: str) -> None:
    path = shelf.root / key
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(SourceFailed) as failure:
        read(str(path), "skip")
    assert (failure.value.reason, failure.value.place) == ("damaged", shelf.store.address(key))


def test_a_manifest_whose_sums_are_wrong_is_read_when_damage_is_skipped(shelf: Shelf) -> None:
    uploaded = shelf.checkpoint(DATA)
    fields = json.loads((shelf.root / uploaded.key).read_text())
    shelf.spoil(uploaded.key, json.dumps(fields | {"bytes": 1}).encode())
    with pytest.raises(SourceFailed, match="not the sum of its segments"):
        read(shelf.path(uploaded.key))
    assert read(shelf.path(uploaded.key), "skip")[2] == DATA


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recorded_session_opens_or_says_where_it_is_damaged(path: Path) -> None:
    strict, lenient = outcome(str(path), "fail"), outcome(str(path), "skip")
    assert isinstance(strict, int) or "read before it" in strict.message
    assert isinstance(lenient, int) or lenient.reason == "not_a_source"
    assert lenient == strict or not isinstance(strict, int)


def outcome(address: str, on_damage: Any) -> int | SourceFailed:
    """How many entries were found and decoded, or why not."""
    try:
        with open_source(address, NOWHERE, on_damage=on_damage) as source:
            assert source.session is not None
            return len(list(source.session.entries()))
    except SourceFailed as failure:
        return failure


def test_a_session_of_version_1_always_gets_the_same_ids() -> None:
    path = str(CORPUS / "v1-linear-1.jsonl")
    with open_source(path, NOWHERE) as one, open_source(path, NOWHERE) as other:
        assert one.session is not None
        assert other.session is not None
        assert one.session.path.read_bytes() == other.session.path.read_bytes()
        assert one.session.stored.read_bytes() == Path(path).read_bytes()
        assert one.session.old_version == 1


def test_the_meter_hears_of_every_byte(shelf: Shelf) -> None:
    heard: list[int] = []

    class Heard:
        def begin(self, what: str, total: int | None, unit: Unit = "bytes") -> None:
            assert (what, total, unit) == ("reading the session", len(DATA), "bytes")

        def advance(self, amount: int) -> None:
            heard.append(amount)

    with open_source(shelf.path(shelf.checkpoint(DATA).key), NOWHERE, meter=Heard()):
        assert sum(heard) == len(DATA)
