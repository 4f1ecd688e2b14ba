import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runner.agent.abort import AbortController
from runner.tools.errors import ToolFailed
from runner.tools.file_worker import FileWorker
from runner.tools.folders import ToolFolders
from runner.tools.line_reader import LineReader, LineTooLong
from tests.fakes.plain_spawner import PlainProcess, PlainSpawner

pytestmark = pytest.mark.anyio


class ImpostorSpawner(PlainSpawner):
    """Starts another program in the worker's place."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        merge_stderr: bool = True,
        interactive: bool = False,
    ) -> PlainProcess:
        command = ["bash", "-c", self._program]
        return await super().start(command, cwd=cwd, env=env, merge_stderr=merge_stderr, interactive=interactive)


async def failure(worker: FileWorker, tool: str = "ls") -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        await worker.call(tool, {}, None)
    return caught.value


async def test_one_process_serves_all_calls(worker: FileWorker, spawner: PlainSpawner) -> None:
    await asyncio.gather(*(worker.call("ls", {}, None) for _ in range(10)))
    assert len(spawner.started) == 1


async def test_a_worker_that_was_killed_is_started_anew(worker: FileWorker, spawner: PlainSpawner) -> None:
    await worker.call("ls", {}, None)
    os.kill(spawner.started[0].pid, signal.SIGKILL)
    await spawner.started[0].wait()
    await worker.call("ls", {}, None)
    assert len(spawner.started) == 2


async def test_a_worker_that_dies_in_a_call_fails_that_call_only(folders: ToolFolders) -> None:
    spawner = ImpostorSpawner("read -r line; kill -9 $$")
    worker = FileWorker(spawner, folders)
    assert "was ended by SIGKILL" in str(await failure(worker))
    assert (await failure(worker)).reason == "died"
    assert len(spawner.started) == 2
    await spawner.close()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("exit 7", "exited with code 7"),
        ("read -r line; echo Traceback", "said something else than an answer: b'Traceback'"),
        ("""read -r line; echo '{"id": 99, "result": {"content": []}}'""", "answered another call"),
        ("""read -r line; echo '[1]'""", "answered another call"),
        ("""read -r line; echo '{"id": 1, "result": 5}'""", "a result of another shape"),
        ("head -c 9000000 /dev/zero", "an answer of more than"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_result(folders: ToolFolders, program: str, said: str) -> None:
    spawner = ImpostorSpawner(program)
    assert said in str(await failure(FileWorker(spawner, folders)))
    await spawner.close()


async def test_a_call_that_hangs_is_ended_within_its_bound(folders: ToolFolders) -> None:
    spawner = ImpostorSpawner("sleep 60")
    worker = FileWorker(spawner, folders, call_s=0.05, grace_s=0.05)
    assert (await failure(worker)).reason == "timeout"
    assert (await spawner.started[0].wait()).signal == "SIGKILL"
    await spawner.close()


async def test_a_call_that_takes_too_long_is_interrupted_and_the_worker_goes_on(
    spawner: PlainSpawner, folders: ToolFolders
) -> None:
    (folders.workspace / "f").write_text("a" * 40 + "b")
    worker = FileWorker(spawner, folders, call_s=0.2)
    with pytest.raises(ToolFailed, match=r"grep took longer than 0.2 s"):
        await worker.call("grep", {"pattern": "(a+)+$"}, None)
    await worker.call("ls", {}, None)
    assert len(spawner.started) == 1
    await worker.close()


async def test_an_abort_ends_the_call_at_once(folders: ToolFolders) -> None:
    spawner = ImpostorSpawner("echo; sleep 60")
    worker, controller = FileWorker(spawner, folders), AbortController()
    call = asyncio.create_task(worker.call("ls", {}, controller.signal))
    await asyncio.wait_for(spawner.has_started.wait(), 5)
    controller.abort()
    with pytest.raises(ToolFailed, match="was aborted"):
        await asyncio.wait_for(call, 5)
    assert (await spawner.started[0].wait()).signal == "SIGKILL"
    with pytest.raises(ToolFailed, match="was aborted"):
        await worker.call("ls", {}, controller.signal)
    await spawner.close()


async def test_no_call_is_taken_after_the_end(worker: FileWorker, spawner: PlainSpawner) -> None:
    await worker.call("ls", {}, None)
    await worker.close()
    await worker.close()
    assert (await failure(worker)).reason == "aborted"
    assert (await spawner.started[0].wait()) is not None


async def test_the_worker_does_not_see_the_runners_environment_or_the_workspaces_modules(
    worker: FileWorker, spawner: PlainSpawner, workspace: Path
) -> None:
    (workspace / "json.py").write_text("raise SystemExit(9)")
    await worker.call("ls", {}, None)
    assert {"-I", "-S"} <= set(spawner.commands[0])


async def test_a_worker_that_cannot_be_started_is_an_error(folders: ToolFolders) -> None:
    class NoSpawner(PlainSpawner):
        async def start(
            self,
            command: Sequence[str],
            *,
            cwd: Path,
            env: Mapping[str, str],
            merge_stderr: bool = True,
            interactive: bool = False,
        ) -> PlainProcess:
            raise OSError("no processes left")

    with pytest.raises(OSError, match="no processes left"):
        await FileWorker(NoSpawner(), folders).call("ls", {}, None)


async def test_lines_come_whole_however_they_arrive() -> None:
    stream = asyncio.StreamReader()
    for part in (b"on", b"e\ntwo\nthr", b"ee\nunfinished"):
        stream.feed_data(part)
    stream.feed_eof()
    lines = LineReader(stream, 100)
    assert [await lines.next() for _ in range(4)] == [b"one", b"two", b"three", None]


async def test_a_line_without_end_is_not_collected_for_ever() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"x" * 1000)
    with pytest.raises(LineTooLong):
        await LineReader(stream, 100).next()
