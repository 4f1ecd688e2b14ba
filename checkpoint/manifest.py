"""The wire model of a manifest: the immutable list of segments that make up one checkpoint.

Bytes are stable: the same manifest always encodes to the same bytes, and its digest is the sha256 of those
bytes. Unknown fields of a later writer are ignored here, never written back (a stored manifest never
changes).
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from checkpoint.errors import DamagedRecord
from checkpoint.keys import ID_PATTERN, SEGMENT_KEY_PATTERN

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$", description="sha256:<hex>")]
Id = Annotated[str, Meta(pattern=f"^{ID_PATTERN}$")]
Count = Annotated[int, Meta(ge=0)]
SegmentKey = Annotated[str, Meta(pattern=SEGMENT_KEY_PATTERN)]
Key = Annotated[str, Meta(min_length=1, max_length=1024)]

MANIFEST_LIMIT = 16 * 1024 * 1024
"""More bytes than any real manifest has; a larger object is not read."""


class Segment(Struct, frozen=True, kw_only=True):
    """Whole session lines, stored once under the sha256 of their compressed bytes."""

    key: SegmentKey
    bytes: Count
    """Length of the lines."""
    digest: Digest
    """sha256 of the lines, each with its line end."""
    stored_bytes: Count
    lines: Count


class StoredFile(Segment, frozen=True, kw_only=True):
    """A further transcript (of a subagent), stored like a segment."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]


class RestorePoint(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session is restored from: a manifest below the store, or a plain Pi session (maybe zstd).

    In a manifest's `parent` the digest is always there: for `jsonl` it is the one the launch asked for,
    else the sha256 of the object's bytes.
    """

    manifest: Key | None = None
    jsonl: Key | None = None
    digest: Digest | None = None

    def __post_init__(self) -> None:
        if (self.manifest is None) == (self.jsonl is None):
            raise ValueError("a restore point has either `manifest` or `jsonl`")
        if self.manifest is not None and self.digest is None:
            raise ValueError("a restore point with `manifest` needs its `digest`")


class PendingQuestion(Struct, frozen=True, kw_only=True):
    question_id: str
    tool_call_id: str
    entry_id: str
    """The assistant entry that made the call."""


class Counters(Struct, frozen=True, kw_only=True):
    """What limits with scope `session` count on."""

    turns: Count = 0
    total_tokens: Count = 0
    cost_usd: Annotated[float, Meta(ge=0)] = 0.0


class Manifest(Struct, frozen=True, kw_only=True):
    """One checkpoint. `bytes` and `entries` count what its segments add up to."""

    version: Literal[1]
    session_id: Id
    pipeline_id: Id
    attempt: Annotated[int, Meta(ge=1)]
    created_at: str
    runner: str
    parent: RestorePoint | None
    segments: tuple[Segment, ...]
    chain: Digest
    entries: Count
    bytes: Count
    leaf_id: str | None
    pending_questions: tuple[PendingQuestion, ...] = ()
    counters: Counters = Counters()
    files: tuple[StoredFile, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's bytes: compact JSON, fields in the order of the contract."""
    return msgspec.json.encode(manifest)


def parse_manifest(data: bytes, address: str) -> Manifest:
    """The manifest in `data`. Raises `DamagedRecord` naming `address`, also if its parts do not add up."""
    manifest = parse_record(data, Manifest, address)
    if sum(segment.bytes for segment in manifest.segments) != manifest.bytes:
        raise DamagedRecord(address, "`bytes` is not the sum of its segments")
    if chain_of(manifest.segments) != manifest.chain:
        raise DamagedRecord(address, "`chain` does not belong to its segments")
    return manifest


_Record = TypeVar("_Record")


def parse_record(data: bytes, model: type[_Record], address: str) -> _Record:
    """`data` as a `model`; anything else raises `DamagedRecord` naming `address` and the wrong field."""
    try:
        return msgspec.json.decode(data, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # ValidationError is a DecodeError
        raise DamagedRecord(address, str(error)) from error
    except RecursionError as error:
        raise DamagedRecord(address, "it is nested too deeply") from error


def digest_of(data: bytes) -> str:
    """`sha256:<hex>` of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def chain_of(segments: Iterable[Segment]) -> str:
    """One digest over an ordered list of segments: sha256 over each segment's `digest` text plus a line
    feed.

    It names the content, not the storage: it stays the same when the same cuts are compressed anew, and no
    segment can be dropped, repeated or moved without changing it.
    """
    chain = hashlib.sha256()
    for segment in segments:
        chain.update(f"{segment.digest}\n".encode())
    return f"sha256:{chain.hexdigest()}"
