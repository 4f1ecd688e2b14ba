from pathlib import Path
from typing import Any

import pytest

from checkpoint.session.errors import SessionDamaged, SessionLogBroken
from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from checkpoint.session.migration import index_file
from tests.fakes.append_file import FakeAppendFile
from tests.unit.checkpoint.session.sessions import HEADER, assistant, session, user
from tests.unit.checkpoint.session.strict_reader import read_strictly

USER: dict[str, Any] = {"role": "user", "content": "é\ud83d\0", "timestamp": 1}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": [], "usage": {"cost": 1.0}, "timestamp": 2}


def test_a_new_log_opens_in_the_strictest_reader(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    log = SessionLog.create(path, new_header("/workspace"))
    log.append("model_change", {"provider": "p", "modelId": "m"})
    log.append_message(USER)
    log.append_message(ASSISTANT)
    log.append_custom("runner.reply", {"tool_call_id": "x"})
    log.append_custom("flag")
    log.append_custom_message("note", "text", display=False, details=None)
    log.fsync()
    log.close()
    entries = read_strictly(path.read_bytes())
    assert [entry["type"] for entry in entries] == [
        "model_change",
        "message",
        "message",
        *["custom"] * 2,
        "custom_message",
    ]
    assert entries[1]["message"] == USER
    assert "data" not in entries[4]
    assert entries[5]["details"] is None


def test_fields_are_written_in_pis_order() -> None:
    file = FakeAppendFile()
    log = SessionLog(file, clock=lambda: 1767225600007)
    first = log.append("thinking_level_change", {"thinkingLevel": "high"})
    second = log.append_custom("t", [1])
    third = log.append_custom_message("t", "c")
    assert file.data.decode().splitlines() == [
        f'{{"type":"thinking_level_change","id":"{first}","parentId":null,'
        '"timestamp":"2026-01-01T00:00:00.007Z","thinkingLevel":"high"}',
        f'{{"type":"custom","customType":"t","data":[1],"id":"{second}","parentId":"{first}",'
        '"timestamp":"2026-01-01T00:00:00.007Z"}',
        f'{{"type":"custom_message","customType":"t","content":"c","display":true,"id":"{third}",'
        f'"parentId":"{second}","timestamp":"2026-01-01T00:00:00.007Z"}}',
    ]


def test_every_entry_is_one_write() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    log.append_message(USER)
    log.append_message(ASSISTANT)
    assert len(file.writes) == 2
    assert all(data.count(b"\n") == 1 and data.endswith(b"\n") for data in file.writes)


def test_the_log_knows_its_leaf_its_size_and_its_last_assistant_entry() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    assert (log.leaf_id, log.size, log.entries, log.last_assistant_entry_id) == (None, 0, 0, None)
    log.append_message(USER)
    said = log.append_message(ASSISTANT)
    leaf = log.append_custom("x")
    assert (log.leaf_id, log.size, log.entries) == (leaf, len(file.data), 3)
    assert log.last_assistant_entry_id == said


def test_an_opened_log_goes_on_below_its_leaf(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    before = session(user("a", None), assistant("b", "a"))
    path.write_bytes(before)
    log = SessionLog.open(path, index_file(path))
    added = log.append_message(USER)
    assert path.read_bytes().startswith(before)
    entries = read_strictly(path.read_bytes())
    assert (entries[2]["id"], entries[2]["parentId"]) == (added, "b")
    assert (log.entries, log.size) == (3, path.stat().st_size)


def test_a_torn_tail_is_cut_before_anything_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    whole = session(user("a", None))
    path.write_bytes(whole + b'{"type":"mess')
    log = SessionLog.open(path, index_file(path))
    assert (path.read_bytes(), log.size) == (whole, len(whole))
    log.append_message(USER)
    assert len(read_strictly(path.read_bytes())) == 2


def test_a_missing_line_end_is_added_before_anything_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    whole = session(user("a", None))
    path.write_bytes(whole.removesuffix(b"\n"))
    log = SessionLog.open(path, index_file(path))
    assert (path.read_bytes(), log.size) == (whole, len(whole))


def test_a_file_that_changed_after_it_was_indexed_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session(user("a", None)))
    index = index_file(path)
    path.write_bytes(session(user("a", None), user("b", "a")))
    with pytest.raises(SessionDamaged) as caught:
        SessionLog.open(path, index)
    assert caught.value.reason == "changed"


def test_an_old_session_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session(header={**HEADER, "version": 2}))
    with pytest.raises(ValueError, match="migrated"):
        SessionLog.open(path, index_file(path))


def test_an_existing_file_is_never_created_again(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        SessionLog.create(path, new_header("/w"))
    assert path.read_bytes() == b"mine"


def test_a_failed_append_latches_the_log_as_broken() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    log.append_message(ASSISTANT)
    before = (log.leaf_id, log.size, log.entries, log.last_assistant_entry_id)
    file.capacity = len(file.data)
    with pytest.raises(SessionLogBroken, match="No space left"):
        log.append_message(ASSISTANT)
    assert log.broken == "write failed: No space left on device"
    assert (log.leaf_id, log.size, log.entries, log.last_assistant_entry_id) == before
    file.capacity = None
    writes = len(file.writes)
    with pytest.raises(SessionLogBroken):
        log.append_message(USER)
    with pytest.raises(SessionLogBroken):
        log.fsync()
    assert len(file.writes) == writes


def test_a_short_write_latches_and_the_size_is_that_of_whole_lines() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    log.append_message(USER)
    whole = len(file.data)
    file.capacity = whole + 10
    with pytest.raises(SessionLogBroken, match="only 10 of"):
        log.append_message(USER)
    assert (log.size, len(file.data)) == (whole, whole + 10)


def test_a_failed_fsync_latches() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    file.sync_error = OSError(5, "Input/output error")
    with pytest.raises(SessionLogBroken, match="fsync failed: Input/output error"):
        log.fsync()
    with pytest.raises(SessionLogBroken):
        log.append_message(USER)


def test_a_value_that_is_no_json_is_a_defect_and_writes_nothing() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    with pytest.raises(TypeError):
        log.append_custom("x", object())
    assert (file.writes, log.broken) == ([], None)


def test_an_entry_cannot_choose_its_own_id() -> None:
    log = SessionLog(FakeAppendFile())
    with pytest.raises(ValueError, match="given by the log"):
        log.append("custom", {"id": "mine"})


def test_a_closed_log_takes_nothing_and_is_not_broken() -> None:
    file = FakeAppendFile()
    log = SessionLog(file)
    log.fsync()
    log.close()
    log.close()
    assert (file.synced, log.broken) == (1, None)
    with pytest.raises(ValueError, match="closed"):
        log.append_message(USER)


def test_a_session_without_a_usable_leaf_goes_on_with_a_root(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session(user("a", None), b"[1]\n"))
    log = SessionLog.open(path, index_file(path, "skip"))
    log.append_message(USER)
    assert b'"parentId":null' in path.read_bytes().splitlines()[-1]
