"""The report for programs: one JSON object in ASCII (docs/inspection.md), written piece by piece."""

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoint.jsontypes import JsonObject
from checkpoint.session.encoding import encode
from runner.inspection.overview import Surveyed, tree_facts
from runner.inspection.visible_text import ascii_json


def json_report(overview: JsonObject, session: Surveyed | None, files: Mapping[str, Surveyed]) -> Iterator[str]:
    """Pieces of the text. The entries come last, one a line, so that a session of any size is streamed."""
    yield as_json(overview)[:-1]
    yield ',\n"tree":'
    yield as_json([] if session is None else tree_facts(session))
    yield ',\n"entries":['
    if session is not None:
        yield from _entries(session)
    yield '],\n"file_entries":{'
    for number, (name, one) in enumerate(files.items()):
        yield f"{',' if number else ''}\n{as_json(name)}:["
        yield from _entries(one)
        yield "]"
    yield "}}\n"


def _entries(session: Surveyed) -> Iterator[str]:
    for number, entry in enumerate(session.file.entries()):
        yield f"{',' if number else ''}\n{as_json(entry.value)}"


def as_json(value: Any) -> str:
    """Compact JSON in ASCII, of any depth."""
    return ascii_json(encode(value).decode())
