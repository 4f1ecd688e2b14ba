"""Numbers, times and states in words, the same in the text and the HTML report. Pure."""

import json
from typing import Any, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.encoding import encode
from runner.inspection.survey import Turn, Usage
from runner.inspection.tree import TreeRow

_BASIS = {
    "checkpoint": "the committed checkpoint",
    "progress": "the progress stored so far (there is no checkpoint)",
    "restore": "what was to be restored (nothing newer is stored)",
    "plain": "the file itself",
    "nothing": "nothing yet: no session is stored",
}


def duration(ms: int | None) -> str:
    if ms is None:
        return "-"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def dollars(value: float) -> str:
    return f"${value:,.4f}" if value < 1 else f"${value:,.2f}"


def amount(count: int, what: str) -> str:
    """`1 entry`, `2 entries`."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"


def basis_words(basis: str) -> str:
    return _BASIS[basis]


def usage_words(usage: Usage) -> str:
    cached = f", cache {usage.cache_read:,} read {usage.cache_write:,} written"
    tokens = f"{usage.total_tokens:,} tokens ({usage.input:,} in, {usage.output:,} out{cached})"
    return f"{tokens}, {dollars(usage.cost_usd)}"


def tools_words(turn: Turn) -> str:
    """The tools of a turn with how long each took; `!` marks a failure, `?` one without a result."""
    marks = {None: "?", True: "!", False: ""}
    return ", ".join(f"{tool.name}{marks[tool.failed]} {duration(tool.ms)}" for tool in turn.tools)


def settlement_words(body: JsonObject) -> str | None:
    """One sentence on a callback body's settlement; None if it has none."""
    settlement: Any = body.get("settlement")
    if not isinstance(settlement, dict):
        return None
    fields = cast("JsonObject", settlement)
    kind, reason, message = (fields.get(name) for name in ("kind", "reason", "message"))
    return f"failure ({reason}): {message}" if kind == "failure" else str(kind)


def row_words(row: TreeRow, title: str, snippet: str, label: str | None) -> str:
    """What a row of the tree says, without its indentation."""
    if row.count > 1:
        return amount(row.count, "entry")
    words = title if not snippet else f"{title}: {snippet}"
    words += f" [{label}]" if label else ""
    words += f" - {row.branches} branches" if row.branches else ""
    return words + (" (in a cycle)" if row.lost else "")


def pretty(value: Any) -> str:
    """JSON over several lines where it is not nested beyond reason; as one line else."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (RecursionError, ValueError):
        return encode(value).decode()
