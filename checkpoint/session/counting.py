"""What a whole session has used, for limits that count it: turns, tokens, cost of all branches.

Only needed where no manifest tells it (a plain Pi session), because it looks at every line of the file.
"""

from pathlib import Path

import msgspec

from checkpoint.manifest import Counters


class _Cost(msgspec.Struct, gc=False):
    total: float = 0.0


class _Usage(msgspec.Struct, gc=False):
    total_tokens: float = msgspec.field(default=0.0, name="totalTokens")
    cost: _Cost = msgspec.field(default_factory=_Cost)


class _Message(msgspec.Struct, gc=False):
    role: str = ""
    usage: _Usage | None = None


class _Entry(msgspec.Struct, gc=False):
    type: str = ""
    message: _Message | None = None


def count_session(path: Path, size: int) -> Counters:
    """Counts the first `size` bytes of a log. Every assistant message is a turn and was paid for, a failed one too;
    lines in another shape count nothing.
    """
    decode = msgspec.json.Decoder(_Entry).decode
    turns, tokens, cost = 0, 0.0, 0.0
    with path.open("rb") as file:
        for line in file:
            size -= len(line)
            if size < 0:
                break
            if b'"assistant"' not in line:
                continue
            try:
                message = decode(line).message
            except (msgspec.DecodeError, RecursionError):
                continue
            if message is None or message.role != "assistant":
                continue
            turns += 1
            if message.usage is not None:
                tokens += max(0.0, message.usage.total_tokens)
                cost += max(0.0, message.usage.cost.total)
    return Counters(turns=turns, total_tokens=_whole(tokens), cost_usd=cost if cost < 1e15 else 0.0)


def _whole(value: float) -> int:
    return int(value) if value < 1e15 else 0
