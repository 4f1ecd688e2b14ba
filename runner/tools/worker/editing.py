"""Exact replacements in a text: where they go, and whether they are allowed to. Pure.

All replacements are found in the text as it was; each must fit exactly one place and none may overlap another, else
nothing is changed and the refusal says what was found. What lies outside of the places comes out byte for byte as it
was, whatever line ends the file mixes. A replacement that fits nowhere is looked for once more with typographic
quotes, dashes and spaces taken for plain ones and blanks at line ends ignored (models normalise both), and then again
must fit one place only.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from runner.tools.worker.places import Refusal
from runner.tools.worker.text_form import line_end_of, with_line_end

_LISTED_PLACES = 8
_COUNTED_PLACES = 1000
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_BLANKS_AT_LINE_END = re.compile(r"(?<![ \t])[ \t]+(?=\n)")


class Edit(NamedTuple):
    old: str
    new: str


class Edited(NamedTuple):
    text: str
    first_line: int
    """The line of the first change, from 1."""
    loosely: int
    """How many replacements only fitted loosely."""


class _Place(NamedTuple):
    start: int
    end: int
    number: int


def apply_edits(text: str, edits: Sequence[Edit], name: str) -> Edited:
    """The text with all replacements made. Raises Refusal; `name` is the file's, for its sentence."""
    if not edits:
        raise Refusal("There is nothing to replace: give at least one entry in edits")
    exact = _Found.in_text(text)
    loose: _Found | None = None
    places: list[_Place] = []
    loosely = 0
    for number, edit in enumerate(edits):
        label = _label(number, edits)
        old = with_line_end(edit.old, "\n")
        if not old:
            raise Refusal(f"{label} is empty: give the text to replace (use write for a new file)")
        span = exact.only_place(old, label, name)
        if span is None:
            loose = loose or exact.loosened()
            span = loose.only_place(_loosened(old), label, name)
            loosely += 1
        if span is None:
            raise Refusal(f"{label} does not occur in {name}{_hint(exact, old)}. Nothing was changed")
        places.append(_Place(*span, number))
    places.sort()
    _refuse_overlaps(places, edits)
    changed = _replaced(text, places, edits)
    if changed == text:
        raise Refusal(f"The edit changes nothing: {name} already reads so")
    return Edited(changed, text.count("\n", 0, places[0].start) + 1, loosely)


def _label(number: int, edits: Sequence[Edit]) -> str:
    return "oldText" if len(edits) == 1 else f"edits[{number}].oldText"


def _refuse_overlaps(places: Sequence[_Place], edits: Sequence[Edit]) -> None:
    for before, after in pairwise(places):
        if after.start < before.end:
            first, second = sorted((before.number, after.number))
            raise Refusal(
                f"edits[{first}] and edits[{second}] overlap: merge them into one. Nothing was changed"
                if len(edits) > 1
                else "The edit overlaps itself"
            )


def _replaced(text: str, places: Sequence[_Place], edits: Sequence[Edit]) -> str:
    end = line_end_of(text)
    parts: list[str] = []
    at = 0
    for place in places:
        # In a file of mixed line ends, those of the replaced lines go on.
        old = text[place.start : place.end]
        own_end = line_end_of(old) if "\n" in old or "\r" in old else end
        parts += text[at : place.start], with_line_end(edits[place.number].new, own_end)
        at = place.end
    parts.append(text[at:])
    return "".join(parts)


class _Found:
    """A simplified text that is searched, and the way back from its positions to those of the original."""

    def __init__(self, text: str, start: Callable[[int], int], end: Callable[[int], int]) -> None:
        self.text = text
        self._start = start
        self._end = end

    @classmethod
    def in_text(cls, text: str) -> "_Found":
        """With plain line ends."""
        if "\r" not in text:
            return cls(text, _same, _same)
        at = [match.start() for match in re.finditer("\r\n", text)]
        ends = [position - index for index, position in enumerate(at)]  # where their `\n` is now

        def original(position: int) -> int:
            return position + bisect_left(ends, position)

        return cls(with_line_end(text, "\n"), original, original)

    def loosened(self) -> "_Found":
        """With plain quotes, dashes and spaces and no blanks at line ends."""
        text = self.text.translate(_PLAIN)
        cuts: list[int] = []
        removed = [0]
        for match in _BLANKS_AT_LINE_END.finditer(text):
            cuts.append(match.start() - removed[-1])
            removed.append(removed[-1] + match.end() - match.start())

        def start(position: int) -> int:
            return self._start(position + removed[bisect_right(cuts, position)])

        def end(position: int) -> int:
            return self._end(position + removed[bisect_left(cuts, position)])

        return _Found(_BLANKS_AT_LINE_END.sub("", text), start, end)

    def only_place(self, old: str, label: str, name: str) -> tuple[int, int] | None:
        """Where `old` stands in the original; None if nowhere. Raises Refusal if it stands in several places."""
        found: list[int] = []
        at = self.text.find(old) if old else -1
        while at >= 0 and len(found) < _COUNTED_PLACES:
            found.append(at)
            at = self.text.find(old, at + 1)
        if len(found) > 1:
            lines = ", ".join(str(self.line_of(position)) for position in found[:_LISTED_PLACES])
            more = ", …" if len(found) > _LISTED_PLACES else ""
            count = f"at least {len(found)}" if len(found) == _COUNTED_PLACES else len(found)
            raise Refusal(
                f"{label} occurs in {count} places in {name} (lines {lines}{more}): "
                "give more of the text around it, so that it fits one place only. Nothing was changed"
            )
        if not found:
            return None
        return self._start(found[0]), self._end(found[0] + len(old))

    def line_of(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1


def _same(position: int) -> int:
    return position


def _loosened(old: str) -> str:
    return _BLANKS_AT_LINE_END.sub("", old.translate(_PLAIN))


def _hint(found: _Found, old: str) -> str:
    """Where the replacement may have been meant: the first line with something on it."""
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    at = found.text.find(first) if first else -1
    if at < 0 or first == old:
        return ": read it again, every blank and line end counts"
    return f" as it stands (its first line is in line {found.line_of(at)}): every blank and line end counts"
