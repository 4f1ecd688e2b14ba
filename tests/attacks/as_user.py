"""Start a Python program as root or as an ordinary user, with an interpreter that this user can reach.

Where Python is installed below a folder that only root may enter (such as /root), the program gets a mount namespace in
which that folder holds nothing but Python. Everything is gone with the process.
"""

import os
import shutil
import sys
from pathlib import Path

ORDINARY = 1000
_REACHABLE = """
set -e
closed=$1 python=$2; shift 2
room=$(mktemp -d)
mount -t tmpfs -o mode=0755 tmpfs "$room"
mkdir -p "$room/${python#"$closed"}"
mount --bind "$python" "$room/${python#"$closed"}"
mount --rbind "$room" "$closed"
exec "$@"
"""


def closed_ancestor(path: Path) -> Path | None:
    """The outermost folder on the way that only its owner may enter."""
    for folder in reversed(path.resolve().parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def command_as(user: str, program: list[str]) -> list[str] | str:
    """The whole command; or, as text, why this machine cannot do it."""
    python = [sys.executable, *program]
    if user == "root":
        return in_reach(python) if os.geteuid() == 0 else "the tests do not run as root"
    if os.geteuid() != 0:
        return python
    if shutil.which("setpriv") is None:
        return "there is no setpriv to become an ordinary user with"
    change = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--bounding-set=-all"]
    return in_reach([*change, *python])


def in_reach(command: list[str]) -> list[str] | str:
    closed = closed_ancestor(Path(sys.base_prefix))
    if closed is None:
        return command
    if shutil.which("unshare") is None:
        return f"Python lies in {closed}, which only its owner may enter"
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        _REACHABLE,
        "sh",
        str(closed),
        str(Path(sys.base_prefix).resolve()),
        *command,
    ]
