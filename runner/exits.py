"""Exit codes: they speak of delivery, never of how the agent fared (docs/launch.md)."""

from enum import IntEnum


class Exit(IntEnum):
    ACKNOWLEDGED = 0
    """Settled and acknowledged by the server (or settled and stored, where the spec names no server)."""
    USAGE = 64
    """Wrong command line."""
    DEFECT = 70
    """A fault of this program; the claim is left for a takeover."""
    INFRASTRUCTURE = 75
    """Store or host failed; a relaunch with a higher attempt is safe."""
    FENCED = 76
    """Another process owns the pipeline, or the server rejected the checkpoint."""
    UNACKNOWLEDGED = 77
    """Committed, but the server did not acknowledge; the record waits in the store."""
    REFUSED = 78
    """What `runner check` could have found, or isolation below what the spec requires."""
    STOPPED = 143
    """Stopped by a signal before the commit."""
