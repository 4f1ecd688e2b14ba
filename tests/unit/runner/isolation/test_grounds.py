"""The tools' folders: made for the run, gone with it."""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from runner.isolation.grounds import Scratch, make_grounds, remove_scratch

SOMEBODY = 61183


def _make_and_remove(workspace: str) -> None:
    """As an ordinary user: root is forbidden nothing."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(SOMEBODY)
        os.setuid(SOMEBODY)
    scratch = make_grounds(Path(workspace), ()).scratch
    _forbid(scratch, Path(workspace))
    remove_scratch(scratch)
    sys.exit(Path(scratch.base).exists())


def _forbid(scratch: Scratch, outside: Path) -> None:
    """What a tool may leave behind: read-only folders with files, closed ones, links out of the folder."""
    cache = Path(scratch.home, "cache", "inner")
    cache.mkdir(parents=True)
    (cache / "file").touch()
    (cache / "link").symlink_to(outside)
    for folder, mode in ((cache, 0o500), (cache.parent, 0o500), (Path(scratch.temporary), 0)):
        folder.chmod(mode)


@pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")
def test_what_tools_left_cannot_forbid_its_removal(tmp_path: Path) -> None:
    before = tmp_path.stat().st_mode
    process = multiprocessing.get_context("fork").Process(target=_make_and_remove, args=(str(tmp_path),))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert tmp_path.stat().st_mode == before, "what a link leads to is not touched"
