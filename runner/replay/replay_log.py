"""The log of a replay: which of the recorded lines it has made again, in its own order.

A message that the replay made as it was recorded stands in its log with the bytes of the recording, so nothing has to
be encoded twice over. Refuses nothing: what differs never gets here.
"""

from collections.abc import Sequence
from pathlib import Path

from checkpoint.freeze import NOTHING_STORED, Candidate, freeze
from runner.replay.recording import Line

_PIECE = 1 << 20


class ReplayLog:
    """Begins with the first `base_bytes` of the session file at `source`, which hold `base_entries` entries."""

    def __init__(
        self, source: Path, lines: Sequence[Line], *, base_bytes: int, base_entries: int, leaf_id: str | None
    ) -> None:
        self._source = source
        self._lines = lines
        self._ranges: list[tuple[int, int]] = [(0, base_bytes)]
        self.entries = base_entries
        self.leaf_id = leaf_id
        self.last_assistant_entry_id: str | None = None
        self.broken: str | None = None
        """Never: a replay appends nothing that could fail (`LogState`)."""

    def add(self, position: int, *, is_answer: bool = False) -> None:
        """The replay has made the entry at this position of the recording."""
        line = self._lines[position]
        start, end = self._ranges[-1]
        if line.start == end:
            self._ranges[-1] = (start, line.end)
        else:
            self._ranges.append((line.start, line.end))
        self.entries += 1
        self.leaf_id = line.id
        if is_answer:
            self.last_assistant_entry_id = line.id

    def frozen(self, path: Path) -> Candidate:
        """The log as a checkpoint candidate, in a new file at `path`. Raises OSError, CheckpointFailed."""
        size = 0
        with self._source.open("rb") as source, path.open("xb") as copy:
            for start, end in self._ranges:
                source.seek(start)
                last = b"\n"
                while start < end and (piece := source.read(min(end - start, _PIECE))):
                    start += len(piece)
                    size += copy.write(piece)
                    last = piece[-1:]
                if last != b"\n":  # the last line of the file had no line end
                    size += copy.write(b"\n")
        return freeze(path, size=size, entries=self.entries, leaf_id=self.leaf_id, stored=NOTHING_STORED)
