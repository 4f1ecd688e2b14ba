# (pathlib would take a third of the worker's start)
"""Which paths the file tools may touch, and how a path and its errors are told to the model.

Every path is resolved, links included, before it is judged: what is not below the workspace (or, for reading, below
the folder of kept outputs) is refused. This is for clear answers; the boundary itself is the confinement of the
process.
"""

import errno
import os
import stat
from collections.abc import Sequence
from typing import BinaryIO


class Refusal(Exception):
    """Why a call is not carried out: a sentence for the model."""


def shown(path: str) -> str:
    """A path as text: control characters escaped, bytes that are no UTF-8 as `\\xNN`; so one path stays one line."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


class Places:
    """The workspace, where relative paths start, and further folders that may be read."""

    def __init__(self, workspace: str, readable: Sequence[str] = ()) -> None:
        self.workspace = os.path.realpath(workspace)
        self._readable = (self.workspace, *map(os.path.realpath, readable))

    def to_read(self, path: str) -> str:
        """The real path of something that is there or not. Raises Refusal."""
        return self._resolved(path, self._readable)

    def to_write(self, path: str) -> str:
        return self._resolved(path, (self.workspace,))

    def shown(self, real: str) -> str:
        """A real path as short as it can be told: relative to the workspace if it lies there."""
        if real == self.workspace:
            return "."
        prefix = self.workspace.rstrip("/") + "/"
        return shown(real.removeprefix(prefix))

    def _resolved(self, path: str, roots: Sequence[str]) -> str:
        if not path or "\0" in path:
            raise Refusal("The path is empty or holds a NUL character: give the path of a file or folder")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise Refusal("The path holds characters that no file name can have") from None
        joined = os.path.join(self.workspace, path)
        if path.startswith("@") and not os.path.lexists(joined):
            joined = os.path.join(self.workspace, path[1:])  # models copy this mark from mentions
        real = os.path.realpath(joined)
        if any(_below(real, root) for root in roots):
            return real
        if any(_below(os.path.normpath(joined), root) for root in roots):
            raise Refusal(f"{shown(path)} leads out of the workspace through a link: only files inside can be used")
        raise Refusal(
            f"{shown(path)} is outside of the workspace {shown(self.workspace)}: only files inside can be used"
        )


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def open_regular(real: str, name: str) -> BinaryIO:
    """Open a regular file for reading, unbuffered. Refuses whatever else a name may stand for, without ever blocking
    on it.
    """
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        refuse_unless_regular(os.fstat(descriptor).st_mode, name)
    except Refusal:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def refuse_unless_regular(mode: int, name: str) -> None:
    if stat.S_ISDIR(mode):
        raise Refusal(f"{name} is a folder: use ls or find to see what is in it")
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a block device"))
        kind = next((text for check, text in kinds if check(mode)), "a device file")
        raise Refusal(f"{name} is {kind}, not a regular file")


_SENTENCES = {
    errno.ENOENT: "does not exist",
    errno.EACCES: "cannot be used: permission denied",
    errno.EPERM: "cannot be used: operation not permitted",
    errno.EISDIR: "is a folder",
    errno.ENOTDIR: "is not a folder, or lies below something that is none",
    errno.ELOOP: "is a link that leads in a circle",
    errno.ENAMETOOLONG: "is too long for a file name",
    errno.ENOSPC: "could not be written: the disk is full",
    errno.EDQUOT: "could not be written: the disk quota is used up",
    errno.EFBIG: "could not be written: it is larger than tools may write",
    errno.EROFS: "could not be written: the file system is read-only",
    errno.ENXIO: "is a device or pipe, not a regular file",
}


def os_error_text(error: OSError, name: str) -> str:
    """What the operating system said about a path, as a sentence."""
    said = _SENTENCES.get(error.errno or 0)
    return f"{name} {said}" if said else f"{name} cannot be used: {error.strerror or error}"
