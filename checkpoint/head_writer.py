"""Reads and writes one pipeline's head record: one write at a time, each a compare-and-swap that raises
`revision`.

Blocking and thread-safe; writes of several threads queue up behind one lock. It interprets the decisions of
`head.py` and takes none. A `StoreError` leaves it open whether the write took effect: the same call may be
made again.
"""

import secrets
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct

from checkpoint.errors import StoreError
from checkpoint.head import (
    HEAD_LIMIT,
    Acknowledged,
    AlreadyTerminal,
    Claimant,
    Claimed,
    Fenced,
    Head,
    OtherSession,
    OwnWrite,
    Progress,
    RejectedBefore,
    Terminal,
    TryAgain,
    Updated,
    WriteClaim,
    decide_claim,
    encode_head,
    judge,
    parse_head,
    progress_json,
    settled_as,
    terminal_json,
    with_fields,
)
from checkpoint.keys import head_key
from checkpoint.store.port import Conflict, ObjectStore, PreconditionFailed, Written

ClaimResult: TypeAlias = Claimed | AlreadyTerminal | Acknowledged | RejectedBefore | Fenced | OtherSession
WriteResult: TypeAlias = Updated | AlreadyTerminal | Acknowledged | RejectedBefore | Fenced

ROUNDS = 8
"""How often one write is tried before the record counts as contended beyond reason."""
_PAUSE_S = 0.05


def new_claim_id() -> str:
    """A claim id that no other process has."""
    return secrets.token_hex(8)


class _Read(Struct, frozen=True):
    head: Head
    etag: str
    modified: datetime | None = None
    """None for a write of this process, and where the store does not say."""


class HeadWriter:
    """One process's hand on one head record. Once fenced it stays so: later writes are not even tried."""

    def __init__(self, store: ObjectStore, pipeline_id: str, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._key = head_key(pipeline_id)
        self._pause = pause
        self._queue = threading.Lock()
        self._mine: _Read | None = None
        self._last_revision = 0
        self._fenced: Fenced | None = None

    @property
    def head(self) -> Head | None:
        """The head as this process last read or wrote it."""
        return self._mine.head if self._mine else None

    @property
    def modified(self) -> datetime | None:
        """When what was read last was written, by the store's clock; None where that is not known."""
        return self._mine.modified if self._mine else None

    def read(self) -> Head | None:
        """Read the record now, and go on from it (so that a stored terminal can be acknowledged)."""
        with self._queue:
            found = self._read()
            if found is not None:
                self._adopt(found)
            return found.head if found else None

    def claim(self, me: Claimant) -> ClaimResult:
        """Claim the pipeline by the claim table; the first try assumes that there is no record yet.

        After a 412 or 409 the record is read and the table applied again.
        """
        with self._queue:
            found: _Read | None = None
            for round_number in range(ROUNDS):
                decision = decide_claim(found.head if found else None, me)
                if not isinstance(decision, WriteClaim):
                    if found is not None and not isinstance(decision, Fenced | OtherSession):
                        self._adopt(found)
                    return decision
                answer = self._put(decision.head, found.etag if found else None)
                if isinstance(answer, Written):
                    self._adopt(_Read(decision.head, answer.etag))
                    return Claimed(decision.head, decision.over)
                self._wait_after(answer, round_number)
                found = self._read()
            raise self._contended()

    def update(self, progress: Progress) -> WriteResult:
        """Point the head to what is stored now."""
        return self._write(progress=progress_json(progress))

    def commit_terminal(self, terminal: Terminal) -> WriteResult:
        """Store the terminal record. `AlreadyTerminal` means another one is stored: that one is to be
        delivered.
        """
        return self._write(state="terminal", terminal=terminal_json(terminal))

    def settle_for_the_dead(self, claim_id: str, terminal: Terminal) -> WriteResult:
        """Take the pipeline from its owner and store a terminal record, in one step: on the head as it was read.

        `claim_id` is new. Whatever has been written meanwhile, by the owner or another, makes it `Fenced`, and nothing
        is changed; afterwards the owner is fenced.
        """
        return self._write(claim_id=claim_id, state="terminal", terminal=terminal_json(terminal))

    def acknowledge(self) -> WriteResult:
        """Note that the server has committed: `Acknowledged`, also if somebody else noted it first."""
        return self._settle("acknowledged")

    def reject(self) -> WriteResult:
        """Note that the server has refused for good: `RejectedBefore` comes back."""
        return self._settle("rejected")

    def _settle(self, state: str) -> WriteResult:
        result = self._write(state=state)
        return (settled_as(result.head) or result) if isinstance(result, Updated) else result

    def _write(self, **fields: Any) -> WriteResult:
        with self._queue:
            mine = self._mine
            if mine is None:
                raise RuntimeError("the head was neither claimed nor read before it is written")
            if self._fenced is not None:
                return self._fenced
            settled = settled_as(mine.head)
            if settled is not None and not (isinstance(settled, AlreadyTerminal) and fields.keys() == {"state"}):
                return settled  # final: only an acknowledgement may follow a terminal record
            self._last_revision += 1
            return self._swap(with_fields(mine.head, self._last_revision, **fields), mine.etag)

    def _swap(self, wanted: Head, etag: str) -> WriteResult:
        for round_number in range(ROUNDS):
            answer = self._put(wanted, etag)
            if isinstance(answer, Written):
                self._adopt(_Read(wanted, answer.etag))
                return Updated(wanted)
            self._wait_after(answer, round_number)
            found = self._read()
            match judge(wanted, found.head if found else None):
                case TryAgain() if found is not None:
                    etag = found.etag
                case OwnWrite(head) if found is not None:
                    self._adopt(found)
                    return Updated(head)
                case _:
                    return self._overtaken(wanted, found)
        raise self._contended()

    def _overtaken(self, wanted: Head, found: _Read | None) -> WriteResult:
        """Our own claim, settled otherwise, is to be delivered; anything else is another owner's."""
        if found is not None and found.head.fields.claim_id == wanted.fields.claim_id:
            settled = settled_as(found.head)
            if settled is not None:
                self._adopt(found)
                return settled
        self._fenced = Fenced(found.head if found else None)
        return self._fenced

    def _adopt(self, read: _Read) -> None:
        self._mine = read
        self._last_revision = max(self._last_revision, read.head.fields.revision)

    def _read(self) -> _Read | None:
        stored = self._store.get(self._key, limit=HEAD_LIMIT)
        if stored is None:
            return None
        return _Read(parse_head(stored.data, self._store.address(self._key)), stored.etag, stored.modified)

    def _put(self, head: Head, etag: str | None) -> Written | PreconditionFailed | Conflict:
        body = encode_head(head)
        if etag is None:
            return self._store.put_if_absent(self._key, body)
        return self._store.put_if_match(self._key, body, etag)

    def _wait_after(self, answer: PreconditionFailed | Conflict, round_number: int) -> None:
        if isinstance(answer, Conflict):
            self._pause(_PAUSE_S * 2**round_number)

    def _contended(self) -> StoreError:
        return StoreError(
            "unreachable",
            f"{self._store.address(self._key)} could not be written in {ROUNDS} rounds: others kept changing it. "
            "Relaunch with a higher attempt.",
        )
