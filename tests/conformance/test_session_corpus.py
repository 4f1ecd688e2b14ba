"""Every recorded session file reads here as it does in Pi 1.6, but for the differences we mean."""

from pathlib import Path

import pytest

from checkpoint.jsontypes import JsonObject
from checkpoint.session.context import load_context
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.migration import index_file, migrate
from tests.conformance.session import first_difference, main, run_case
from tests.conformance.session_differences import DIFFERENCES

CORPUS = Path(__file__).parent.parent / "corpus" / "session"
CASES = sorted(file.name.removesuffix(".expected.json") for file in CORPUS.glob("*.expected.json"))
UNDAMAGED = [name for name in CASES if '"damaged": false' in (CORPUS / f"{name}.expected.json").read_text()]


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_session_reads_as_in_pi(name: str) -> None:
    result = run_case(CORPUS / f"{name}.jsonl", CORPUS / f"{name}.expected.json")
    assert result.differences == []


@pytest.mark.parametrize("name", UNDAMAGED)
def test_a_session_that_pi_wrote_whole_restores_without_a_warning_in_strict_reading(name: str, tmp_path: Path) -> None:
    recorded: JsonObject = parse(decode_text((CORPUS / f"{name}.expected.json").read_bytes()))
    assert recorded["damaged"] is False
    path = CORPUS / f"{name}.jsonl"
    index = index_file(path)
    if index.needs_migration:
        path = tmp_path / "migrated.jsonl"
        index = migrate(CORPUS / f"{name}.jsonl", path)
        assert "migrated" in index.warnings.pop()
    assert index.warnings == []
    expected: JsonObject = recorded.get("both") or recorded["pi16"]
    wanted = [message for message in expected["messages"] if message.get("role") != "system"]
    assert len(load_context(path, index).messages) == len(wanted)


def test_the_corpus_is_there() -> None:
    assert len(CASES) > 200
    assert len(UNDAMAGED) > 100


def test_every_deliberate_difference_gives_its_reason() -> None:
    assert all(difference.__doc__ for difference in DIFFERENCES)


def test_the_command_fails_for_a_file_that_reads_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "linear-chat-1"
    expected = (CORPUS / f"{name}.expected.json").read_text()
    (tmp_path / "other.expected.json").write_text(expected)
    (tmp_path / "other.jsonl").write_bytes((CORPUS / "linear-chat-2.jsonl").read_bytes())
    (tmp_path / "same.expected.json").write_text(expected)
    (tmp_path / "same.jsonl").write_bytes((CORPUS / f"{name}.jsonl").read_bytes())
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "FAILED other" in printed
    assert "1 passed, 1 failed" in printed


def test_the_command_fails_for_a_folder_without_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "no *.expected.json" in capsys.readouterr().err


def test_the_command_wants_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "wanted", "where"),
    [
        ("1", "1", None),
        ("1", "1.0", None),
        ("1", "true", ": 1, Pi has True"),
        ('{"a":[1,2]}', '{"a":[1,3]}', ".a[1]: 2, Pi has 3"),
        ('{"a":1}', '{"b":1}', ": {'a': 1}, Pi has {'b': 1}"),
        ("[1]", "[1,2]", ": 1 elements, Pi has 2"),
        ("[" * 3000 + "]" * 3000, "[" * 3000 + "]" * 3000, None),
    ],
)
def test_differences_are_named_by_their_place(found: str, wanted: str, where: str | None) -> None:
    assert first_difference(parse(found), parse(wanted)) == where
