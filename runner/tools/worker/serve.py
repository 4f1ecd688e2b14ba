"""The worker's loop: a JSON line in, a JSON line out, one call at a time.

Request `{"id", "tool", "args", "seconds"}`; answer `{"id", "result"}` or `{"id", "error"}`, where the error is a
sentence for the model. A call that takes longer than `seconds` is interrupted. Nothing but answers reaches the output:
the descriptor is taken away from whatever else might print.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from runner.tools.worker.places import Places, Refusal, os_error_text, shown
from runner.tools.worker.reading import read
from runner.tools.worker.searching import find, grep, ls
from runner.tools.worker.writing import edit, write

TOOLS: dict[str, Callable[[Places, dict[str, Any]], dict[str, Any]]] = {
    "read": read,
    "write": write,
    "edit": edit,
    "grep": grep,
    "find": find,
    "ls": ls,
}


class OutOfTime(BaseException):
    """Raised by the alarm, wherever the call is. No Exception, so that nothing on the way takes it for an error."""


def _on_alarm(_signal: int, _frame: FrameType | None) -> None:
    raise OutOfTime


def main(workspace: str, readable: list[str]) -> None:
    """Serve until the input ends."""
    output = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    signal.signal(signal.SIGALRM, _on_alarm)
    places = Places(workspace, readable)
    for line in sys.stdin.buffer:
        output.write(json.dumps(answer(places, json.loads(line))).encode("ascii") + b"\n")
        output.flush()


def answer(places: Places, request: dict[str, Any]) -> dict[str, Any]:
    """What a request comes to; whatever goes wrong is part of it."""
    seconds = request["seconds"]
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return {"id": request["id"], "result": TOOLS[request["tool"]](places, request["args"])}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Refusal as refusal:
        error = str(refusal)
    except OutOfTime:
        error = f"{request['tool']} took longer than {seconds:g} s and was stopped"
    except OSError as failure:
        name = shown(os.fspath(failure.filename)) if isinstance(failure.filename, str) else request["args"].get("path")
        error = os_error_text(failure, places.shown(name) if name else "The path")
    except MemoryError:
        error = f"{request['tool']} needs more memory than tools may use"
    except Exception as failure:  # noqa: BLE001 - a defect in one call must not end the worker
        error = f"{request['tool']} failed ({type(failure).__name__}: {failure})"
    return {"id": request["id"], "error": error}
