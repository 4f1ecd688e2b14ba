"""What the levels above `none` share: the steps that the launcher's child takes (confining.py), as options."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from runner.isolation.cgroup import PidsGroup
from runner.isolation.confinement import Wrapped
from runner.isolation.limits import Limits, rlimits
from runner.isolation.process_table import threads_of
from runner.isolation.tool_user import ToolUser


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    limits: Limits
    network: bool
    user: ToolUser | None
    """Whom tools run as; None: as whom the runner runs, without capabilities."""
    group: PidsGroup | None


@dataclass(frozen=True, slots=True)
class Paths:
    """What Landlock leaves: everything else does not exist for a tool."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]


def confined(settings: LaunchSettings, command: Sequence[str], cwd: str, paths: Paths | None) -> Wrapped:
    """The command confines itself by nothing: all is done before it begins."""
    user = settings.user
    steps = ["--cwd", cwd, *limit_steps(settings)]
    if user is not None:
        steps += ["--user", f"{user.uid}:{user.gid}"]
    elif os.geteuid() == 0:
        steps.append("--drop-capabilities")
    if not settings.network:
        steps.append("--no-network")
    if paths is not None:
        steps.append("--landlock")
        for path in paths.readable:
            steps += ["--read", path]
        for path in paths.writable:
            steps += ["--write", path]
    return Wrapped(tuple(command), cwd, steps=tuple(steps), group=settings.group)


def limit_steps(settings: LaunchSettings) -> list[str]:
    steps: list[str] = []
    for name, (soft, hard) in rlimits(settings.limits, others_running(settings.user)).items():
        steps += ["--limit", f"{name}:{soft}:{hard}"]
    return steps


def others_running(user: ToolUser | None) -> int:
    """Threads of the tools' user that the limit on processes counts although they are no tool's."""
    uid = os.getuid() if user is None else user.uid
    if uid == 0 or (user is not None and user.of_the_run):  # no such limit binds root
        return 0
    return threads_of(uid)


def who(user: ToolUser | None) -> str:
    if user is not None:
        return f"as user {user.uid}"
    return "as root without capabilities" if os.geteuid() == 0 else f"as the runner's user {os.getuid()}"
