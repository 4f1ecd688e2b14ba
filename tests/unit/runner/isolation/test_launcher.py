"""The launcher: what it does when somebody kills or stops it, and when the runner is gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.isolation import kernel
from runner.isolation.confining import Recipe
from runner.isolation.launching import Launched, Launcher
from runner.isolation.process_table import descendants, end_children, own_children, read_row, read_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")

STEPS = ("--cwd", "/", "--limit", "RLIMIT_CORE:0:0")
WITHIN_S = 20.0


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    kernel.become_subreaper()
    launcher = Launcher(str(tmp_path / "scratch"))
    yield launcher
    launcher.close()
    end_children(WITHIN_S)


def start(launcher: Launcher, script: str) -> tuple[Launched, int]:
    """The command, and where its output is read."""
    reading, writing = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    try:
        launched = launcher.start(
            STEPS, {"PATH": os.environ["PATH"]}, ["/bin/bash", "-c", script], (nowhere, writing, writing), None
        )
    finally:
        os.close(writing)
        os.close(nowhere)
    return launched, reading


def output(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + WITHIN_S
    while not condition() and time.monotonic() < until:
        os.sched_yield()
    return condition()


def test_a_command_gets_its_streams_and_its_environment_and_nothing_else(launcher: Launcher) -> None:
    launched, reading = start(launcher, "echo *; cd /proc/self/fd; echo *; env")
    said = output(reading).decode()
    assert launched.wait() == 0
    assert "0 1 2" in said
    numbers = next(line for line in said.splitlines() if line.startswith("0 1 2"))
    assert set(numbers.split()) - {"255"} <= {"0", "1", "2", "3"}, "3 is what lists the folder"
    assert "HOME=" not in said


@pytest.mark.parametrize(("script", "returncode"), [("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL $$", -9)])
def test_how_a_command_ended_is_told(launcher: Launcher, script: str, returncode: int) -> None:
    launched, reading = start(launcher, script)
    assert launched.wait() == returncode
    assert launched.poll() == returncode
    os.close(reading)


def test_a_program_that_cannot_be_started_is_told_at_once(launcher: Launcher) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    with pytest.raises(ValueError, match="No such file"):
        launcher.start(STEPS, {}, ["/no/such/program"], (nowhere, nowhere, nowhere), None)
    os.close(nowhere)


def test_a_tool_that_signals_its_whole_group_does_not_reach_the_launcher(launcher: Launcher) -> None:
    first, reading = start(launcher, "kill -KILL 0")
    assert first.wait() == -signal.SIGKILL
    os.close(reading)
    before = launcher.pids
    second, reading = start(launcher, "echo still there")
    assert output(reading) == b"still there\n"
    assert second.wait() == 0
    assert launcher.pids == before


def test_signals_that_stop_a_whole_container_leave_the_launcher_alone(launcher: Launcher) -> None:
    launched, reading = start(launcher, "read -r _ < <(sleep 0.2); echo answered")
    (pid,) = launcher.pids
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert output(reading) == b"answered\n"
    assert launched.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_launcher_that_is_killed_or_stopped_takes_its_commands_with_it_and_a_new_one_serves(
    launcher: Launcher, number: int, request: pytest.FixtureRequest
) -> None:
    launched, reading = start(launcher, "(setsid sleep 300 &); echo ready; sleep 300")
    assert os.read(reading, 6) == b"ready\n"
    (pid,) = launcher.pids
    family = descendants(read_table(), [pid])
    assert len(family) >= 3
    os.kill(pid, number)

    again, reading_again = start(launcher, "echo served")
    assert output(reading_again) == b"served\n"
    assert again.wait() == 0
    assert launched.wait() == -signal.SIGKILL
    assert output(reading) == b"", "nobody is left who holds the pipe"
    assert eventually(lambda: not [row for row in read_table().values() if row.pid in family and not row.zombie])


OWNER = """
import asyncio, os, sys
from pathlib import Path
from runner.isolation import kernel
from runner.isolation.establish import build_spawner
from runner.isolation.settings import IsolationSettings

SCRIPT = '''
trap "" TERM
(setsid sh -c 'trap "" TERM; sleep 300' &)
mkdir -p $TMPDIR/closed/in
chmod 0 $TMPDIR/closed
echo ready
sleep 300
'''

async def main():
    isolation = build_spawner(IsolationSettings(Path(sys.argv[1]), (), {}), os.environ, levels=(sys.argv[2],))
    process = await isolation.spawner.start(["bash", "-c", SCRIPT], cwd=Path(sys.argv[1]), env={})
    print(isolation.verdict.claimed, (await process.stdout.readline()).decode().strip(), flush=True)
    sys.stdin.read()

kernel.become_subreaper()
asyncio.run(main())
"""


@pytest.mark.parametrize("level", ["process", "landlock", "namespace"])
def test_when_the_runner_is_killed_its_tools_end_and_their_folders_go(tmp_path: Path, level: str) -> None:
    (tmp_path / "workspace").mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    tmp_path.chmod(0o755)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "workspace"), level],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    claimed = owner.stdout.readline().split()
    family = descendants(read_table(), [owner.pid])
    owner.kill()
    owner.wait(WITHIN_S)
    owner.stdout.close()
    owner.stdin.close()
    if claimed != [level, "ready"]:
        pytest.skip(f"{level}: not available")
    assert len(family) >= 4
    assert eventually(lambda: not [each for each in family if (row := read_row(each)) is not None and not row.zombie])
    assert eventually(lambda: not list(temporary.iterdir()))


def test_a_launcher_that_is_told_of_the_end_leaves_the_folder_and_is_gone(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = own_children()
    launcher = Launcher(str(scratch))
    launched, reading = start(launcher, "true")
    assert launched.wait() == 0
    os.close(reading)
    launcher.close()
    assert own_children() == before
    assert scratch.exists()


def test_without_a_command_there_is_no_launcher(tmp_path: Path) -> None:
    launcher = Launcher(str(tmp_path))
    assert launcher.pids == set()
    launcher.close()


def test_what_the_recipe_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="--unknown"):
        Recipe(["--unknown", "--", "true"])


def test_a_recipe_takes_values_as_they_are() -> None:
    recipe = Recipe(["--env", "A=b=c\n", "--read", "/a b", "--write", "/w\nx", "--user", "5:6", "--", "x", "--env", ""])
    assert recipe.environment == {"A": "b=c\n"}
    assert (recipe.readable, recipe.writable, recipe.user) == (["/a b"], ["/w\nx"], (5, 6))
    assert recipe.command == ["x", "--env", ""]
