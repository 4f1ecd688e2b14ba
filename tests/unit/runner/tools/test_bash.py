import asyncio
import os
import time
from pathlib import Path

import pytest

from runner.agent.abort import AbortController
from runner.agent.types import AgentTool, ToolResult
from runner.tools.bash import MAX_TIMEOUT_S, MAX_UPDATE_S, UPDATE_S, bash_tool, timeout_of, update_interval
from runner.tools.errors import ToolFailed
from runner.tools.folders import ToolFolders
from tests.fakes.plain_spawner import PlainSpawner
from tests.fakes.tool_calls import error_from, played, result_of, text_from

pytestmark = pytest.mark.anyio


@pytest.fixture
def bash(spawner: PlainSpawner, folders: ToolFolders) -> AgentTool:
    return bash_tool(spawner, folders)


async def ended(pid: int) -> bool:
    """Whether a process ends, or has ended, within a bound."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    readable = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, readable.set)
    try:
        await asyncio.wait_for(readable.wait(), 5)
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
    return True


async def test_output_and_errors_come_together_and_the_folder_is_the_workspace(
    bash: AgentTool, workspace: Path
) -> None:
    assert await text_from(bash, command="pwd; echo oops >&2; echo done") == f"{workspace}\noops\ndone"


async def test_a_command_without_output_says_so(bash: AgentTool) -> None:
    assert await text_from(bash, command="true") == "(no output)"


async def test_there_is_no_input(bash: AgentTool) -> None:
    assert await text_from(bash, command="cat; echo end") == "end"


async def test_a_failed_command_is_an_error_with_its_output(bash: AgentTool) -> None:
    assert await error_from(bash, command="echo before; exit 3") == "before\n\nThe command exited with code 3"
    assert await error_from(bash, command="exit 1") == "The command exited with code 1"
    message = await played([bash], "bash", command="exit 1")
    assert message["isError"] is True


async def test_a_killed_command_tells_the_signal(bash: AgentTool) -> None:
    assert await error_from(bash, command="echo before; kill -SEGV $$") == (
        "before\n\nThe command was ended by SIGSEGV"
    )


async def test_a_command_in_it_that_was_killed_is_told_too(bash: AgentTool) -> None:
    error = await error_from(bash, command="bash -c 'kill -9 $$'; exit $?")
    assert error.endswith("The command exited with code 137 (a command in it was ended by SIGKILL)")


async def test_a_timeout_ends_everything_and_keeps_the_output(bash: AgentTool, workspace: Path) -> None:
    error = await error_from(bash, command="sleep 60 & echo $!; sleep 60", timeout=0.3)
    pid, _, said = error.partition("\n\n")
    assert said == "The command took longer than 0.3 seconds and was stopped"
    assert await ended(int(pid))


async def test_the_call_ends_with_the_shell_and_so_does_what_it_left(bash: AgentTool) -> None:
    began = time.monotonic()
    text = await text_from(bash, command="sleep 60 & echo $!")
    assert time.monotonic() - began < 10
    assert await ended(int(text))


async def test_output_that_comes_shortly_after_the_shell_is_taken(bash: AgentTool) -> None:
    assert await text_from(bash, command="(sleep 0.1; echo late) & echo now") == "now\nlate"


async def test_an_abort_ends_everything_and_keeps_the_output(bash: AgentTool) -> None:
    controller = AbortController()
    pids: list[int] = []

    def on_update(partial: ToolResult) -> None:
        pids.append(int(partial["content"][0]["text"]))
        controller.abort()

    with pytest.raises(ToolFailed, match=r"^\d+\n\nThe command was aborted$"):
        await bash.execute("c", {"command": "echo $$; exec sleep 60"}, controller.signal, on_update)
    assert await ended(pids[0])


async def test_nothing_is_started_after_an_abort(bash: AgentTool, spawner: PlainSpawner) -> None:
    controller = AbortController()
    controller.abort()
    assert await error_from(bash, controller.signal, command="echo") == "The command was aborted"
    assert spawner.started == []


async def test_a_cancelled_call_leaves_nothing_running(bash: AgentTool, spawner: PlainSpawner) -> None:
    seen = asyncio.Event()
    call = asyncio.ensure_future(bash.execute("c", {"command": "echo; sleep 60"}, None, lambda _partial: seen.set()))
    await asyncio.wait_for(seen.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await ended(spawner.started[0].pid)


async def test_long_output_is_cut_to_its_end_and_kept_in_a_file(bash: AgentTool, folders: ToolFolders) -> None:
    result = await result_of(bash, command="seq 10000")
    text: str = result["content"][0]["text"]
    path = folders.outputs / "bash-1.txt"
    assert text.startswith("8001\n")
    assert text.endswith(f"10000\n\n[The last 2000 of 10000 lines, 9.8 KB of 47.7 KB. Full output: {path}]")
    assert result["details"]["fullOutputPath"] == str(path)
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 10001))


async def test_a_failed_command_with_long_output_names_the_file_too(bash: AgentTool, folders: ToolFolders) -> None:
    error = await error_from(bash, command="seq 3000; false")
    assert f"Full output: {folders.outputs / 'bash-1.txt'}]\n\nThe command exited with code 1" in error


async def test_endless_output_is_bounded_in_file_and_memory(bash: AgentTool, folders: ToolFolders) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, peak = resident(), 0

    def on_update(_partial: ToolResult) -> None:
        nonlocal peak
        peak = max(peak, resident())

    result = await bash.execute("c", {"command": "yes | head -c 100000000"}, None, on_update)
    assert max(peak, resident()) - before < 50_000_000
    assert "bytes dropped from its middle" in result["content"][0]["text"]
    kept = (folders.outputs / "bash-1.txt").read_bytes()
    assert len(kept) < 17_000_000
    assert b"\n[... 83017984 bytes dropped ...]\n" in kept
    assert result["details"]["totalBytes"] == 100_000_000


async def test_updates_are_few_and_small(bash: AgentTool) -> None:
    partials: list[ToolResult] = []
    await bash.execute("c", {"command": "for i in $(seq 300); do seq 1000; done"}, None, partials.append)
    assert 1 <= len(partials) < 100
    assert all(len(partial["content"][0]["text"]) <= 8192 for partial in partials)


async def test_escapes_nul_and_bad_bytes_do_not_reach_the_result(bash: AgentTool) -> None:
    text = await text_from(bash, command=r"printf '\033[31mred\033[0m \000 \377 \033]0;x\007.\n'")
    assert text == "red \ufffd \ufffd ."


async def test_the_runners_environment_is_not_the_commands(bash: AgentTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBACK_SECRET", "whsec_x")
    text = await text_from(bash, command="env")
    assert "CALLBACK_SECRET" not in text
    assert "TERM=dumb" in text


async def test_a_command_with_a_nul_is_refused(bash: AgentTool) -> None:
    assert "NUL" in await error_from(bash, command="echo \0")


async def test_a_full_disk_does_not_fail_the_command(spawner: PlainSpawner, workspace: Path) -> None:
    bash = bash_tool(spawner, ToolFolders(workspace, workspace / "not there"))
    text = await text_from(bash, command="seq 10000")
    assert text.endswith("The rest was not kept (No such file or directory)]")


@pytest.mark.parametrize("given", [-1, float("inf"), float("nan"), MAX_TIMEOUT_S + 1])
def test_what_is_no_time_is_refused(given: float) -> None:
    with pytest.raises(ToolFailed, match="timeout must be a number of seconds"):
        timeout_of(given)


def test_without_a_timeout_there_is_a_long_one_and_zero_is_none() -> None:
    assert timeout_of(None) == 600
    assert timeout_of(0) is None
    assert timeout_of(5) == 5


def test_updates_become_rarer_the_longer_the_command_runs() -> None:
    assert update_interval(0) == UPDATE_S
    assert update_interval(60) == 1
    assert update_interval(10_000) == MAX_UPDATE_S
