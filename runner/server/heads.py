"""The head records in the store, as the orchestrator looks at them: what became of a process that is gone.

Blocking. Refuses to write anything but `lost` for a process that nothing follows, and the verdict on a record that the
server has just judged.
"""

from contextlib import suppress

from checkpoint.errors import CheckpointError, DamagedRecord
from checkpoint.head import Fenced
from checkpoint.head_writer import HeadWriter, new_claim_id
from checkpoint.store.port import ObjectStore
from runner.lost import lost_terminal
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

    def settle_as_lost(self, pipeline_id: str, message: str) -> HeadSeen | None:
        """The settled head; None: somebody has written meanwhile, look again. Raises `StoreError` as `look` does.

        The process that claimed it has proved that the store honours conditions.
        """
        writer = HeadWriter(self._store, pipeline_id)
        head = writer.read()
        if head is None or head.fields.state != "claimed":
            return None
        terminal = lost_terminal(self._store, head.fields, message)
        if isinstance(writer.settle_for_the_dead(new_claim_id(), terminal), Fenced):
            return None
        return HeadSeen("terminal", terminal.body)

    def note(self, pipeline_id: str, *, taken: bool) -> None:
        """Best effort: whoever finds the head next need not deliver it again."""
        writer = HeadWriter(self._store, pipeline_id)
        with suppress(CheckpointError):
            writer.read()
            if taken:
                writer.acknowledge()
            else:
                writer.reject()
