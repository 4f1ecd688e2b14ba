"""Which bytes of a log are stored anew, and in which order a checkpoint reaches the store. Pure."""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from checkpoint.freeze import Stored
from checkpoint.manifest import Segment
from checkpoint.segments import Extent

SMALL_BYTES = 1024 * 1024
"""A segment of fewer bytes of lines is small."""
MERGE_OVER = 16
"""More small segments of one pipeline than this, at the end of its list, become one."""


class StoreLines(Struct, frozen=True):
    """Store the lines of one extent as a segment."""

    extent: Extent


class StoreFile(Struct, frozen=True):
    """Store a further transcript under its name."""

    name: str


class StoreManifest(Struct, frozen=True):
    """Store the manifest that names all of them."""


UploadStep: TypeAlias = StoreLines | StoreFile | StoreManifest


def upload_order(cuts: Sequence[Extent], file_names: Sequence[str]) -> tuple[UploadStep, ...]:
    """The steps of a checkpoint, in order.

    Every prefix is harmless: segments and files are named by their content and nothing refers to them yet,
    so a stop among them leaves unused objects (the next try finds them there). The manifest comes when all
    it names is stored, so whoever can read it can restore it; as long as no head names it, it is unused
    too. The head's terminal record, written afterwards and elsewhere, is the commit.
    """
    return (
        *(StoreLines(cut) for cut in cuts),
        *(StoreFile(name) for name in file_names),
        StoreManifest(),
    )


def kept_segments(stored: Stored, *, merge: bool) -> tuple[Segment, ...]:
    """The stored segments a new list goes on from; what lies behind them is cut from the log again.

    What was restored is always kept. Of this pipeline's own, the small ones at the end are merged when
    there are more than 16, so that neither the head nor a later restore grows with the number of turns. A
    merge rewrites only small segments, so a line is rewritten a bounded number of times however long the
    pipeline runs.
    """
    small = 0
    for segment in reversed(stored.own):
        if segment.bytes >= SMALL_BYTES:
            break
        small += 1
    kept = len(stored.own) - small if merge and small > MERGE_OVER else len(stored.own)
    return stored.restored + stored.own[:kept]
