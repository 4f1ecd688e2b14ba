"""`runner inspect`: opens a source and writes one of the reports on it."""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from checkpoint.session.index import OnDamage
from runner.errors import Refused
from runner.exits import Exit
from runner.inspection.new_file import new_file
from runner.inspection.overview import overview, surveyed
from runner.inspection.source import Source, StoreOptions, open_shown

Format: TypeAlias = Literal["text", "json", "html"]


def inspect_source(
    address: str, options: StoreOptions, *, form: Format, output: Path | None, full: bool, on_damage: OnDamage
) -> int:
    """Write the report to `output`, whole or not at all, or to standard output. Raises RunnerError."""
    if output is not None and output.exists() and Path(address).exists() and output.samefile(address):
        raise Refused("output_is_source", [f"{output} is the source: name another file"])
    with open_shown(address, options, on_damage=on_damage) as source, _written_to(output) as write:
        for piece in report_pieces(source, form, full=full):
            write(piece)
    return Exit.ACKNOWLEDGED


def report_pieces(source: Source, form: Format, *, full: bool) -> Iterator[str]:
    """The report piece by piece."""
    session = surveyed(source.session) if source.session is not None else None
    files = {name: surveyed(file) for name, file in source.files}
    facts = overview(source, session, files)
    match form:
        case "json":
            from runner.inspection.json_report import json_report

            yield from json_report(facts, session, files)
        case "html":
            from runner.inspection.html_report import html_report

            yield from html_report(facts, session, files, full=full)
        case "text":
            from runner.inspection.text_report import text_report

            yield from (f"{line}\n" for line in text_report(facts, session, files, full=full))


@contextmanager
def _written_to(output: Path | None) -> Generator[Callable[[str], object]]:
    if output is None:
        yield lambda piece: sys.stdout.buffer.write(piece.encode())
        sys.stdout.buffer.flush()
        return
    with new_file(output, force=True) as file:
        yield lambda piece: file.write(piece.encode())
