"""The README's commands are run, and print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
CHECKED = re.findall(r"<!-- checked: (.+?) -->\n```(?:text|console)\n(.*?)```", README, re.S)
FILES = re.findall(r"<!-- file: (.+?) -->\n```json\n(.*?)```", README, re.S)


def shell(command: str, folder: Path) -> str:
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_has_checked_snippets_and_their_files() -> None:
    assert len(CHECKED) >= 3
    assert {name for name, _ in FILES} == {"spec.json", "script.json"}


@pytest.mark.parametrize(("command", "shown"), CHECKED, ids=[command for command, _ in CHECKED])
def test_a_readme_snippet_prints_what_is_shown(command: str, shown: str, tmp_path: Path) -> None:
    for name, content in FILES:
        (tmp_path / name).write_text(content)
    first, _, rest = shown.partition("\n")
    if first.startswith("$ "):
        command, shown = first.removeprefix("$ "), rest
    assert shell(command, tmp_path) == shown
