"""docs/launch.md lists every command with the options that the command line takes, no others, and every exit code."""

import re
from pathlib import Path

import pytest

from runner.cli import build_parser
from runner.errors import UsageError
from runner.exits import Exit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/launch.md").read_text()
README = (ROOT / "README.md").read_text()
LISTED = re.findall(r"```\n(runner run .*?)STORE OPTIONS:(.*?)```", PAGE, re.S)


def commands() -> list[str]:
    with pytest.raises(UsageError) as refused:
        build_parser().parse_args(["no-command"])
    return re.findall(r"'([a-z]+)'", refused.value.message)


COMMANDS = commands()


def listed() -> dict[str, str]:
    """What the page says of each command: its lines, with the options of a store where it takes them."""
    text, shared = LISTED[0]
    found: dict[str, str] = {}
    for name, rest in re.findall(r"^runner (\w+)(.*(?:\n .*)*)", text, re.MULTILINE):
        found[name] = found.get(name, "") + rest.replace("[STORE OPTIONS]", shared)
    return found


def test_every_command_is_listed_and_no_other() -> None:
    assert len(COMMANDS) > 10
    assert set(listed()) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_listed_with_its_options_and_no_others(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args([command, "--help"])
    usage = capsys.readouterr().out.split("\n\n")[0]

    assert set(re.findall(r"--[a-z0-9-]+", listed()[command])) == set(re.findall(r"--[a-z0-9-]+", usage))


def test_every_exit_code_is_explained() -> None:
    explained = {int(code) for code in re.findall(r"^\| (\d+)[ ,]", PAGE, re.MULTILINE)}
    assert {int(code) for code in Exit} <= explained


def test_the_readme_names_every_command_that_does_something() -> None:
    assert [name for name in COMMANDS if name != "version" and not re.search(rf"(runner |`){name}\b", README)] == []


def test_the_readme_links_every_page() -> None:
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name}" not in README] == []
