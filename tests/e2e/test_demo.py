"""`runner demo`, as somebody who has just cloned the repository runs it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.scene import TIMEOUT_S


def test_the_demo_tells_the_whole_story_and_can_be_run_again_in_the_same_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", "demo", "--folder", str(tmp_path / "demo")]
    for round_number in (1, 2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "settled: ask_user" in done.stdout
        assert "settled: success: Deployed to staging. All checks are green." in done.stdout
        assert re.search(r"the page: http://127\.0\.0\.1:\d+/\?token=\S{20}", done.stdout)
        heads = list((tmp_path / "demo" / "store" / "pipelines").glob("*/head.json"))
        assert len(heads) == 2 * round_number


def test_a_kept_server_shows_the_finished_story_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", "demo", "--folder", str(tmp_path / "demo"), "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout)
        link = next(lines).split("the page: ")[1].strip()
        assert any("Ctrl-C ends it" in line for line in lines)
        with httpx.Client(follow_redirects=True, timeout=TIMEOUT_S) as browser:
            assert "<title>Pipeline runner</title>" in browser.get(link).text
            (session,) = browser.get(f"{link.partition('?')[0]}api/sessions").json()["sessions"]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(TIMEOUT_S) == 0
    assert session["state"] == "SUCCEEDED"
    with pytest.raises(httpx.ConnectError):
        httpx.get(link)


def test_a_folder_that_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "runner", "demo", "--folder", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 78
    assert done.stderr == f"runner: {tmp_path / 'file'} cannot be used (File exists): name another folder\n"
