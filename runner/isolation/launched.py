"""What the levels `process` and `landlock` share: the recipe for the launcher (launcher.py)."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.isolation.cgroup import PidsGroup
from runner.isolation.confinement import Wrapped
from runner.isolation.limits import Limits, rlimits
from runner.isolation.process_table import threads_of
from runner.isolation.tool_user import ToolUser

LAUNCHER = str(Path(__file__).with_name("launcher.py"))


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    limits: Limits
    network: bool
    user: ToolUser | None
    """Whom tools run as; None: as whom the runner runs, without capabilities."""
    group: PidsGroup | None


def through_launcher(
    settings: LaunchSettings, command: Sequence[str], cwd: str, landlock: dict[str, list[str]] | None
) -> Wrapped:
    user = settings.user
    running = threads_of(user.uid if user is not None else os.getuid())
    recipe: dict[str, Any] = {
        "cwd": cwd,
        "limits": rlimits(settings.limits, running),
        "user": None if user is None else [user.uid, user.gid],
        "drop_capabilities": os.geteuid() == 0,
        "no_network": not settings.network,
        "landlock": landlock,
        "processes_file": None if settings.group is None else settings.group.processes_file,
    }
    python = (sys.executable, "-I", "-S", LAUNCHER, json.dumps(recipe))
    return Wrapped((*python, *command), "/")


def who(user: ToolUser | None) -> str:
    if user is not None:
        return f"as user {user.uid}"
    return "as root without capabilities" if os.geteuid() == 0 else f"as the runner's user {os.getuid()}"
