"""A process is known by number and birth, is found by its spec where the number was not noted, and by nothing else."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.server.launching import Order
from runner.server.processes import LocalProcesses, Process
from runner.server.relaunching import Gone
from runner.server.settings import CommandTemplate, Folder
from runner.server.template import Template

AGENT = {"model": {"api": "scripted", "script": "story.json"}}
ORDER = Order("p1", 1, "s1", "room", "chat:ann", {"message": "Go."}, None, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "serve")
    folder.make()
    return folder


def processes(folder: Folder, command: str) -> LocalProcesses:
    return LocalProcesses(
        folder, Template({"agent": AGENT}, folder.path, folder), CommandTemplate(command), "http://127.0.0.1:1"
    )


def ended(local: LocalProcesses, process: Process) -> Gone:
    """How it ended, once it has."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    found = local.gone(process)
    assert found is not None
    return found


@pytest.fixture
def running(folder: Folder) -> Iterator[tuple[LocalProcesses, Process]]:
    """A process that waits until it is ended."""
    local = processes(folder, "tail -f {spec}")
    process = local.start(ORDER)
    assert isinstance(process, Process)
    yield local, process
    local.kill(process)
    ended(local, process)


def test_a_later_server_finds_it_by_number_and_birth(folder: Folder, running: tuple[LocalProcesses, Process]) -> None:
    _, process = running
    later = processes(folder, "tail -f {spec}")
    assert later.find("p1", 1, process.pid, process.born) == process
    assert later.find("p1", 1, process.pid, "another boot:1") is None
    assert later.gone(process) is None


def test_it_is_found_by_its_spec_where_the_number_was_not_noted(
    folder: Folder, running: tuple[LocalProcesses, Process]
) -> None:
    _, process = running
    later = processes(folder, "tail -f {spec}")
    assert later.find("p1", 1, None, None) == process
    assert later.find("p1", 2, None, None) is None


def test_another_process_of_the_same_number_is_never_signalled(
    folder: Folder, running: tuple[LocalProcesses, Process]
) -> None:
    local, process = running
    stranger = Process("p1", 1, process.pid, "another boot:1")
    later = processes(folder, "tail -f {spec}")
    later.terminate(stranger)
    later.kill(stranger)
    assert local.gone(process) is None


def test_the_end_is_told_with_its_exit_code_and_last_words(folder: Folder) -> None:
    said = {"type": "settled", "exit": 75, "error": {"reason": "unreachable", "message": "the store"}}
    (folder.path / "story.sh").write_text(f"echo '{json.dumps(said)}'; exit 75")
    local = processes(folder, f"sh {folder.path / 'story.sh'} {{spec}}")
    process = local.start(ORDER)
    assert isinstance(process, Process)
    assert ended(local, process) == Gone(75, "unreachable", "the store")
    assert processes(folder, "true {spec}").last_words("p1", 1) == Gone(75, "unreachable", "the store")


def test_a_command_that_does_not_exist_is_gone_at_once(folder: Folder) -> None:
    found = processes(folder, "/nowhere/command {spec}").start(ORDER)
    assert isinstance(found, Gone)
    assert (found.exit_code, found.reason) == (78, "command_failed")
