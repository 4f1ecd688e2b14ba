"""Every recorded agent-loop scenario, as it is and with extra event-loop turns in between."""

from pathlib import Path

import pytest

from tests.conformance.loop.__main__ import failures, main

CORPUS = Path(__file__).parent.parent / "corpus" / "loop"
FILES = sorted(CORPUS.glob("*.json"))


def test_the_recorded_scenarios_are_there() -> None:
    assert len(FILES) > 200


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_goes_as_recorded(file: Path) -> None:
    assert failures(file) == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_extra_event_loop_turns_change_nothing(seed: int) -> None:
    assert {file.name: found for file in FILES if (found := failures(file, seed))} == {}


def test_the_command_names_what_differs_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILES[0].read_text(encoding="utf-8")
    (tmp_path / "right.json").write_text(text, encoding="utf-8")
    (tmp_path / "wrong.json").write_text(text.replace("event turn_end", "event turn_over"), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "FAILED wrong.json trace:" in printed
    assert '-"event turn_over"' in printed
    assert "FAILED broken.json could not be played" in printed
    assert printed.endswith("1 passed, 2 failed\n")
