"""Errors that end the process before or beside a settlement. Each has a machine-readable reason and says what to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.exits import Exit

if TYPE_CHECKING:
    from checkpoint.head import Head


class RunnerError(Exception):
    """Ends the process with `exit_code`; `reason` and the message go into the `settled` line."""

    exit_code = Exit.DEFECT

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Refused(RunnerError):
    """The launch cannot work as asked: spec, secrets, script, workspace, isolation."""

    exit_code = Exit.REFUSED

    def __init__(self, reason: str, problems: Sequence[str]) -> None:
        super().__init__(reason, "; ".join(problems))
        self.problems = tuple(problems)


class UsageError(RunnerError):
    exit_code = Exit.USAGE

    def __init__(self, message: str) -> None:
        super().__init__("usage", message)


class InfrastructureError(RunnerError):
    """The store or the host failed in a way that a relaunch may not meet again."""

    exit_code = Exit.INFRASTRUCTURE


class Superseded(RunnerError):
    """Another process, or the server, decided this pipeline."""

    exit_code = Exit.FENCED


def fenced(head: "Head | None") -> Superseded:
    """The end of a process that finds its pipeline in other hands."""
    owner = f"attempt {head.fields.attempt}" if head is not None else "nobody: its record has vanished"
    return Superseded(
        "fenced",
        f"another process owns this pipeline ({owner}), and this one changed nothing: leave it to that process, or, if "
        "it is dead, relaunch with an attempt above its own",
    )


class StoppedBeforeCommit(RunnerError):
    """A signal came and nothing was committed; the claim, if there is one, is left for a takeover."""

    exit_code = Exit.STOPPED


class Unacknowledged(RunnerError):
    """Committed, but the server did not acknowledge."""

    exit_code = Exit.UNACKNOWLEDGED
