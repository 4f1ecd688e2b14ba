"""Export and import: byte for byte, whole or not at all, and the same again."""

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.manifest import RestorePoint, parse_manifest
from checkpoint.restore import fetch
from checkpoint.session.indexer import SessionIndexer
from checkpoint.store.file_store import FileStore
from runner.errors import Refused
from runner.inspection.errors import SourceFailed
from runner.inspection.exporting import export_session
from runner.inspection.importing import import_session
from tests.unit.runner.inspection.stored import (
    CORPUS,
    NOWHERE,
    Shelf,
    assistant,
    call,
    result,
    session_bytes,
    snapshot,
    user,
)

DATA = session_bytes(user("Deploy it."), assistant("Done."))


def export(address: str, dest: Path, *, force: bool = False, on_damage: Any = "fail") -> bytes:
    assert export_session(address, dest, NOWHERE, force=force, on_damage=on_damage) == 0
    return dest.read_bytes()


def imported(path: Path, store: Path, capsys: pytest.CaptureFixture[str], session: str = "s1") -> RestorePoint:
    capsys.readouterr()
    assert import_session(str(path), str(store), session, NOWHERE) == 0
    return RestorePoint(**json.loads(capsys.readouterr().out))


ENTRY: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "custom", "strange"])},
    optional={"data": st.text(max_size=20), "n": st.integers()},
)


@given(st.lists(ENTRY, max_size=6), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n", " \n"]))
@settings(max_examples=30)
def test_what_is_imported_is_exported_byte_for_byte(entries: list[dict[str, Any]], compact: bool, end: str) -> None:
    separators = (",", ":") if compact else None
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}]
    for number, entry in enumerate(entries):
        fields = {**entry, "message": {"role": "user", "content": "x"}} if entry["type"] == "message" else entry
        lines.append({**fields, "id": f"e{number}", "parentId": None if number == 0 else f"e{number - 1}"})
    data = "".join(json.dumps(line, separators=separators) + end for line in lines).encode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.jsonl").write_bytes(data)
        assert import_session(str(folder / "in.jsonl"), str(folder / "store"), "s1", NOWHERE) == 0
        (manifest,) = (folder / "store" / "sessions" / "s1" / "checkpoints").iterdir()
        assert export(str(manifest), folder / "out.jsonl") == data


def test_the_restore_point_restores_and_is_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, file = tmp_path / "store", tmp_path / "session.jsonl"
    file.write_bytes(DATA)
    point = imported(file, store, capsys)
    before = snapshot(store)
    assert imported(file, store, capsys) == point
    assert snapshot(store) == before
    restored = fetch(FileStore(store), point, tmp_path / "log", SessionIndexer())
    assert restored.path.read_bytes() == DATA
    manifest = parse_manifest((store / str(point.manifest)).read_bytes(), "")
    assert (manifest.parent, manifest.entries, manifest.leaf_id) == (None, 2, "00000002")
    assert (manifest.counters.turns, manifest.counters.cost_usd) == (1, 0.5)
    assert imported(file, store, capsys, "s2").manifest != point.manifest


def test_an_import_heals_a_store_that_lost_a_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, file = tmp_path / "store", tmp_path / "session.jsonl"
    file.write_bytes(DATA)
    point = imported(file, store, capsys)
    (segment,) = (store / "sessions" / "s1" / "segments").iterdir()
    segment.unlink()
    assert imported(file, store, capsys) == point
    assert segment.exists()


def test_the_time_of_the_first_import_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(DATA)
    clocks = (lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda: datetime(2027, 1, 1, tzinfo=UTC))
    for clock in clocks:
        import_session(str(file), str(tmp_path / "store"), "s1", NOWHERE, now=clock)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_a_question_that_waits_can_be_answered_after_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, sent = tmp_path / "session.jsonl", '{"ask_user_sent": true, "message": "sent"}'
    file.write_bytes(session_bytes(user("go"), assistant("", call("ask_user", "c1")), result("c1", sent, "ask_user")))
    point = imported(file, tmp_path / "store", capsys)
    manifest = parse_manifest((tmp_path / "store" / str(point.manifest)).read_bytes(), "")
    assert [(found.tool_call_id, found.entry_id) for found in manifest.pending_questions] == [("c1", "00000002")]


@pytest.mark.parametrize("name", ["v1-compaction-1", "v2-hook-1"])
def test_an_old_session_is_imported_as_its_migration_and_exported_as_it_was(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = CORPUS / f"{name}.jsonl"
    assert export(str(source), tmp_path / "out.jsonl") == source.read_bytes()
    point = imported(source, tmp_path / "store", capsys)
    assert imported(source, tmp_path / "store", capsys) == point
    indexer = SessionIndexer()
    fetch(FileStore(tmp_path / "store"), point, tmp_path / "log", indexer)
    assert indexer.finish().version == 3


def test_a_torn_tail_is_cut_and_a_missing_line_end_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn, open_end = tmp_path / "torn.jsonl", tmp_path / "open.jsonl"
    torn.write_bytes(DATA + b'{"type":"mess')
    open_end.write_bytes(DATA[:-1])
    assert export(str(torn), tmp_path / "a") == export(str(open_end), tmp_path / "b") == DATA
    warnings = capsys.readouterr().err
    assert "torn" in warnings
    assert "no line end" in warnings


def test_damaged_lines_are_exported_as_they_are_when_damage_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(DATA + b"{broken\n")
    with pytest.raises(SourceFailed):
        export(str(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export(str(path), tmp_path / "out", on_damage="skip") == path.read_bytes()


def test_an_export_overwrites_only_when_forced_and_never_its_source(tmp_path: Path) -> None:
    address, dest = Shelf(tmp_path), tmp_path / "out.jsonl"
    manifest = address.path(address.checkpoint(DATA).key)
    dest.write_text("precious")
    with pytest.raises(Refused, match="--force"):
        export(manifest, dest)
    assert dest.read_text() == "precious"
    assert export(manifest, dest, force=True) == DATA
    with pytest.raises(Refused, match="is the source"):
        export(str(dest), dest, force=True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


def test_an_export_into_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    manifest = Shelf(tmp_path).checkpoint(DATA).key
    with pytest.raises(Refused, match="cannot be written"):
        export(str(tmp_path / "store" / manifest), tmp_path / "nowhere" / "out.jsonl")


@pytest.mark.parametrize(
    ("content", "session", "words"),
    [
        (DATA + b"{broken\n", "s1", "line 4"),
        (DATA, "../s1", "no id of a session"),
        (DATA, "", "no id of a session"),
        (session_bytes({"role": "user", "content": 5}), "s1", "neither a text nor a list"),
        (b"", "s1", "empty"),
    ],
)
def test_what_could_not_be_restored_is_not_imported(tmp_path: Path, content: bytes, session: str, words: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(Refused, match=words):
        import_session(str(tmp_path / "x.jsonl"), str(tmp_path / "store"), session, NOWHERE)
    assert not (tmp_path / "store").exists()


def test_a_checkpoint_is_not_imported_as_if_it_were_a_file(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with pytest.raises(Refused, match="export its session"):
        import_session(shelf.path(shelf.checkpoint(DATA).key), str(tmp_path / "other"), "s1", NOWHERE)
