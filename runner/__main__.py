"""`runner`: the first lines of the process. Signals are caught before anything heavy is imported."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from runner.isolation.hardening import harden_process
from runner.signals import StopLatch


def main() -> NoReturn:
    stop = StopLatch()
    stop.install()
    open_standard_streams()
    if sys.argv[1:2] in (["run"], ["deliver"], ["reconcile"], ["serve"]):  # before a secret is read
        harden_process()
    from runner.cli import run_command

    exit_code = run_command(sys.argv[1:], stop)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has left
            stream.flush()
    # Not sys.exit: a store call that was left behind at the end of its time must not keep the process alive.
    os._exit(exit_code)


def open_standard_streams() -> None:
    """Put the null device where a standard stream is closed. Else the next file that is opened, such as the session
    log, would take its number, and get what is meant for the stream.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
