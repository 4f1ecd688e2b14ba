from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.agent.types import AgentTool
from runner.tools.file_tools import file_tools
from runner.tools.file_worker import FileWorker
from runner.tools.folders import ToolFolders
from tests.fakes.plain_spawner import PlainSpawner


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def folders(workspace: Path, tmp_path: Path) -> ToolFolders:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    return ToolFolders(workspace, outputs)


@pytest.fixture
async def spawner() -> AsyncIterator[PlainSpawner]:
    spawner = PlainSpawner()
    yield spawner
    await spawner.close()


@pytest.fixture
async def worker(spawner: PlainSpawner, folders: ToolFolders) -> AsyncIterator[FileWorker]:
    worker = FileWorker(spawner, folders)
    yield worker
    await worker.close()


@pytest.fixture
def files(worker: FileWorker) -> dict[str, AgentTool]:
    """The file tools by name."""
    return {tool.name: tool for tool in file_tools(worker)}
