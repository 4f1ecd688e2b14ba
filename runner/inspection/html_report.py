"""The report for a browser: one file that needs nothing else, runs nothing, and shows hostile content as text.

No script at all: what folds is `<details>`, what links is an anchor, so keyboard and screen reader work by themselves.
A strict policy (html_style.py) stands behind the escaping. Streams: an entry is decoded when its HTML is asked for.
"""

from collections.abc import Iterator, Mapping

from checkpoint.jsontypes import JsonObject
from runner.inspection.html_parts import part_html, text_html
from runner.inspection.html_style import DEEPEST, POLICY, STYLE
from runner.inspection.overview import Surveyed, model_ms
from runner.inspection.parts import parts_of, title_of
from runner.inspection.sections import Section, sections
from runner.inspection.session_file import Entry
from runner.inspection.survey import Turn, text_or
from runner.inspection.tree import tree_rows
from runner.inspection.visible_text import html_line
from runner.inspection.wording import amount, dollars, duration, row_words, tools_words, usage_words

_BAR = 1000
"""The width of a timeline's bar in its own units."""


def html_report(
    overview: JsonObject, session: Surveyed | None, files: Mapping[str, Surveyed], *, full: bool
) -> Iterator[str]:
    """The document in pieces."""
    about = list(sections(overview))
    talks = [_Talk("", "", session, full=full)] if session is not None else []
    talks += [_Talk(f"f{n}-", f" of {name}", one, full=full) for n, (name, one) in enumerate(files.items(), 1)]
    links = [(section.name, section.title) for section in about]
    links += [link for talk in talks for link in talk.links()]
    yield from _begin(overview, links)
    for section in about:
        yield from _facts(section, full=full)
    for talk in talks:
        yield from talk.timeline()
        yield from talk.tree()
        yield from talk.transcript()
    yield "</main></body></html>\n"


def _begin(overview: JsonObject, links: list[tuple[str, str]]) -> Iterator[str]:
    named = overview["session"]["name"] or overview["session"]["id"] if overview["session"] is not None else ""
    title = html_line(f"Session {named}" if named else "Pipeline without a session")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta name="referrer" content="no-referrer"><title>{title}</title><style>{STYLE}</style></head>\n<body>'
        f'<a class="skip" href="#main">Skip to the content</a><header><h1><bdi>{title}</bdi></h1></header>'
    )
    items = "".join(f'<li><a href="#{name}">{html_line(text)}</a></li>' for name, text in links)
    yield f'<nav aria-label="Sections"><ul>{items}</ul></nav>\n<main id="main" tabindex="-1">'


def _facts(section: Section, *, full: bool) -> Iterator[str]:
    yield _open_section(section.name, section.title)
    if section.facts:
        yield "<dl>"
        for name, value in section.facts.items():
            yield f"<dt>{html_line(name)}</dt><dd><bdi>{html_line(value)}</bdi></dd>"
        yield "</dl>"
    if section.items:
        yield "<ul>" + "".join(f"<li><bdi>{html_line(item)}</bdi></li>" for item in section.items) + "</ul>"
    if section.text is not None:
        yield from text_html(section.text, "plain", full=full)
    yield "</section>\n"


def _open_section(name: str, title: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}"><bdi>{html_line(title)}</bdi></h2>'


class _Talk:
    """One conversation: the session's, or a subagent's. `prefix` keeps its anchors apart from the others'."""

    def __init__(self, prefix: str, of: str, session: Surveyed, *, full: bool) -> None:
        self._prefix = prefix
        self._of = of
        self._session = session
        self._full = full

    def links(self) -> list[tuple[str, str]]:
        parts = (("timeline", "Timeline"), ("tree", "Tree"), ("transcript", "Transcript"))
        return [(self._prefix + name, title + self._of) for name, title in parts]

    def timeline(self) -> Iterator[str]:
        found = self._session.found
        longest = max((_busy_ms(turn) for turn in found.turns), default=0)
        yield _open_section(f"{self._prefix}timeline", f"Timeline{self._of}")
        summary = f"{amount(len(found.turns), 'turn')}: {usage_words(found.usage)}"
        yield f'<div class="scroll" role="region" aria-label="Turns{html_line(self._of)}" tabindex="0"><table>'
        yield f"<caption>{html_line(summary)}</caption><thead><tr>"
        for column in ("Turn", "Model", "Answered in", "Tools", "Time", "Tokens in", "Tokens out", "Cost", "End"):
            yield f'<th scope="col">{column}</th>'
        yield "</tr></thead><tbody>\n"
        for turn in found.turns:
            yield self._turn(turn, longest)
        for use in found.other:
            yield f'<tr><th scope="row">+</th><td colspan="8"><bdi>{html_line(use.what)}</bdi>: '
            yield f"{html_line(usage_words(use.usage))}</td></tr>\n"
        yield "</tbody></table></div></section>\n"

    def _turn(self, turn: Turn, longest: int) -> str:
        usage, words = turn.usage, tools_words(turn)
        label = f"model {duration(model_ms(turn))}" + (f", then {words}" if words else "")
        line = self._session.file.index.lines[turn.position]
        aside = "" if turn.active else " (other branch)"
        bad = ' class="bad"' if turn.stop_reason not in ("stop", "toolUse") else ""
        return (
            f'<tr><th scope="row"><a href="#{self._prefix}e{line}">{turn.number}</a>{aside}</th>'
            f'<td><bdi>{html_line(turn.model)}</bdi></td><td class="n">{duration(model_ms(turn))}</td>'
            f"<td><bdi>{html_line(words)}</bdi></td>"
            f'<td><svg role="img" aria-label="{html_line(label)}" viewBox="0 0 {_BAR} 12" preserveAspectRatio="none">'
            f"{_bars(turn, longest)}</svg></td>"
            f'<td class="n">{usage.input + usage.cache_read + usage.cache_write:,}</td>'
            f'<td class="n">{usage.output:,}</td><td class="n">{dollars(usage.cost_usd)}</td>'
            f"<td{bad}><bdi>{html_line(turn.stop_reason)}</bdi></td></tr>\n"
        )

    def tree(self) -> Iterator[str]:
        file, found = self._session.file, self._session.found
        labelled = {position for position, head in enumerate(file.index.heads) if _text(head.id) in found.labels}
        yield _open_section(f"{self._prefix}tree", f"Tree{self._of}")
        yield '<ol class="tree">'
        with file.reader() as read:
            for row in tree_rows(file.index.heads, file.index.by_id, self._session.active, labelled):
                at, words = file.index.entry(row.first), row_words(row, "", "", None)
                if row.count == 1:
                    title = title_of(Entry(at, read(row.first)))
                    words = row_words(row, title, found.snippets.get(row.first, ""), found.labels.get(_text(at.id)))
                aside = "" if row.active else ' <span class="meta">(not on the active branch)</span>'
                link = f'<a href="#{self._prefix}e{at.line}"><bdi>{html_line(words)}</bdi></a>'
                yield f'<li class="d{min(row.depth, DEEPEST)}">{link}{aside}</li>\n'
        yield "</ol></section>\n"

    def transcript(self) -> Iterator[str]:
        yield _open_section(f"{self._prefix}transcript", f"Transcript{self._of}")
        labels = self._session.found.labels
        for position, entry in enumerate(self._session.file.entries()):
            active = position in self._session.active
            yield self._entry(entry, labels.get(_text(entry.at.id)), active=active)
            for part in parts_of(entry):
                yield from part_html(part, full=self._full)
            yield "</article>\n"
        yield "</section>\n"

    def _entry(self, entry: Entry, label: str | None, *, active: bool) -> str:
        title, anchor = title_of(entry), f"{self._prefix}e{entry.at.line}"
        looks = [look for look, applies in (("user", title == "user"), ("aside", not active)) if applies]
        meta = [_text(entry.at.id), f"line {entry.at.line}", text_or(entry.value.get("timestamp"), "")]
        meta += [f"label: {label}"] if label else []
        meta += [] if active else ["not on the active branch"]
        said = html_line(", ".join(part for part in meta if part))
        return (
            f'<article id="{anchor}" class="{" ".join(looks)}" aria-labelledby="{anchor}-t">'
            f'<h3 id="{anchor}-t"><bdi>{html_line(title)}</bdi> <span class="meta"><bdi>{said}</bdi></span></h3>'
        )


def _busy_ms(turn: Turn) -> int:
    """From the begin of a turn to the end of its last tool."""
    return (model_ms(turn) or 0) + max((tool.ms or 0 for tool in turn.tools), default=0)


def _bars(turn: Turn, longest: int) -> str:
    """The model's time, and over what follows it each tool's, one below the other, on the longest turn's scale."""
    if not longest:
        return ""
    model = (model_ms(turn) or 0) * _BAR // longest
    bars = f'<rect class="m" x="0" y="0" width="{model}" height="12"/>'
    height = 12 / max(1, len(turn.tools))
    for row, tool in enumerate(turn.tools):
        look, width = "f" if tool.failed else "t", max(1, (tool.ms or 0) * _BAR // longest)
        bars += f'<rect class="{look}" x="{model}" y="{row * height:.2f}" width="{width}" height="{height:.2f}"/>'
    return bars


def _text(entry_id: object) -> str:
    return entry_id if isinstance(entry_id, str) else ""
