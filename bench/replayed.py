"""The measured processes of the replay benchmark, the start aside: a session of one turn is replayed before.

`python -m bench.replayed make PATH TURNS TURNS_PER_RUN | parse PATH | replay PATH`: the last two print milliseconds.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.generate import ESCAPED, TIME, Session, Text
from runner.inspection.source import StoreOptions
from runner.replay.command import ReplayOptions, replay_source

USAGE = {
    **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 1000),
    "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0.01),
}


def make(path: Path, turns: int, turns_per_run: int) -> None:
    """Turns of one call with 2 KB of output; the last of each run is an answer."""
    session, text = Session(), Text(1, ESCAPED)
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "bench", "timestamp": TIME, "cwd": "/pipeline/workspace"}
    ]
    common = {"role": "assistant", "api": "scripted", "provider": "scripted", "model": "bench", "usage": USAGE}
    for turn in range(turns):
        if turn % turns_per_run == 0:
            lines.append(session.user())
        if (turn + 1) % turns_per_run == 0:
            content = [{"type": "text", "text": text.take(300)}]
            lines.append(session.message(**common, content=content, stopReason="stop"))
            continue
        call = {"type": "toolCall", "id": f"call_{turn}", "name": "bash", "arguments": {"command": text.take(60)}}
        lines.append(session.message(**common, content=[call], stopReason="toolUse"))
        output = [{"type": "text", "text": text.take(2000)}]
        result = {"role": "toolResult", "toolCallId": f"call_{turn}", "toolName": "bash", "content": output}
        lines.append(session.message(**result, details={}, isError=False))
    written = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path.write_text(written, encoding="utf-8")


def parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def replay(path: Path) -> None:
    report = replay_source(ReplayOptions(source=str(path), store=StoreOptions(path.parent, {})))
    if not report.same or not report.replayed.turns:
        sys.exit("the session was not replayed as it was recorded")


def measure(work: Callable[[Path], None], path: Path) -> None:
    started = time.perf_counter()
    work(path)
    print(json.dumps({"ms": (time.perf_counter() - started) * 1000}))


def main() -> None:
    match sys.argv[1:]:
        case ["make", path, turns, turns_per_run]:
            make(Path(path), int(turns), int(turns_per_run))
        case ["parse", path]:
            measure(parse, Path(path))
        case ["replay", path]:
            with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
                make(Path(folder) / "short.jsonl", 2, 2)
                replay(Path(folder) / "short.jsonl")
            measure(replay, Path(path))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
