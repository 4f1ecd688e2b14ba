"""What every spawner does, whatever the level: one contract over all that this machine can do."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from runner.errors import Refused
from runner.isolation import kernel
from runner.isolation.confinement import LEVELS, Level
from runner.isolation.errors import SpawnFailed
from runner.isolation.establish import Isolation, build_spawner
from runner.isolation.limits import Limits
from runner.isolation.port import ExitStatus
from runner.isolation.process_table import read_table
from runner.isolation.settings import IsolationSettings

T = TypeVar("T")
SECRET = "value-of-a-secret"


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Level:
    return request.param


@asynccontextmanager
async def established(folder: Path, level: Level) -> AsyncGenerator[Isolation]:
    kernel.become_subreaper()
    (folder / "workspace").mkdir()
    settings = IsolationSettings(folder / "workspace", (), {}, limits=Limits(memory_mb=1024, file_mb=4, processes=64))
    isolation = build_spawner(settings, {**os.environ, "SOME_API_KEY": SECRET}, levels=(level,))
    if isolation.verdict.claimed != level:
        isolation.discard()
        pytest.skip(f"{level}: {'; '.join(str(each.unusable) for each in isolation.passed_over) or 'not available'}")
    try:
        yield isolation
    finally:
        await isolation.spawner.close()
        isolation.remove()


def run(folder: Path, level: Level, story: Callable[[Isolation], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with established(folder, level) as isolation:
            return await asyncio.wait_for(story(isolation), 60)

    return asyncio.run(whole())


async def output_of(isolation: Isolation, script: str) -> tuple[str, ExitStatus]:
    process = await isolation.spawner.start(["bash", "-c", script], cwd=Path(isolation.grounds.workspace), env={})
    output = await process.stdout.read()
    status = await process.wait()
    await process.end()
    return output.decode(), status


def test_a_command_runs_in_its_folder_and_tells_its_code(tmp_path: Path, level: Level) -> None:
    output, status = run(tmp_path, level, lambda each: output_of(each, "pwd; echo to-stderr >&2; exit 7"))
    assert output.splitlines() == [str((tmp_path / "workspace").resolve()), "to-stderr"]
    assert status == ExitStatus(7, None)


def test_a_signal_is_told_by_its_name(tmp_path: Path, level: Level) -> None:
    _, status = run(tmp_path, level, lambda each: output_of(each, "kill -TERM $$"))
    assert status == ExitStatus(None, "SIGTERM")


def test_standard_input_is_empty(tmp_path: Path, level: Level) -> None:
    output, _ = run(tmp_path, level, lambda each: output_of(each, "cat; echo end"))
    assert output == "end\n"


def test_the_environment_holds_nothing_of_the_runners_secrets(tmp_path: Path, level: Level) -> None:
    output, _ = run(tmp_path, level, lambda each: output_of(each, "env"))
    assert SECRET not in output
    assert "HOME=" in output


def test_home_and_the_temporary_folder_last_from_one_command_to_the_next(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> str:
        await output_of(isolation, 'echo one > "$HOME/x"; echo two > "$TMPDIR/y"')
        return (await output_of(isolation, 'cat "$HOME/x" "$TMPDIR/y"'))[0]

    assert run(tmp_path, level, story) == "one\ntwo\n"


def test_an_interactive_command_talks_over_its_pipes(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> list[bytes]:
        process = await isolation.spawner.start(
            ["cat"], cwd=Path(isolation.grounds.workspace), env={}, interactive=True, merge_stderr=False
        )
        assert process.stdin is not None
        heard: list[bytes] = []
        for line in (b"first\n", b"second\n"):
            process.stdin.write(line)
            await process.stdin.drain()
            heard.append(await process.stdout.readline())
        process.stdin.close()
        assert await process.wait() == ExitStatus(0, None)
        return heard

    assert run(tmp_path, level, story) == [b"first\n", b"second\n"]


def test_waiting_is_for_the_leader_and_not_for_who_holds_its_pipes(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> bytes:
        process = await isolation.spawner.start(
            ["bash", "-c", "sleep 50 & echo said"], cwd=Path(isolation.grounds.workspace), env={}
        )
        assert await process.wait() == ExitStatus(0, None)
        await process.end()
        return await process.stdout.read()

    assert run(tmp_path, level, story) == b"said\n"


def test_ending_one_command_leaves_another_alone(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> bytes:
        folder = Path(isolation.grounds.workspace)
        other = await isolation.spawner.start(
            ["bash", "-c", "(sleep 0.1; cat) & wait; echo done"], cwd=folder, env={}, interactive=True
        )
        ended = await isolation.spawner.start(["bash", "-c", "setsid sleep 50 & sleep 50"], cwd=folder, env={})
        await ended.end()
        assert (await ended.wait()).signal == "SIGKILL"
        return await other.stdout.read()

    assert run(tmp_path, level, story) == b"done\n"


def test_output_that_nobody_reads_stops_the_command_and_not_the_runner(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> int:
        process = await isolation.spawner.start(["yes"], cwd=Path(isolation.grounds.workspace), env={})
        await process.stdout.readexactly(1024)
        await process.end()
        return len(await process.stdout.read())

    assert run(tmp_path, level, story) < 4 * 1024 * 1024


def test_closing_ends_everything_and_refuses_what_comes_later(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> set[int]:
        before = set(read_table())
        folder = Path(isolation.grounds.workspace)
        for script in ("sleep 50", "setsid sleep 50 & exit", "trap '' TERM; sleep 50"):
            await isolation.spawner.start(["bash", "-c", script], cwd=folder, env={})
        await isolation.spawner.close()
        await isolation.spawner.close()
        with pytest.raises(SpawnFailed, match="ending"):
            await isolation.spawner.start(["true"], cwd=folder, env={})
        me = os.getpid()
        return {row.pid for row in read_table().values() if row.parent == me} - before

    assert run(tmp_path, level, story) == set()


@pytest.mark.parametrize("command", [["no-such-program-anywhere"], []])
def test_a_program_that_is_not_there_is_said_in_words(tmp_path: Path, command: list[str]) -> None:
    async def story(isolation: Isolation) -> str:
        with pytest.raises(SpawnFailed) as failed:
            await isolation.spawner.start(command, cwd=Path(isolation.grounds.workspace), env={})
        return str(failed.value)

    assert "program" in run(tmp_path, "none", story) or not command


@pytest.mark.parametrize("command", [["echo", "a\0b"], ["echo", "x" * 200_000]])
def test_a_command_that_the_kernel_does_not_take_is_refused(tmp_path: Path, level: Level, command: list[str]) -> None:
    async def story(isolation: Isolation) -> None:
        with pytest.raises(SpawnFailed, match="could not be started"):
            await isolation.spawner.start(command, cwd=Path(isolation.grounds.workspace), env={})

    run(tmp_path, level, story)


def test_a_variable_that_would_act_on_the_confinement_is_refused(tmp_path: Path) -> None:
    async def story(isolation: Isolation) -> None:
        with pytest.raises(SpawnFailed, match="LD_PRELOAD"):
            await isolation.spawner.start(["true"], cwd=tmp_path, env={"LD_PRELOAD": "/x.so"})

    run(tmp_path, "none", story)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> None:
        with pytest.raises(SpawnFailed, match="not there"):
            await isolation.spawner.start(["true"], cwd=tmp_path / "nowhere", env={})

    run(tmp_path, level, story)


def test_paths_with_newlines_and_blanks_are_paths(tmp_path: Path, level: Level) -> None:
    async def story(isolation: Isolation) -> bytes:
        folder = Path(isolation.grounds.workspace) / "a\nb -- 'c'"
        folder.mkdir()
        folder.chmod(0o777)
        process = await isolation.spawner.start(["touch", "in\nside"], cwd=folder, env={})
        await process.wait()
        return b"|".join(os.fsencode(path.name) for path in folder.iterdir())

    assert run(tmp_path, level, story) == b"in\nside"


def test_a_file_over_the_limit_ends_its_command_only(tmp_path: Path, level: Level) -> None:
    if level == "none":
        pytest.skip("none: has no limits")
    _, status = run(tmp_path, level, lambda each: output_of(each, "exec head -c 8000000 /dev/zero > large"))
    assert status == ExitStatus(None, "SIGXFSZ")


def test_what_is_required_and_does_not_hold_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "notes").write_text(f"the key is {SECRET}")
    settings = IsolationSettings(tmp_path / "workspace", (), {"some_key": SECRET}, required="process")
    with pytest.raises(Refused) as refused:
        build_spawner(settings, os.environ)
    assert refused.value.reason == "isolation_too_weak"
    assert "secret some_key in" in refused.value.message
    assert SECRET not in refused.value.message


def test_a_network_that_cannot_be_kept_off_is_refused_whatever_is_required(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    settings = IsolationSettings(tmp_path / "workspace", (), {}, network=False)
    with pytest.raises(Refused):
        build_spawner(settings, os.environ, levels=("none",))


async def stopped_launcher(isolation: Isolation) -> int:
    """The pid of the launcher, which a tool could have stopped like this."""
    await output_of(isolation, "true")
    launchers = [row for row in read_table().values() if row.parent == os.getpid() and row.session == row.pid]
    (launcher,) = launchers
    os.kill(launcher.pid, signal.SIGSTOP)
    return launcher.pid


def test_where_tools_can_only_run_as_root_the_process_level_does_not_hold(tmp_path: Path) -> None:
    """Root's files are theirs, also those that lift the limit of the control group."""

    async def story(isolation: Isolation) -> None:
        if "as root" not in isolation.verdict.description:
            pytest.skip("tools run as a user of their own here")
        assert isolation.level == "none"
        assert "process_limit" in isolation.verdict.managed

    run(tmp_path, "process", story)


def children_of(pid: int) -> list[int]:
    return [row.pid for row in read_table().values() if row.parent == pid and not row.zombie]


def test_a_launcher_that_was_stopped_keeps_nobody_waiting_but_its_command_and_the_end_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async def story(isolation: Isolation) -> None:
        launcher = await stopped_launcher(isolation)
        starting = asyncio.create_task(output_of(isolation, "true"))
        assert await asyncio.wait({starting}, timeout=0.2) == (set(), {starting}), "the loop goes on meanwhile"
        await asyncio.wait_for(isolation.spawner.close(), 4)
        with pytest.raises(SpawnFailed, match="the run is ending"):
            await starting
        assert launcher not in read_table()

    run(tmp_path, "process", story)


def test_a_command_that_nobody_waits_for_any_more_is_ended_once_it_has_begun(tmp_path: Path) -> None:
    async def story(isolation: Isolation) -> None:
        launcher = await stopped_launcher(isolation)
        workspace = Path(isolation.grounds.workspace)
        starting = asyncio.create_task(isolation.spawner.start(["sleep", "300.25"], cwd=workspace, env={}))
        assert await asyncio.wait({starting}, timeout=0.2) == (set(), {starting})
        starting.cancel()
        os.kill(launcher, signal.SIGCONT)
        assert await output_of(isolation, "echo next") == ("next\n", ExitStatus(0, None))
        async with asyncio.timeout(10):
            while children_of(launcher):  # noqa: ASYNC110 - the process table tells nobody of a change
                await asyncio.sleep(0)

    run(tmp_path, "process", story)
