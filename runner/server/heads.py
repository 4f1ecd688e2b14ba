"""The head records in the store, as the orchestrator looks at them: what became of a process that is gone.

Blocking. Refuses to write anything but the verdict on a record that the server has just judged.
"""

from contextlib import suppress

from checkpoint.errors import CheckpointError, DamagedRecord
from checkpoint.head_writer import HeadWriter
from checkpoint.store.port import ObjectStore
from runner.server.relaunching import HeadSeen


class StoredHeads:
    """Raises `StoreError` where the store cannot be read; a damaged head counts as none."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def look(self, pipeline_id: str) -> HeadSeen:
        try:
            head = HeadWriter(self._store, pipeline_id).read()
        except DamagedRecord:
            head = None
        if head is None:
            return HeadSeen("none")
        terminal = head.fields.terminal
        return HeadSeen(head.fields.state, None if terminal is None else terminal.body)

    def note(self, pipeline_id: str, *, taken: bool) -> None:
        """Best effort: whoever finds the head next need not deliver it again."""
        writer = HeadWriter(self._store, pipeline_id)
        with suppress(CheckpointError):
            writer.read()
            if taken:
                writer.acknowledge()
            else:
                writer.reject()
