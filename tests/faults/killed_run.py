"""`python -m tests.faults.killed_run K SIGNAL COUNT …`: `python -m runner …`, which sends itself a signal (a number) at
its K-th counted event: SIGKILL, or SIGSTOP.

Counted is what the interpreter itself reports (`sys.addaudithook`) when the file store, the session log or the freeze
is about to change something on the disk or to lock it, before and after a tool's effect, before a connection, and where
the next step's code is loaded. Reads are not counted: a kill before one leaves what a kill before the next change
leaves. COUNT is a file that gets one byte per event, so that the test knows how many there were.
"""

import inspect
import os
import sys
from pathlib import Path
from types import FrameType

from tests.faults.journal_tool import AFTER, BEFORE

_DISK = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "fcntl.flock"})
_ALWAYS = frozenset({"socket.connect", BEFORE, AFTER})
_STEPS = frozenset({"runner.commit", "settlement.delivery", "runner.question_gate"})
_COUNTED_IN = ("checkpoint/store/file_store.py", "checkpoint/session/log.py", "checkpoint/freeze.py")
_DEPTH = 7


def count_and_signal(at: int, number: int, counted: int) -> None:
    """From here on every counted event adds a byte to the descriptor `counted`; the K-th brings the signal."""
    seen = 0
    made: set[object] = set()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if not (event in _ALWAYS or (event == "import" and arguments[0] in _STEPS)) and not (
            event in _DISK and _changes(event, arguments) and _of_the_product(inspect.currentframe())
        ):
            return
        if event == "os.mkdir":  # each write makes sure of every folder above it; only the first try makes one
            if arguments[0] in made:
                return
            made.add(arguments[0])
        seen += 1
        os.write(counted, b".")
        if seen == at:
            os.kill(os.getpid(), number)

    sys.addaudithook(hook)


def _changes(event: str, arguments: tuple[object, ...]) -> bool:
    """All but an `open` for reading; its third argument holds the flags."""
    flags = arguments[2] if event == "open" else os.O_CREAT
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _of_the_product(frame: FrameType | None) -> bool:
    for _ in range(_DEPTH):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(_COUNTED_IN):
            return True
        frame = frame.f_back
    return False


def main() -> None:
    at, number, counted = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    del sys.argv[1:4]
    file = os.open(counted, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    count_and_signal(at, number, file)
    from runner.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
