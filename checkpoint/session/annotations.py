"""What people have said about a session: its name and the labels of its entries. For showing, not for
running.

Refuses to be part of a restore: it decodes entries of the whole file, on branches that are not active too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.session.context import entry_reader
from checkpoint.session.index import SessionIndex
from checkpoint.session.javascript import UNDEFINED, to_text, trim, truthy


@dataclass(frozen=True, slots=True)
class Annotations:
    """`name`: None if the session has none. `labels`: from an entry's id to its label."""

    name: str | None
    labels: dict[str, Any]


def read_annotations(path: Path, index: SessionIndex) -> Annotations:
    """The last name and label of each kind count, in file order; empty ones clear. Raises SessionDamaged,
    OSError.
    """
    name: str | None = None
    labels: dict[str, Any] = {}
    with path.open("rb") as file:
        read = entry_reader(file.fileno(), index)
        for position, head in enumerate(index.heads):
            if head.type == "session_info":
                given = read(position).get("name")
                name = trim(given) or None if isinstance(given, str) else None
            elif head.type == "label":
                entry = read(position)
                target = to_text(entry.get("targetId", UNDEFINED))
                labels.pop(target, None)
                if truthy(label := entry.get("label")):
                    labels[target] = label
    return Annotations(name, labels)
