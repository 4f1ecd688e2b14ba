from pathlib import Path
from typing import Any

import pytest

from checkpoint.session.context import load_context
from checkpoint.session.decoding import parse
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.migration import index_file, migrate
from tests.unit.checkpoint.session.sessions import HEADER, TIME, session, user

OLD_HEADER = {key: value for key, value in HEADER.items() if key != "version"}


def old(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": TIME, **fields}


def say(text: str) -> dict[str, Any]:
    return old("message", message={"role": "user", "content": text})


def migrated(tmp_path: Path, data: bytes, on_damage: Any = "fail") -> list[dict[str, Any]]:
    source, dest = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    source.write_bytes(data)
    index = migrate(source, dest, on_damage)
    assert source.read_bytes() == data
    assert index.version == 3
    again = index_file(dest)
    assert (again.heads, again.size, again.needs_newline) == (index.heads, index.size, False)
    return [parse(line) for line in dest.read_text().splitlines()]


def test_entries_of_version_1_become_a_chain_with_new_ids(tmp_path: Path) -> None:
    header, first, second = migrated(tmp_path, session(say("a"), say("b") | {"id": "had"}, header=OLD_HEADER))
    assert header == {**OLD_HEADER, "version": 3}
    assert (first["parentId"], second["parentId"]) == (None, first["id"])
    assert second["id"] != "had"
    assert first["message"] == {"role": "user", "content": "a"}


def test_a_kept_index_becomes_the_id_of_that_entry(tmp_path: Path) -> None:
    compaction = old("compaction", summary="S", tokensBefore=1, firstKeptEntryIndex=2)
    lines = migrated(tmp_path, session(say("a"), say("b"), compaction, say("c"), header=OLD_HEADER))
    assert lines[3]["firstKeptEntryId"] == lines[2]["id"]
    assert "firstKeptEntryIndex" not in lines[3]
    context = load_context(tmp_path / "new.jsonl", index_file(tmp_path / "new.jsonl"))
    assert [message.get("content") for message in context.messages] == [None, "b", "c"]


@pytest.mark.parametrize("at", [0, -1, 3, 99, 1.5, 1e400])
def test_an_index_of_the_header_or_of_no_earlier_entry_gives_no_id(tmp_path: Path, at: float) -> None:
    compaction = old("compaction", summary="S", tokensBefore=1, firstKeptEntryIndex=at)
    data = session(say("a"), compaction, say("c"), header=OLD_HEADER).replace(b"Infinity", b"1e400")
    lines = migrated(tmp_path, data)
    assert "firstKeptEntryId" not in lines[2]
    assert "firstKeptEntryIndex" not in lines[2]


def test_hook_messages_become_custom_messages(tmp_path: Path) -> None:
    hook = user("a", None) | {"message": {"role": "hookMessage", "customType": "x", "content": "c", "display": True}}
    header, entry = migrated(tmp_path, session(hook, header={**HEADER, "version": 2}))
    assert header["version"] == 3
    assert entry == {**hook, "message": {**hook["message"], "role": "custom"}}


def test_warnings_of_the_old_file_come_along(tmp_path: Path) -> None:
    source = tmp_path / "old.jsonl"
    source.write_bytes(session(say("a"), header=OLD_HEADER) + b'{"torn')
    index = migrate(source, tmp_path / "new.jsonl")
    assert index.entries == 1
    assert "torn" in index.warnings[0]
    assert "migrated from version 1 to 3" in index.warnings[1]


def test_damage_is_an_error_or_left_out(tmp_path: Path) -> None:
    data = session(say("a"), b"garbage\n", b"[1]\n", say("b"), header=OLD_HEADER)
    with pytest.raises(SessionDamaged):
        migrated(tmp_path, data)
    assert not (tmp_path / "new.jsonl").exists()
    _, first, second = migrated(tmp_path, data, "skip")
    assert second["parentId"] == first["id"]


def test_a_present_session_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session())
    with pytest.raises(ValueError, match="nothing to migrate"):
        migrate(path, tmp_path / "new.jsonl")


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    source, dest = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    source.write_bytes(session(say("a"), header=OLD_HEADER))
    dest.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        migrate(source, dest)
    assert dest.read_bytes() == b"mine"
