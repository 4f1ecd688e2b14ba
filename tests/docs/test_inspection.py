"""The commands on the page about inspection are run, and print what it says; its numbers are the program's."""

import re
from pathlib import Path

import pytest

from runner.inspection import html_parts, text_report
from tests.docs.test_readme import shell

PAGE = (Path(__file__).parents[2] / "docs" / "inspection.md").read_text()
CHECKED = re.findall(r"<!-- checked: (.+?) -->\n```console\n\$ (.+?)\n(.*?)```", PAGE, re.S)
FILES = re.findall(r"<!-- file: (.+?) -->\n```json\n(.*?)```", PAGE, re.S)


def test_the_page_has_a_checked_example_of_every_command() -> None:
    commands = " ".join(command for command, _, _ in CHECKED)
    assert all(f"runner {name} " in commands for name in ("inspect", "export", "import", "diff"))


@pytest.mark.parametrize(("command", "shown", "output"), CHECKED, ids=[command[:30] for command, _, _ in CHECKED])
def test_an_example_prints_what_is_shown(command: str, shown: str, output: str, tmp_path: Path) -> None:
    for name, content in FILES:
        (tmp_path / name).write_text(content)
    assert command == shown
    assert shell(command, tmp_path) == output


def test_the_limits_on_the_page_are_those_of_the_program() -> None:
    folded = f"more than {text_report.FOLD_LINES} lines or {text_report.FOLD_CHARS:,}"
    assert folded in " ".join(PAGE.split())
    assert f"over {html_parts.CUT_CHARS:,} characters they are cut" in PAGE
