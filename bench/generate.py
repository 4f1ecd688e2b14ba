"""Makes the big session that restore and checkpoint are measured with: 20,000 lines, about 100 MB.

A long coding session: turns of one assistant message that calls eight tools, and their outputs of 5 KB, every
eighth not plain ASCII. Compacted every 2,000 lines, the last time so that 1 MB stays active; or never
(`--all-active`). The same seed gives the same bytes. Made by a process of its own
(`python -m bench.generate PATH [--all-active]`), so that the process that measures stays small.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figure import run_module

LINES = 20_000
CALLS_PER_TURN = 8
OUTPUT_BYTES = 5 * 1024
ACTIVE_LINES = 200
COMPACT_EVERY = 2_000
CORPUS_WORDS = 1_000_000
TIME = "2026-01-01T00:00:00.000Z"
NUMBERS = ("input", "output", "cacheRead", "cacheWrite")
USAGE = {
    **dict.fromkeys((*NUMBERS, "totalTokens"), 1000),
    "cost": dict.fromkeys((*NUMBERS, "total"), 0.01),
}
SYLLABLES = ("ba", "co", "di", "fe", "gu", "lo", "ma", "ne", "pi", "ro", "st", "tr", "un", "ver", "xy")
ESCAPED = ["\t", '"quoted"', "\n", "\n"]
FOREIGN = ["é", "—", "ещё", "测试"]


class Text:
    """Words and numbers, about as compressible as program output is."""

    def __init__(self, seed: int, further: list[str]) -> None:
        self._random = random.Random(seed)
        words = ["".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 4))) for _ in range(8_000)]
        words += [str(self._random.randrange(10**6)) for _ in range(2_000)] + further * 100
        self._corpus = " ".join(self._random.choices(words, k=CORPUS_WORDS))

    def take(self, length: int) -> str:
        start = self._random.randrange(len(self._corpus) - length)
        return self._corpus[start : start + length]


class Session:
    """Entries in a row, each the child of the one before."""

    def __init__(self) -> None:
        self._text = Text(1, ESCAPED)
        self._foreign = Text(2, [*ESCAPED, *FOREIGN])
        self.last_id: str | None = None
        self.count = 0

    def entry(self, entry_type: str, **fields: Any) -> dict[str, Any]:
        self.count += 1
        parent, self.last_id = self.last_id, f"{self.count:08x}"
        return {"type": entry_type, "id": self.last_id, "parentId": parent, "timestamp": TIME, **fields}

    def message(self, **fields: Any) -> dict[str, Any]:
        return self.entry("message", message={**fields, "timestamp": 1767225600000})

    def user(self) -> dict[str, Any]:
        return self.message(role="user", content=[{"type": "text", "text": self._text.take(400)}])

    def turn(self) -> Iterator[dict[str, Any]]:
        ids = [f"call_{self.count:06d}_{index}" for index in range(CALLS_PER_TURN)]
        calls = [
            {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": self._text.take(60)}}
            for call in ids
        ]
        answer = {"api": "scripted", "provider": "scripted", "model": "bench", "stopReason": "toolUse"}
        content = [{"type": "text", "text": self._text.take(300)}, *calls]
        yield self.message(role="assistant", content=content, usage=USAGE, **answer)
        for index, call in enumerate(ids):
            text = self._text if index else self._foreign
            output = [{"type": "text", "text": text.take(OUTPUT_BYTES)}]
            yield self.message(
                role="toolResult", toolCallId=call, toolName="bash", content=output, details={}, isError=False
            )

    def compaction(self, first_kept: str) -> dict[str, Any]:
        summary = self._text.take(2_000)
        return self.entry("compaction", summary=summary, firstKeptEntryId=first_kept, tokensBefore=150_000)


def entries(*, all_active: bool) -> Iterator[dict[str, Any]]:
    """The header and all entries; the last is a tool result, as after an interrupted turn."""
    session = Session()
    yield {"type": "session", "version": 3, "id": "bench", "timestamp": TIME, "cwd": "/pipeline/workspace"}
    yield session.user()
    compact_at = {*range(COMPACT_EVERY, LINES - COMPACT_EVERY, COMPACT_EVERY), LINES - ACTIVE_LINES}
    while session.count < LINES - 1:
        start = session.count
        for entry in session.turn():
            if session.count < LINES:
                yield entry
        if not all_active and not compact_at.isdisjoint(range(start, session.count)):
            yield session.compaction(first_kept=f"{start + 1:08x}")


def write_session(path: Path, *, all_active: bool) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for entry in entries(all_active=all_active):
            file.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")


def generate(path: Path, *, all_active: bool) -> None:
    """Write the session to `path`, from a process of its own."""
    run_module("bench.generate", str(path), *(["--all-active"] if all_active else []))


if __name__ == "__main__":
    write_session(Path(sys.argv[1]), all_active="--all-active" in sys.argv[2:])
