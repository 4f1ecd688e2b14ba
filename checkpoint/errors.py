"""What can go wrong between this process and its checkpoints, as exceptions with a machine-readable reason.

Every message is a sentence that names the place and says what to do; none holds a credential. Decisions
such as "fenced" or "already terminal" are no errors: they are values (`checkpoint/head.py`,
`checkpoint/store/port.py`).
"""

from typing import Literal, TypeAlias

StoreReason: TypeAlias = Literal[
    "unreachable", "denied", "missing_bucket", "misconfigured", "too_large", "unsafe_conditions"
]
RestoreReason: TypeAlias = Literal["missing", "wrong_digest", "damaged", "too_large"]


class CheckpointError(Exception):
    """Any expected failure of this package. `reason` is stable and meant for programs, the text for
    people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class StoreError(CheckpointError):
    """The store could not do what was asked.

    `unreachable` may pass by itself (a relaunch is safe); `denied`, `missing_bucket`, `misconfigured` and
    `unsafe_conditions` need a person; `too_large` is an object over the reader's limit.
    """

    def __init__(self, reason: StoreReason, message: str) -> None:
        super().__init__(reason, message)


class RestoreFailed(CheckpointError):
    """The session to restore is missing, damaged, of another digest, or larger than allowed."""

    def __init__(self, reason: RestoreReason, message: str) -> None:
        super().__init__(reason, message)


class CheckpointFailed(CheckpointError):
    """The frozen log could not be turned into a checkpoint (it changed, or its manifest's key is taken)."""


class DamagedRecord(CheckpointError):
    """A stored head or manifest that is not what its key promises. Nothing overwrites it."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__("damaged_record", f"{address} is not readable: {detail}. Inspect or remove it, then relaunch.")
        self.address = address
