"""`runner demo`, as somebody who has just cloned the repository runs it."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.scene import TIMEOUT_S


def test_the_demo_tells_the_whole_story_and_can_be_run_again_in_the_same_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", "demo", "--folder", str(tmp_path / "demo")]
    for round_number in (1, 2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "settled: ask_user" in done.stdout
        assert "settled: success: Deployed to staging. All checks are green." in done.stdout
        heads = list((tmp_path / "demo" / "store" / "pipelines").glob("*/head.json"))
        assert len(heads) == 2 * round_number
