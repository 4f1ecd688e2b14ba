"""The process between the runner and a tool at the levels `process` and `landlock`: it watches, and its child confines
itself and becomes the tool.

    python -I -S launcher.py RECIPE COMMAND...

Being the subreaper of one command, it keeps every descendant findable while the command runs, and ends as the command's
leader ended. It stays outside the confinement, where tools of the level `landlock` cannot signal it. Standard library
only; refuses to start the command if one step of the confinement fails.
"""

import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

CANNOT_START = 126
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

Recipe = dict[str, Any]
"""`cwd`; `limits` {name: [soft, hard]}; `user` [uid, gid] | null; `drop_capabilities`; `no_network`; `landlock`
{`readable`, `writable`} | null; `processes_file` (of a cgroup) | null."""


def main() -> NoReturn:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100,PTH120
    from runner.isolation import kernel

    recipe: Recipe = json.loads(sys.argv[1])
    command = sys.argv[2:]
    kernel.set_dumpable(False)
    kernel.become_subreaper()
    kernel.die_with_parent(signal.SIGKILL)
    leader = os.fork()
    if leader == 0:
        become_tool(recipe, command)
    leave_streams()
    end_like(wait_for(leader))


def become_tool(recipe: Recipe, command: list[str]) -> NoReturn:
    try:
        confine(recipe)
        os.chdir(recipe["cwd"])
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except (OSError, ValueError) as error:
        sys.stderr.write(f"runner: cannot start {command[0]!r}: {error}\n")
        sys.stderr.flush()
    os._exit(CANNOT_START)


def confine(recipe: Recipe) -> None:
    """Each step takes something away, in an order in which the next one is still possible."""
    from runner.isolation import kernel, landlock
    from runner.isolation.limits import within_hard_limit
    from runner.isolation.network_filter import network_filter

    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    with suppress(OSError):  # so that memory, where it runs out, is taken from tools
        _write("/proc/self/oom_score_adj", "1000")
    if recipe["processes_file"] is not None:
        _write(recipe["processes_file"], str(os.getpid()))
    for name, wanted in recipe["limits"].items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1] if os.geteuid() else -1
        resource.setrlimit(kind, within_hard_limit((wanted[0], wanted[1]), hard))
    rules = recipe["landlock"]
    ruleset = None
    if rules is not None:
        ruleset = landlock.open_ruleset(rules["readable"], rules["writable"], network=not recipe["no_network"])
    if recipe["user"] is not None:
        uid, gid = recipe["user"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif recipe["drop_capabilities"]:
        kernel.drop_capabilities()
    kernel.die_with_parent(signal.SIGKILL)  # after the change of user, which forgets it
    kernel.no_new_privileges()
    if ruleset is not None:
        kernel.landlock_restrict(ruleset)
        os.close(ruleset)
    program = network_filter(os.uname().machine) if recipe["no_network"] else None
    if program is not None:
        kernel.seccomp(program)


def leave_streams() -> None:
    """Hold none of the tool's pipes open: their end is the end of the tool's processes."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def wait_for(leader: int) -> int:
    """Reap orphans until the leader ends; returns its wait status."""
    while True:
        pid, status = os.wait()
        if pid == leader:
            return status


def end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
