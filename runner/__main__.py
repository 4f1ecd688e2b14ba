"""`runner`: the first lines of the process. Signals are caught before anything heavy is imported."""

import sys

from runner.signals import StopLatch


def main() -> int:
    stop = StopLatch()
    stop.install()
    from runner.cli import run_command

    return run_command(sys.argv[1:], stop)


if __name__ == "__main__":
    sys.exit(main())
