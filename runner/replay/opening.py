"""From an opened source to what is replayed of it.

Of a head or a manifest that is the part that its own pipeline made; of a plain file, everything on the active branch.
Refuses a pipeline of which nothing is stored, and says why.
"""

from collections.abc import Sequence

from msgspec import Struct

from checkpoint.errors import StoreError
from checkpoint.head import HEAD_LIMIT, parse_head
from checkpoint.jsontypes import JsonObject, Message
from checkpoint.keys import head_key
from checkpoint.manifest import MANIFEST_LIMIT, parse_manifest, parse_record
from runner.errors import Refused, UsageError
from runner.inspection.errors import SourceFailed
from runner.inspection.meter import Meter
from runner.inspection.session_file import SessionFile
from runner.inspection.source import Source, StoreOptions, open_source, source_kind
from runner.models.shapes import an_object
from runner.question_gate import Asker
from runner.replay.recording import Line, read_branch
from runner.replay.replay_log import ReplayLog
from runner.replay.replaying import Given
from runner.replay.segments import part_of
from runner.replay.told import UNKNOWN, told_by
from runner.usage import UsageTotals


class Opened(Struct, frozen=True):
    given: Given
    lines: Sequence[Line]
    session: SessionFile
    base: int
    """Entries of the file that lie before what is replayed."""
    body: JsonObject | None
    """The terminal record that the replay's settlement is held against."""


def open_replay(source: Source, options: StoreOptions, meter: Meter, until: str | None) -> Opened:
    """What of the source is replayed, up to and with the entry `until`. Raises Refused, SourceFailed, UsageError."""
    session = source.session
    if session is None or source.basis in ("restore", "nothing"):
        raise Refused("nothing_recorded", [f"{source.address}: {_why_nothing(source)}"])
    body, told = source.terminal, UNKNOWN
    if source.kind == "manifest":
        body = _body_of_manifest(source, options)
    if body is not None:
        told = told_by(body)
    base = _base_entries(source, options, meter) if source.kind != "plain" else 0
    if base > session.index.entries:
        raise SourceFailed("damaged", source.address, f"its session is shorter than the {base:,} entries it began with")
    recording = read_branch(session.path, session.index, source.address, start=base)
    if until is not None:
        recording = recording.until(position_of(recording.entries, until, source.address))
    given = Given(
        entries=recording.entries,
        one_pipeline=source.kind != "plain",
        continues=base > 0 and _can_continue(session, base),
        cut=until is not None,
        asker=_asker(source),
        told=UNKNOWN if until is not None else told,
        used=_used_by_subagents(source),
    )
    compared = body if until is None and source.basis == "checkpoint" and told.ended != "outside" else None
    return Opened(given, recording.lines, session, base, compared)


def replay_log(opened: Opened) -> ReplayLog:
    """The log of the replay, which goes on from what lies before it."""
    index, base = opened.session.index, opened.base
    return ReplayLog(
        opened.session.path,
        opened.lines,
        base_bytes=index.offsets[base] if base < len(index) else index.keep_bytes,
        base_entries=base,
        leaf_id=index.heads[base - 1].id if base else None,
    )


def position_of(entries: Sequence[JsonObject], entry_id: str, address: str) -> int:
    """Where an entry is. Raises UsageError if it is not there."""
    for position, entry in enumerate(entries):
        if entry.get("id") == entry_id:
            return position
    raise UsageError(f"there is no entry {entry_id!r} in what is replayed of {address}: `runner inspect` lists them")


# --- parts --------------------------------------------------------------------------------------------------


def _why_nothing(source: Source) -> str:
    if source.terminal is not None:
        settlement: JsonObject = source.terminal.get("settlement") or {}
        return (
            f"the pipeline ended as {settlement.get('kind')} ({settlement.get('reason')}) without a checkpoint of its "
            "own, so nothing of its run is stored: replay what it was restored from"
        )
    return "the pipeline has stored nothing of its run yet: replay it when it has ended"


def _body_of_manifest(source: Source, options: StoreOptions) -> JsonObject | None:
    """The terminal record that names this very checkpoint, if it is still there."""
    manifest, point = source.manifest, source.restore_point
    if manifest is None or point is None:
        return None
    _, uri, _ = source_kind(source.address)
    store = options.opener()(uri)
    key = head_key(manifest.pipeline_id)
    try:
        found = store.get(key, limit=HEAD_LIMIT)
    except StoreError:
        return None  # it only adds the settlement to compare with
    if found is None:
        return None
    terminal = parse_head(found.data, store.address(key)).fields.terminal
    if terminal is None or terminal.digest != point.digest:
        return None
    return parse_record(terminal.body.encode(), JsonObject, f"the terminal body in {store.address(key)}")


def _base_entries(source: Source, options: StoreOptions, meter: Meter) -> int:
    """How many entries the pipeline's session had when it was restored."""
    parent = source.parent
    if parent is None:
        return 0
    _, uri, _ = source_kind(source.address)
    if parent.manifest is not None:
        store = options.opener()(uri)
        address = store.address(parent.manifest)
        found = store.get(parent.manifest, limit=MANIFEST_LIMIT)
        if found is None:
            raise SourceFailed(
                "missing", address, "it does not exist, and the pipeline began with it: replay an export"
            )
        return parse_manifest(found.data, address).entries
    assert parent.jsonl is not None, "a restore point has either `manifest` or `jsonl`"
    address = parent.jsonl if "://" in parent.jsonl else f"{uri.rstrip('/')}/{parent.jsonl}"
    with open_source(address, options, meter=meter, files=False) as plain:
        return plain.session.index.entries if plain.session is not None else 0


def _can_continue(session: SessionFile, base: int) -> bool:
    """Whether the restored session ended with something that a model can be asked to answer."""
    index = session.index
    with session.reader() as read:
        for position in range(base - 1, -1, -1):
            if index.heads[position].type not in ("message", "custom_message", "branch_summary"):
                continue
            entry = read(position)
            part = part_of(entry)
            if part == "none":
                continue
            message: Message = entry.get("message") or {}
            if part == "assistant" and message.get("stopReason") in ("error", "aborted"):
                continue
            return part != "assistant"
    return False


def _asker(source: Source) -> Asker:
    if source.manifest is not None:
        return Asker(source.manifest.pipeline_id, source.manifest.attempt, source.manifest.session_id)
    if source.head is not None:
        fields = source.head.fields
        return Asker(fields.pipeline_id, fields.attempt, fields.session_id)
    return Asker("replay", 1, "replay")


def _used_by_subagents(source: Source) -> UsageTotals:
    """What the subagents used counts as the run's; their transcripts tell it."""
    usage = UsageTotals()
    for _, transcript in source.files:
        for entry in transcript.entries():
            message = an_object(entry.value.get("message"))
            if message.get("role") != "assistant":
                continue
            usage.requests += 1
            usage.add(message)
            usage.turns += message.get("stopReason") not in ("error", "aborted")
    return usage
