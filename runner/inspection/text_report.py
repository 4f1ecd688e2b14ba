"""The report for a terminal: plain lines in which nothing of the session can act on the terminal.

Long content is folded after some lines and says how much it left out; `full` shows all of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.inspection.overview import Surveyed, model_ms
from runner.inspection.parts import CallPart, ImagePart, JsonPart, Part, TextPart, parts_of, title_of
from runner.inspection.sections import sections
from runner.inspection.session_file import Entry
from runner.inspection.survey import text_or
from runner.inspection.tree import tree_rows
from runner.inspection.visible_text import visible, visible_line
from runner.inspection.wording import (
    amount,
    dollars,
    duration,
    pretty,
    row_words,
    tools_words,
    usage_words,
)

FOLD_LINES = 20
FOLD_CHARS = 2000
_MOST_INDENTED = 20


def text_report(
    overview: JsonObject, session: Surveyed | None, files: Mapping[str, Surveyed], *, full: bool
) -> Iterator[str]:
    """The lines, without line ends. Streams: an entry is decoded when its lines are asked for."""
    for number, section in enumerate(sections(overview)):
        yield from _heading(section.title, first=number == 0)
        width = max(map(len, section.facts), default=0)
        yield from (f"{name:<{width}}  {visible_line(value)}" for name, value in section.facts.items())
        yield from (visible_line(f"- {item}") for item in section.items)
        if section.text is not None:
            yield from folded(section.text, full=full)
    if session is not None:
        yield from _session(session, full=full)
    for name, one in files.items():
        yield ""
        yield visible_line(f"######## Transcript {name}")
        yield from _session(one, full=full)


def _heading(text: str, *, first: bool = False) -> Iterator[str]:
    if not first:
        yield ""
    yield f"== {text} =="


def _session(session: Surveyed, *, full: bool) -> Iterator[str]:
    yield from _usage(session)
    yield from _heading("Tree")
    yield from tree_lines(session)
    yield from _heading("Transcript")
    labels = session.found.labels
    for position, entry in enumerate(session.file.entries()):
        entry_id = text_or(entry.at.id, "-")
        time = text_or(entry.value.get("timestamp"), "")
        aside = "" if position in session.active else " (not on the active branch)"
        label = f" [{labels[entry_id]}]" if entry_id in labels else ""
        yield ""
        yield visible_line(f"--- {entry_id}  {title_of(entry)}{label}{aside}  {time}  line {entry.at.line}")
        for part in parts_of(entry):
            yield from _part_lines(part, full=full)


def _usage(session: Surveyed) -> Iterator[str]:
    found = session.found
    yield from _heading("Usage")
    yield f"{amount(len(found.turns), 'turn')}: {usage_words(found.usage)}"
    for turn in found.turns:
        usage = turn.usage
        numbers = f"{usage.input + usage.cache_read + usage.cache_write:>10,} in {usage.output:>8,} out"
        aside = "" if turn.active else "  (other branch)"
        tools = f"  {tools_words(turn)}" if turn.tools else ""
        stop = "" if turn.stop_reason in ("stop", "toolUse") else f"  {turn.stop_reason}"
        spent = f"{dollars(usage.cost_usd):>10}  {duration(model_ms(turn)):>10}"
        yield visible_line(f"{turn.number:>5}  {turn.entry_id}  {numbers}  {spent}{tools}{stop}{aside}")
    for use in found.other:
        yield visible_line(f"    +  {use.entry_id}  {use.what}: {usage_words(use.usage)}")


def tree_lines(session: Surveyed) -> Iterator[str]:
    """`*` marks the active branch."""
    file, found = session.file, session.found
    labelled = {position for position, head in enumerate(file.index.heads) if found.labels.get(_key(head.id))}
    with file.reader() as read:
        for row in tree_rows(file.index.heads, file.index.by_id, session.active, labelled):
            at, words = file.index.entry(row.first), row_words(row, "", "", None)
            if row.count == 1:
                title, label = title_of(Entry(at, read(row.first))), found.labels.get(_key(at.id))
                words = f"{_key(at.id)}  {row_words(row, title, found.snippets.get(row.first, ''), label)}"
            yield visible_line(f"{'*' if row.active else ' '} {'    ' * min(row.depth, _MOST_INDENTED)}{words}")


def _part_lines(part: Part, *, full: bool) -> Iterator[str]:
    match part:
        case TextPart(text, look, label):
            if label is not None:
                yield f"    ({visible_line(label)})"
            yield from folded(text, full=full, margin="    | " if look == "thinking" else "    ")
        case CallPart(name, call_id, arguments):
            yield visible_line(f"    -> {name} ({call_id})")
            yield from folded(pretty(arguments), full=full, margin="       ")
        case ImagePart(mime_type, data):
            yield visible_line(f"    (image {mime_type}, {amount(len(data) * 3 // 4, 'byte')})")
        case JsonPart(label, value):
            yield f"    ({visible_line(label)})"
            yield from folded(pretty(value), full=full)


def folded(text: str, *, full: bool, margin: str = "    ") -> Iterator[str]:
    """The lines of a text, made visible, each behind a margin; all but the first few left out unless `full`."""
    shown = text if full else text[:FOLD_CHARS]
    lines = visible(shown).split("\n")
    if not full and len(lines) > FOLD_LINES:
        shown = "\n".join(shown.split("\n")[:FOLD_LINES])
        lines = lines[:FOLD_LINES]
    yield from (margin + line for line in lines)
    if len(shown) < len(text):
        yield f"{margin}… {amount(len(text) - len(shown), 'more character')} (--full shows them)"


def _key(entry_id: Any) -> str:
    return entry_id if isinstance(entry_id, str) else "-"
