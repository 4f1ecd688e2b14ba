"""What the levels `process` and `landlock` share: the recipe for the launcher (launcher.py)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from runner.isolation.cgroup import PidsGroup
from runner.isolation.confinement import Wrapped
from runner.isolation.limits import Limits, rlimits
from runner.isolation.own_python import run_module
from runner.isolation.process_table import threads_of
from runner.isolation.tool_user import ToolUser

LAUNCHER = tuple(run_module("launcher"))


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


def through_launcher(settings: LaunchSettings, command: Sequence[str], cwd: str, paths: Paths | None) -> Wrapped:
    user = settings.user
    options = ["--cwd", cwd]
    for name, (soft, hard) in rlimits(settings.limits, others_running(user)).items():
        options += ["--limit", f"{name}:{soft}:{hard}"]
    if user is not None:
        options += ["--user", f"{user.uid}:{user.gid}"]
    elif os.geteuid() == 0:
        options.append("--drop-capabilities")
    if settings.group is not None:
        options += ["--processes-file", settings.group.processes_file]
    if not settings.network:
        options.append("--no-network")
    if paths is not None:
        options.append("--landlock")
        for path in paths.readable:
            options += ["--read", path]
        for path in paths.writable:
            options += ["--write", path]
    return Wrapped((*LAUNCHER, *options, "--", *command), "/")


def others_running(user: ToolUser | None) -> int:
    """Threads of the tools' user that the limit on processes counts although they are no tool's."""
    if user is None:
        return threads_of(os.getuid())
    return 0 if user.of_the_run else threads_of(user.uid)


def who(user: ToolUser | None) -> str:
    if user is not None:
        return f"as user {user.uid}"
    return "as root without capabilities" if os.geteuid() == 0 else f"as the runner's user {os.getuid()}"
