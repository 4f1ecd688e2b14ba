"""The example of docs/replay.md does what the page says."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"


def test_the_example_on_the_page_of_replays_prints_what_it_shows(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"```\n\$ runner (replay \S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (session,) = re.findall(r"```jsonl\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "session.jsonl").write_text(session)
    (tmp_path / "changed.jsonl").write_text(session.replace('"toolName":"bash"', '"toolName":"zsh"'))

    assert set(blocks) == {"replay session.jsonl", "replay changed.jsonl"}
    for command, shown in blocks.items():
        run = subprocess.run(
            [sys.executable, "-m", "runner", *command.split()],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.stdout == shown
        assert run.returncode == (0 if shown.endswith("\nsame\n") else 1), run.stderr
