"""`runner diff` on sources of all kinds."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.inspection.comparing import diff_sources
from tests.unit.runner.inspection.stored import CORPUS, NOWHERE, Shelf, assistant, session_bytes, user

A = session_bytes(user("Deploy it."), assistant("Done."), user("Thanks."))


def diff(a: str, b: str, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any]]:
    code = diff_sources(a, b, NOWHERE, form="json", on_damage=options.get("on_damage", "fail"))
    return code, json.loads(capsys.readouterr().out)


def file(tmp_path: Path, name: str, data: bytes) -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def test_a_checkpoint_and_its_file_are_the_same_in_any_spelling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = Shelf(tmp_path)
    uploaded = shelf.checkpoint(A)
    respelt = b"".join(json.dumps(json.loads(line), separators=(",", ":")).encode() + b"\n" for line in A.splitlines())
    head = shelf.head(terminal=({"settlement": {"kind": "success"}}, uploaded))
    for address in (shelf.path(uploaded.key), head, file(tmp_path, "b.jsonl", respelt)):
        code, found = diff(file(tmp_path, "a.jsonl", A), address, capsys)
        assert (code, found["same"], found["common_entries"]) == (0, True, 3)
        assert found["facts"] == found["entries"] == []


def test_what_only_one_side_has_and_what_changed_is_named_by_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = session_bytes(user("Deploy it."), assistant("Failed."), user("Thanks."), user("Again."))
    code, found = diff(file(tmp_path, "a", A), file(tmp_path, "b", b), capsys)
    assert (code, found["common_entries"]) == (1, 1)
    changed, only = found["entries"]
    assert changed == {
        "kind": "changed",
        "id": "00000002",
        "line_a": 3,
        "line_b": 3,
        "changes": [{"path": "/message/content/0/text", "a": "Done.", "b": "Failed."}],
    }
    assert (only["kind"], only["id"], only["line"]) == ("only_b", "00000004", 5)
    assert {"path": "/leaf_id", "a": "00000003", "b": "00000004"} in found["facts"]
    assert (found["only_a"], found["only_b"], found["changed"]) == (0, 1, 1)


def test_the_text_says_the_same_and_shows_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = session_bytes(user("Deploy it."), assistant("\x1b[2J" + "x" * 500), user("Thanks."))
    assert diff_sources(file(tmp_path, "a", A), file(tmp_path, "b", b), NOWHERE, form="text", on_damage="fail") == 1
    shown = capsys.readouterr().out
    assert "1 entry in common from the beginning on" in shown
    assert "~ changed: 00000002  assistant (m-1)  line 3" in shown
    assert '/message/content/0/text: "Done." -> "\\u001b[2Jxxx' in shown
    assert "\x1b" not in shown
    assert "0 only in A, 0 only in B, 1 changed, 0 other differences" in shown


def test_settlements_of_two_heads_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads: list[str] = []
    for name, kind in (("one", "success"), ("two", "ask_user")):
        (tmp_path / name).mkdir()
        shelf = Shelf(tmp_path / name)
        heads.append(shelf.head(terminal=({"settlement": {"kind": kind}}, shelf.checkpoint(A))))
    code, found = diff(heads[0], heads[1], capsys)
    assert code == 1
    assert found["facts"] == [{"path": "/settlement/settlement/kind", "a": "success", "b": "ask_user"}]


def test_transcripts_of_subagents_are_compared_by_their_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses: list[str] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shelf, sub = Shelf(tmp_path / name), tmp_path / name / "sub"
        sub.write_bytes(session_bytes(user(name)))
        addresses.append(shelf.path(shelf.checkpoint(A, files={"subagent-1": sub}).key))
    code, found = diff(addresses[0], addresses[1], capsys)
    assert code == 1
    assert [change["path"] for change in found["facts"]] == ["/checkpoint/files/subagent-1"]


def test_a_head_without_a_session_differs_from_one_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = diff(Shelf(tmp_path).head(), file(tmp_path, "a", A), capsys)
    assert (code, found["only_b"]) == (1, 3)


@pytest.mark.parametrize(
    "name",
    [
        "branch-summary-1",
        "compaction-multi-1",
        "cycle-two-1",
        "deep-nesting-1",
        "duplicate-ids-1",
        "hole-1",
        "missing-entry-fields-1",
        "number-edge-1",
        "odd-entry-fields-1",
        "v1-linear-1",
    ],
)
def test_no_session_differs_from_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CORPUS / f"{name}.jsonl")
    assert diff_sources(path, path, NOWHERE, form="text", on_damage="skip") == 0
    assert "no difference" in capsys.readouterr().out
