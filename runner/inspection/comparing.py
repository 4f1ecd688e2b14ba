"""`runner diff`: two sessions or checkpoints, entry by entry, then what else is known of both (docs/inspection.md).

Streams both files; the common beginning costs one line of each at a time. Where they lie, how they are stored and who
holds the pipeline is no difference: a checkpoint and its exported file are the same.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec

from checkpoint.jsontypes import JsonObject
from checkpoint.session.encoding import encode
from checkpoint.session.index import IndexedEntry, OnDamage
from runner.exits import Exit
from runner.inspection.differences import ABSENT, Change, Changed, Difference, Entry, Only, compare_by_id, json_changes
from runner.inspection.json_report import as_json
from runner.inspection.overview import surveyed
from runner.inspection.parts import title_of
from runner.inspection.session_file import Entry as FileEntry
from runner.inspection.session_file import SessionFile
from runner.inspection.source import Source, StoreOptions, open_shown
from runner.inspection.survey import text_or
from runner.inspection.visible_text import visible_line
from runner.inspection.wording import amount

DIFFERENT = 1
"""Exit code: the sources were read and differ."""
_VALUE_CHARS = 200
DiffFormat: TypeAlias = Literal["text", "json"]


def diff_sources(a: str, b: str, options: StoreOptions, *, form: DiffFormat, on_damage: OnDamage) -> int:
    """Print what differs between two sources; 0 if nothing does, else 1. Raises RunnerError."""
    with ExitStack() as opened:
        sources = [opened.enter_context(open_shown(address, options, on_damage=on_damage)) for address in (a, b)]
        compared = Comparison(*sources)
        for piece in _json_pieces(compared) if form == "json" else _text_pieces(compared):
            sys.stdout.buffer.write(piece.encode())
        sys.stdout.buffer.flush()
        for name, source in zip("AB", sources, strict=True):
            for damage in source.damage:
                sys.stderr.write(f"runner: damage in {name}: {visible_line(f'{damage.place}: {damage.what}')}\n")
        return Exit.ACKNOWLEDGED if compared.same else DIFFERENT


class Comparison:
    """Two sources compared. The counts are known once `differences` has been read to its end."""

    def __init__(self, a: Source, b: Source) -> None:
        self.a, self.b = a, b
        self.prefix = _common_prefix(a.session, b.session)
        """How many entries both begin with."""
        self.counts = {"only_a": 0, "only_b": 0, "changed": 0}
        self.facts = tuple(json_changes(*_comparable(a, b)))
        """What differs beside the entries."""

    @property
    def same(self) -> bool:
        return not (self.facts or any(self.counts.values()))

    def differences(self) -> Iterator[Difference]:
        with _reading(self.a.session) as (a_ids, read_a), _reading(self.b.session) as (b_ids, read_b):
            for difference in compare_by_id(a_ids, b_ids, read_a, read_b, self.prefix):
                match difference:
                    case Only(side):
                        self.counts[f"only_{side}"] += 1
                    case Changed():
                        self.counts["changed"] += 1
                yield difference


@contextmanager
def _reading(session: SessionFile | None) -> Generator[tuple[list[str | None], Callable[[int], Entry]]]:
    if session is None:
        yield [], _nothing
        return
    ids = [head.id if isinstance(head.id, str) else None for head in session.index.heads]
    with session.reader() as read:

        def entry(position: int) -> Entry:
            at = session.index.entry(position)
            return Entry(ids[position], text_or(at.type, "?"), at.line, read(position))

        yield ids, entry


def _nothing(position: int) -> Entry:
    raise IndexError(position)


def _common_prefix(a: SessionFile | None, b: SessionFile | None) -> int:
    """How many entries are equal from the beginning on. Equal lines are not even decoded."""
    if a is None or b is None:
        return 0
    with a.reader() as read_a, b.reader() as read_b, a.path.open("rb") as file_a, b.path.open("rb") as file_b:
        for position in range(min(len(a.index), len(b.index))):
            if _line(file_a, a, position) == _line(file_b, b, position):
                continue
            if json_changes(read_a(position), read_b(position)):
                return position
    return min(len(a.index), len(b.index))


def _line(file: BinaryIO, session: SessionFile, position: int) -> bytes:
    file.seek(session.index.offsets[position])
    return file.read(session.index.lengths[position])


def _comparable(a: Source, b: Source) -> tuple[JsonObject, JsonObject]:
    """What of both is compared beside the entries: what both can have, and neither its place nor its owner."""
    facts = [_session_facts(source) for source in (a, b)]
    for name, of in (("settlement", _settlement_facts), ("checkpoint", _checkpoint_facts)):
        both = [of(source) for source in (a, b)]
        if all(found is not None for found in both):
            for fact, found in zip(facts, both, strict=True):
                fact[name] = found
    return facts[0], facts[1]


def _session_facts(source: Source) -> JsonObject:
    if source.session is None:
        return {"session": None}
    looked = surveyed(source.session)
    found = looked.found
    return {
        "header": source.session.index.header,
        "leaf_id": source.session.index.leaf_id,
        "settings": {"model": found.model, "thinking_level": found.thinking_level},
        "name": found.name,
        "labels": found.labels,
        "usage": asdict(found.usage) | {"turns": len(found.turns)},
    }


def _settlement_facts(source: Source) -> JsonObject | None:
    if source.terminal is None:
        return None
    return {name: source.terminal.get(name) for name in ("settlement", "input_consumed", "usage")}


def _checkpoint_facts(source: Source) -> JsonObject | None:
    if source.manifest is None:
        return None
    return {
        "pending_questions": [question.tool_call_id for question in source.manifest.pending_questions],
        "counters": msgspec.to_builtins(source.manifest.counters),
        "files": {file.name: file.digest for file in source.manifest.files},
    }


def _text_pieces(compared: Comparison) -> Iterator[str]:
    yield visible_line(f"A  {compared.a.address}") + "\n" + visible_line(f"B  {compared.b.address}") + "\n"
    yield f"{amount(compared.prefix, 'entry')} in common from the beginning on\n"
    for change in compared.facts:
        yield _change_line(change)
    for difference in compared.differences():
        match difference:
            case Only(side, entry):
                sign = "-" if side == "a" else "+"
                yield visible_line(f"{sign} only in {side.upper()}: {_named(entry)}") + "\n"
            case Changed(one, _, changes):
                yield visible_line(f"~ changed: {_named(one)}") + "\n"
                yield from (_change_line(change, "    ") for change in changes)
    counts = compared.counts
    if compared.same:
        yield "no difference\n"
    else:
        only = f"{counts['only_a']:,} only in A, {counts['only_b']:,} only in B, {counts['changed']:,} changed"
        yield f"{only}, {amount(len(compared.facts), 'other difference')}\n"


def _named(entry: Entry) -> str:
    at = IndexedEntry(entry.type, entry.id, None, 0, 0, entry.line)
    return f"{entry.id or '(no id)'}  {title_of(FileEntry(at, entry.value))}  line {entry.line}"


def _change_line(change: Change, margin: str = "  ") -> str:
    return visible_line(f"{margin}{change.path or '/'}: {_short(change.a)} -> {_short(change.b)}") + "\n"


def _short(value: Any) -> str:
    if value is ABSENT:
        return "(absent)"
    text = encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}… ({amount(len(text), 'character')})"


def _json_pieces(compared: Comparison) -> Iterator[str]:
    sources = {"a": compared.a.address, "b": compared.b.address}
    begin = {"version": 1, "type": "diff", **sources, "common_entries": compared.prefix}
    yield as_json(begin | {"facts": [_change_json(change) for change in compared.facts]})[:-1]
    yield ',\n"entries":['
    for number, difference in enumerate(compared.differences()):
        yield f"{',' if number else ''}\n{as_json(_difference_json(difference))}"
    yield "],\n" + as_json({**compared.counts, "same": compared.same})[1:] + "\n"


def _difference_json(difference: Difference) -> JsonObject:
    match difference:
        case Only(side, entry):
            return {"kind": f"only_{side}", "id": entry.id, "line": entry.line, "entry": entry.value}
        case Changed(a, b, changes):
            listed = [_change_json(change) for change in changes]
            return {"kind": "changed", "id": a.id, "line_a": a.line, "line_b": b.line, "changes": listed}


def _change_json(change: Change) -> JsonObject:
    """`a` and `b` are left out where the value is absent."""
    sides = {"a": change.a, "b": change.b}
    return {"path": change.path} | {side: value for side, value in sides.items() if value is not ABSENT}
