"""`runner export`: the plain session file of any source, its lines byte for byte as they were stored.

A torn last line is cut and a missing line end added, as a restore does, so that Pi loses nothing when it appends.
Refuses to overwrite a file, or to write a part of one.
"""

import sys
from pathlib import Path

from checkpoint.session.index import OnDamage
from checkpoint.session.migration import index_file
from runner.errors import Refused
from runner.exits import Exit
from runner.inspection.new_file import new_file
from runner.inspection.source import StoreOptions, open_shown
from runner.inspection.visible_text import visible_line
from runner.inspection.wording import amount

_PIECE = 1 << 20


def export_session(address: str, dest: Path, options: StoreOptions, *, force: bool, on_damage: OnDamage) -> int:
    """Write the session of `address` to `dest`. Raises RunnerError."""
    if dest.exists() and Path(address).exists() and dest.samefile(address):
        raise Refused("output_is_source", [f"{dest} is the source: name another file"])
    with open_shown(address, options, on_damage=on_damage, files=False) as source:
        session = source.session
        if session is None:
            raise Refused("no_session", [f"{source.address} has no session: there is nothing to export"])
        lines = index_file(session.stored, on_damage) if session.old_version is not None else session.index
        with session.stored.open("rb") as stored, new_file(dest, force=force) as file:
            left = lines.keep_bytes
            while left:
                piece = stored.read(min(left, _PIECE))
                file.write(piece)
                left -= len(piece)
            if lines.needs_newline:
                file.write(b"\n")
    for note in (*source.warnings, *(f"{damage.place}: {damage.what}" for damage in source.damage)):
        sys.stderr.write(f"runner: warning: {visible_line(note)}\n")
    written = f"{amount(lines.entries, 'entry')}, {amount(dest.stat().st_size, 'byte')}"
    sys.stdout.write(f"runner: {visible_line(str(dest))} holds the session ({written})\n")
    return Exit.ACKNOWLEDGED
