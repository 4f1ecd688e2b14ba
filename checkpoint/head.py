"""The head record: the one object of a pipeline that changes, and the rules about who may change it. Pure.

No I/O, no clock, no randomness: `head_writer.py` reads and writes, this decides. Claims, progress, the
terminal record and its acknowledgement all live in this one object, so that a single compare-and-swap is
both fence and commit. Fields nobody here knows survive every change: a head keeps the JSON it came from and
changes only named fields.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from checkpoint.errors import DamagedRecord
from checkpoint.jsontypes import JsonObject
from checkpoint.manifest import (
    Count,
    Counters,
    Digest,
    Id,
    Key,
    RestorePoint,
    Segment,
    StoredFile,
    parse_record,
)

HEAD_LIMIT = 4 * 1024 * 1024
"""More bytes than any real head has; a larger object is not read."""

HeadState: TypeAlias = Literal["claimed", "terminal", "acknowledged", "rejected"]
Attempt = Annotated[int, Meta(ge=1)]


ProgressStop: TypeAlias = Literal["ask_user", "natural", "limit"]


class ProgressBase(Struct, frozen=True, kw_only=True):
    """The session as the pipeline's first attempt restored it: what a takeover cannot read out of the progress."""

    entries: Count = 0
    bytes: Count = 0
    leaf_id: str | None = None
    digest: Digest | None = None
    """Of the restore point, where the claim does not tell it (a plain session without a digest)."""
    counters: Counters = Counters()


class Progress(Struct, frozen=True, kw_only=True):
    """What of a running session is already stored, and what a takeover has to know.

    `chain` tells how `segments` are meant: over the restored manifest's segments and these, they extend it;
    over these alone, they are the whole session (restored from a plain file, migrated, or new). `entries` counts the
    whole session. With `stop` the run is over: a takeover settles it without the model.
    """

    segments: tuple[Segment, ...]
    entries: Count
    leaf_id: str | None
    chain: Digest
    input_consumed: bool
    usage: JsonObject
    stop: ProgressStop | None = None
    interrupted_by: str | None = None
    """With `ask_user`: the call whose question was the first to be sent."""
    limit: str | None = None
    """With `limit`: which one."""
    base: ProgressBase | None = None
    files: tuple[StoredFile, ...] = ()
    """Further transcripts that are stored already."""
    warnings: tuple[str, ...] = ()
    """What the settlement is to tell about the run so far."""


class Terminal(Struct, frozen=True, kw_only=True):
    """The settled end: the exact callback body, and the checkpoint it names (null with `keep_previous`)."""

    body: str
    webhook_id: str
    manifest: Key | None
    digest: Digest | None


class HeadFields(Struct, frozen=True, kw_only=True):
    """The head as the contract has it (and as its JSON Schema is made)."""

    version: Literal[1]
    pipeline_id: Id
    session_id: Id
    attempt: Attempt
    claim_id: Id
    revision: Attempt
    state: HeadState
    claimed_at: str
    deadline_s: float
    grace_s: float
    callback_url: str | None
    restore: RestorePoint | None
    progress: Progress | None
    terminal: Terminal | None
    labels: dict[str, str] = {}
    """The launch's, for whoever has to settle the pipeline without it. Not there where the launch has none."""


class Head(Struct, frozen=True):
    """A head: its known fields, and the JSON object they were read from (with the unknown ones)."""

    fields: HeadFields
    json: JsonObject


class Claimant(Struct, frozen=True):
    """Who wants the pipeline. `claim_id` is random per process, `restore` is the launch's restore point."""

    pipeline_id: str
    session_id: str
    attempt: int
    claim_id: str
    claimed_at: str
    deadline_s: float
    grace_s: float
    callback_url: str | None
    restore: RestorePoint | None
    labels: Mapping[str, str] = {}


# What a claim, or a later write, comes to. All of them are ordinary results.


class Claimed(Struct, frozen=True):
    """The pipeline is ours. `over` is the head of the attempt that was taken over, if any."""

    head: Head
    over: Head | None


class Updated(Struct, frozen=True):
    """The head holds what was to be written."""

    head: Head


class AlreadyTerminal(Struct, frozen=True):
    """A terminal record is stored: run nothing, deliver its body."""

    head: Head


class Acknowledged(Struct, frozen=True):
    head: Head


class RejectedBefore(Struct, frozen=True):
    """The server has refused this pipeline's terminal record."""

    head: Head


class Fenced(Struct, frozen=True):
    """Another process owns the pipeline (`head`; None if the record has vanished). Nothing of ours may be
    written.
    """

    head: Head | None


class OtherSession(Struct, frozen=True):
    """This pipeline id belongs to another session: the launch is wrong."""

    head: Head


class WriteClaim(Struct, frozen=True):
    """Write `head`: under `If-None-Match: *` if `over` is None, else under `If-Match` with the etag of
    `over`.
    """

    head: Head
    over: Head | None


Settled: TypeAlias = AlreadyTerminal | Acknowledged | RejectedBefore
ClaimDecision: TypeAlias = WriteClaim | Claimed | Settled | Fenced | OtherSession


def decide_claim(found: Head | None, me: Claimant) -> ClaimDecision:
    """The claim table (DESIGN §8), one row per branch. `found` is the pipeline's head as read last."""
    if found is None:
        return WriteClaim(_first_claim(me), over=None)
    if found.fields.session_id != me.session_id:
        return OtherSession(found)
    settled = settled_as(found)
    if settled is not None:
        return settled
    if found.fields.claim_id == me.claim_id:
        return Claimed(found, over=None)  # our own write, whose answer was lost
    if found.fields.attempt < me.attempt:
        return WriteClaim(_taken_over(found, me), over=found)
    return Fenced(found)


def settled_as(found: Head) -> Settled | None:
    """How a head that is no mere claim is settled; None while it is claimed."""
    match found.fields.state:
        case "terminal":
            return AlreadyTerminal(found)
        case "acknowledged":
            return Acknowledged(found)
        case "rejected":
            return RejectedBefore(found)
        case "claimed":
            return None


class OwnWrite(Struct, frozen=True):
    """What was to be written is there already."""

    head: Head


class TryAgain(Struct, frozen=True):
    """The head is still ours and older: write again under its present etag."""


class Overtaken(Struct, frozen=True):
    """Somebody else wrote (or the record vanished): `head` is what stands there."""

    head: Head | None


Judgement: TypeAlias = OwnWrite | TryAgain | Overtaken


def judge(wanted: Head, found: Head | None) -> Judgement:
    """After a 412 or 409 for `wanted`, and after reading again: was it our own write, may we retry, or are
    we out?

    A terminal record, once stored, is final: a different one is never written over it. `wanted` carries a
    revision that this process has used for nothing else, so an equal one under our claim is the write whose
    answer was lost.
    """
    if found is None or found.fields.claim_id != wanted.fields.claim_id:
        return Overtaken(found)
    if found.json == wanted.json:
        return OwnWrite(found)
    stored = found.json["terminal"]
    if stored is not None:
        return _judge_settled(wanted, found) if stored == wanted.json["terminal"] else Overtaken(found)
    return TryAgain() if found.fields.revision < wanted.fields.revision else Overtaken(found)


def _judge_settled(wanted: Head, found: Head) -> Judgement:
    """Both hold the same terminal record; a redelivery may have acknowledged or rejected it meanwhile."""
    if wanted.fields.state in ("terminal", found.fields.state):
        return OwnWrite(found)
    return TryAgain() if found.fields.state == "terminal" else Overtaken(found)


def with_fields(head: Head, revision: int, **fields: Any) -> Head:
    """The same head with a higher revision and some fields (JSON values) replaced; all others kept, unknown
    ones too.
    """
    return head_of({**head.json, "revision": revision, **fields})


def head_of(json: JsonObject) -> Head:
    """The head that some JSON object stands for. Raises `msgspec.ValidationError`."""
    fields = msgspec.convert(json, HeadFields)
    if (fields.state == "claimed") != (fields.terminal is None):
        raise msgspec.ValidationError("`state` and `terminal` contradict each other")
    return Head(fields, json)


def parse_head(data: bytes, address: str) -> Head:
    """A stored head. Raises `DamagedRecord` naming `address` for anything that is not one, or holds a terminal body
    that is no JSON object.
    """
    json = parse_record(data, JsonObject, address)
    try:
        head = head_of(json)
    except msgspec.ValidationError as error:
        raise DamagedRecord(address, str(error)) from error
    if head.fields.terminal is not None:
        # It will be sent and printed as it is, so it must be what every reader of it expects.
        parse_record(head.fields.terminal.body.encode(), JsonObject, f"the terminal body in {address}")
    return head


def encode_head(head: Head) -> bytes:
    """The head's bytes: compact JSON, fields in the order they had."""
    return msgspec.json.encode(head.json)


def progress_json(progress: Progress) -> JsonObject:
    """Progress as the JSON value of the head's field."""
    return _as_read(progress)


def terminal_json(terminal: Terminal) -> JsonObject:
    """A terminal record as the JSON value of the head's field."""
    return _as_read(terminal)


def _as_read(value: Struct) -> JsonObject:
    """A value as it reads back from JSON (lists for tuples): judging compares what was written with what is
    read.
    """
    return msgspec.json.decode(msgspec.json.encode(value), type=JsonObject)


def _first_claim(me: Claimant) -> Head:
    return head_of(
        {
            "version": 1,
            "pipeline_id": me.pipeline_id,
            "session_id": me.session_id,
            "attempt": me.attempt,
            "claim_id": me.claim_id,
            "revision": 1,
            "state": "claimed",
            "claimed_at": me.claimed_at,
            "deadline_s": me.deadline_s,
            "grace_s": me.grace_s,
            "callback_url": me.callback_url,
            "restore": msgspec.to_builtins(me.restore),
            "progress": None,
            "terminal": None,
            **_labels(me),
        }
    )


def _labels(me: Claimant) -> JsonObject:
    return {"labels": dict(me.labels)} if me.labels else {}


def _taken_over(found: Head, me: Claimant) -> Head:
    """The same pipeline under a new owner: its restore point and progress are carried, its clock starts
    anew.
    """
    return with_fields(
        found,
        found.fields.revision + 1,
        attempt=me.attempt,
        claim_id=me.claim_id,
        claimed_at=me.claimed_at,
        deadline_s=me.deadline_s,
        grace_s=me.grace_s,
        callback_url=me.callback_url,
        **_labels(me),
    )
