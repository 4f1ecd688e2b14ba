"""Where tools may be and where not: the paths that every level works with.

Paths are absolute and free of links, as text: two of them can be compared, and the launcher needs no `pathlib`.
Refuses nothing; that the workspace overlaps nothing protected was checked with the launch.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix")
"""What programs need to run. Not in it: /home, /root, /run, /srv, /sys, /tmp, /var."""
SCRATCH_PREFIX = "pipeline-tools-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """Folders of the run's tools outside the workspace; they last as long as the run."""

    base: str
    home: str
    """`HOME`; the tools' own."""
    temporary: str
    """`TMPDIR`; the tools' own."""
    outputs: str
    """The runner writes here what is too long for an answer; tools may only read it (from `landlock` on)."""


@dataclass(frozen=True, slots=True)
class Hidden:
    what: str
    """Such as `secrets directory`."""
    path: str


@dataclass(frozen=True, slots=True)
class Grounds:
    workspace: str
    scratch: Scratch
    hidden: tuple[Hidden, ...]
    program: tuple[str, ...]
    """Readable, never writable: the runner's packages, the interpreter and its libraries."""

    @property
    def writable(self) -> tuple[str, ...]:
        return (self.workspace, self.scratch.home, self.scratch.temporary)

    @property
    def readable(self) -> tuple[str, ...]:
        return (*SYSTEM, *self.program, self.scratch.outputs)


def make_grounds(workspace: Path, hidden: Iterable[tuple[str, Path]]) -> Grounds:
    """Resolve the paths and make the scratch folders, private to this user. Raises OSError."""
    base = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
    scratch = Scratch(str(base), str(base / "home"), str(base / "tmp"), str(base / "outputs"))
    for folder in (scratch.home, scratch.temporary, scratch.outputs):
        Path(folder).mkdir(mode=0o700)
    places = tuple(Hidden(what, str(path.resolve())) for what, path in hidden)
    return Grounds(str(workspace.resolve()), scratch, places, program_places())


def remove_scratch(scratch: Scratch) -> None:
    """Once no tool runs any more. Tools may have left folders that forbid it, as caches of modules often do."""
    remove_folder(scratch.base)


def remove_folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    for folder, inner, _ in os.walk(path):
        for each in (Path(folder, name) for name in inner):
            if not each.is_symlink():
                with suppress(OSError):
                    each.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def program_places() -> tuple[str, ...]:
    """The interpreter's installation, the environment, and this program's packages, without what lies in another."""
    import checkpoint
    import runner
    import settlement

    places = [Path(sys.base_prefix), Path(sys.prefix)]
    places += [Path(str(package.__file__)).parent for package in (runner, settlement, checkpoint)]
    return outermost([str(place.resolve()) for place in places], SYSTEM)


def outermost(paths: Iterable[str], covered: Iterable[str]) -> tuple[str, ...]:
    """Each path once, in order, without those that lie in `covered` or in an earlier one of them."""
    found: list[str] = []
    known = list(covered)
    for path in paths:
        if not any(lies_in(path, other) for other in known):
            found.append(path)
            known.append(path)
    return tuple(found)


def lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
