"""`runner`: the first lines of the process. Signals are caught before anything heavy is imported."""

import os
import sys
from typing import NoReturn

from runner.signals import StopLatch


def main() -> NoReturn:
    stop = StopLatch()
    stop.install()
    from runner.cli import run_command

    exit_code = run_command(sys.argv[1:], stop)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a store call that was left behind at the end of its time must not keep the process alive.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
