"""Landlock: which rights a set of paths gives, per version of the kernel's interface.

Pure but for `open_ruleset`, which looks the paths up. Landlock only ever
allows beneath a path: what must stay hidden inside an allowed folder is left out by allowing its siblings
(`without_hidden`).
"""

# ruff: noqa: PTH118 - the launcher must not pay for pathlib

import os
import struct
from collections.abc import Callable, Iterable, Sequence

from runner.isolation import kernel

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_NET_BIND_TCP, _NET_CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1


def handled_rights(abi: int) -> int:
    """All file rights that this version knows: what is not allowed is refused."""
    known = {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    return (1 << known) - 1


def ruleset_attributes(abi: int, *, network: bool) -> bytes:
    """struct landlock_ruleset_attr, as long as this version has it.

    Signals and abstract sockets stay inside from version 6 on, TCP can be refused from version 4 on.
    """
    net = 0 if network else _NET_BIND_TCP | _NET_CONNECT_TCP
    fields = [handled_rights(abi)]
    if abi >= 4:
        fields.append(net)
    if abi >= 6:
        fields.append(_SCOPE_ABSTRACT_UNIX_SOCKET | _SCOPE_SIGNAL)
    return struct.pack(f"={len(fields)}Q", *fields)


def rights(abi: int, *, write: bool, folder: bool) -> int:
    """The rights to allow beneath a path. Device nodes can be made by nobody."""
    wanted = (handled_rights(abi) & ~_MAKE_CHAR & ~_MAKE_BLOCK) if write else _READ
    wanted &= handled_rights(abi)
    return wanted if folder else wanted & _FILE_RIGHTS


def without_hidden(root: str, hidden: Sequence[str], list_folder: Callable[[str], Iterable[str]]) -> list[str]:
    """The paths that together are `root` without what is hidden in it. Paths are absolute and free of links."""
    inside = [place for place in hidden if place == root or place.startswith(root.rstrip("/") + "/")]
    if not inside:
        return [root]
    if root in inside:
        return []
    allowed: list[str] = []
    for name in sorted(list_folder(root)):
        child = os.path.join(root, name)
        allowed += without_hidden(child, inside, list_folder)
    return allowed


def open_ruleset(readable: Iterable[str], writable: Iterable[str], *, network: bool) -> int:
    """A ruleset of nothing but these paths, for `kernel.landlock_restrict`. Paths that are not there are passed over.

    Apart from restricting, because the paths are looked up by the user before the change to the tools' user.
    """
    abi = kernel.landlock_abi()
    ruleset = kernel.landlock_ruleset(ruleset_attributes(abi, network=network))
    for write, paths in ((False, readable), (True, writable)):
        for path in paths:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            folder = os.fstat(descriptor).st_mode & 0o170000 == 0o040000
            allowed = rights(abi, write=write, folder=folder)
            kernel.landlock_allow_beneath(ruleset, struct.pack("=Qi", allowed, descriptor))
            os.close(descriptor)
    return ruleset
