"""The open session log: entries are appended, one write each, and nothing is ever rewritten.

Refuses to go on after a failed write: the log is latched as broken, and whoever asks gets the reason. What
reached the file before is whole up to `size`, so the log can still be stored as a diagnostic.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, Self

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.encoding import encode
from checkpoint.session.errors import SessionDamaged, SessionLogBroken
from checkpoint.session.ids import iso_time, new_entry_id, now_ms
from checkpoint.session.index import SessionIndex
from checkpoint.session.javascript import UNDEFINED

_COMMON: Final = frozenset({"type", "id", "parentId", "timestamp"})
_OWN_FIELDS_FIRST: Final = frozenset({"custom", "custom_message"})


class AppendFile(Protocol):
    """Where lines go. Every call may raise OSError; `write` may write less than it is given."""

    def write(self, data: bytes) -> int:
        """Append `data` in one call; returns the number of bytes that were taken."""
        ...

    def sync(self) -> None:
        """Return once everything written has reached the disk."""
        ...

    def close(self) -> None: ...


class AppendDescriptor:
    """An append-only file descriptor of the operating system."""

    def __init__(self, path: Path, flags: int = 0) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)

    def write(self, data: bytes) -> int:
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SessionLog:
    """One writer's session log. Not thread-safe: appends happen on one thread, in the order of the
    conversation.
    """

    def __init__(
        self,
        file: AppendFile,
        *,
        size: int = 0,
        entries: int = 0,
        leaf_id: Any = None,
        ids: set[Any] | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """For a file of `size` bytes that ends in a line end, or is empty. `clock`: Unix milliseconds."""
        self._file = file
        self._size = size
        self._entries = entries
        self._leaf_id: Any = leaf_id
        self._ids: set[Any] = set() if ids is None else ids
        self._clock = clock
        self._broken: str | None = None
        self._closed = False
        self._last_assistant_entry_id: str | None = None

    @classmethod
    def create(cls, path: Path, header: JsonObject) -> Self:
        """A new log that holds `header` (see `new_header`). Raises FileExistsError, OSError,
        SessionLogBroken.
        """
        log = cls(AppendDescriptor(path, os.O_CREAT | os.O_EXCL))
        return log._begun_with(encode(header) + b"\n")

    @classmethod
    def open(cls, path: Path, index: SessionIndex) -> Self:
        """The log at `path` as indexed: a torn tail is cut and a missing line end added first.

        Refuses (ValueError) an index of an old version: `migrate` it into a new file first. Raises
        SessionDamaged if the file is not the one that was indexed, OSError, SessionLogBroken.
        """
        if index.needs_migration:
            raise ValueError("a session of version 1 or 2 must be migrated before it is appended to")
        if path.stat().st_size != index.size:
            raise SessionDamaged("changed", None, "the file changed after it was read; restore it again")
        if index.keep_bytes < index.size:
            os.truncate(path, index.keep_bytes)
        log = cls(
            AppendDescriptor(path),
            size=index.keep_bytes,
            entries=index.entries,
            leaf_id=index.leaf_id,
            ids={head.id for head in index.heads if isinstance(head.id, str)},
        )
        return log._begun_with(b"\n" if index.needs_newline else b"")

    def _begun_with(self, data: bytes) -> Self:
        """Itself, after a first write; closed if that fails."""
        try:
            if data:
                self._write(data)
        except SessionLogBroken:
            self._file.close()
            raise
        return self

    @property
    def leaf_id(self) -> str | None:
        """The id of the last entry, which is the parent of the next."""
        return self._leaf_id

    @property
    def size(self) -> int:
        """Bytes of the file up to the end of the last whole line."""
        return self._size

    @property
    def entries(self) -> int:
        """How many entries the log holds, restored ones included."""
        return self._entries

    @property
    def broken(self) -> str | None:
        """Why the log takes no more entries; None while it does."""
        return self._broken

    @property
    def last_assistant_entry_id(self) -> str | None:
        """The entry of the last assistant message appended by this process."""
        return self._last_assistant_entry_id

    def append_message(self, message: Message) -> str:
        """Append a message as it is; returns the id of its entry. Raises SessionLogBroken."""
        entry_id = self.append("message", {"message": message})
        if message.get("role") == "assistant":
            self._last_assistant_entry_id = entry_id
        return entry_id

    def append_custom(self, custom_type: str, data: Any = UNDEFINED) -> str:
        """Append an entry that is not part of the conversation. Raises SessionLogBroken."""
        fields = {"customType": custom_type}
        return self.append("custom", fields if data is UNDEFINED else {**fields, "data": data})

    def append_custom_message(
        self,
        custom_type: str,
        content: str | list[JsonObject],
        *,
        display: bool = True,
        details: Any = UNDEFINED,
    ) -> str:
        """Append a message of a custom type, which a model sees as the user's. Raises SessionLogBroken."""
        fields = {"customType": custom_type, "content": content, "display": display}
        return self.append("custom_message", fields if details is UNDEFINED else {**fields, "details": details})

    def append(self, entry_type: str, fields: JsonObject) -> str:
        """Append an entry of any type below the present leaf and make it the leaf; returns its id.

        Raises SessionLogBroken if it cannot be written whole, now and for ever after; TypeError (and nothing
        is written) for values that are no JSON.
        """
        if not _COMMON.isdisjoint(fields):
            raise ValueError(f"the fields {sorted(_COMMON)} of an entry are given by the log")
        self._refuse_if_broken()
        entry_id = new_entry_id(self._ids)
        common: JsonObject = {
            "id": entry_id,
            "parentId": self._leaf_id,
            "timestamp": iso_time(self._clock()),
        }
        own_first = entry_type in _OWN_FIELDS_FIRST
        parts = (fields, common) if own_first else (common, fields)
        self._write(encode({"type": entry_type, **parts[0], **parts[1]}) + b"\n")
        self._ids.add(entry_id)
        self._leaf_id = entry_id
        self._entries += 1
        return entry_id

    def fsync(self) -> None:
        """Return once the log has reached the disk. Raises SessionLogBroken, and latches, if it cannot."""
        self._refuse_if_broken()
        try:
            self._file.sync()
        except OSError as error:
            self._latch(f"fsync failed: {error.strerror or error}", error)

    def close(self) -> None:
        """Give the file back. Safe to call twice; an append after it is a defect (ValueError)."""
        self._closed = True
        self._file.close()

    def _write(self, data: bytes) -> None:
        try:
            written = self._file.write(data)
        except OSError as error:
            self._latch(f"write failed: {error.strerror or error}", error)
            return
        if written != len(data):
            self._latch(f"only {written} of {len(data)} bytes were written; the disk may be full", None)
        self._size += len(data)

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise SessionLogBroken(f"the session log takes no more entries: {self._broken}")
        if self._closed:
            raise ValueError("the session log is closed")

    def _latch(self, reason: str, cause: OSError | None) -> None:
        self._broken = reason
        raise SessionLogBroken(f"the session log takes no more entries: {reason}") from cause
