"""The process between the runner and a tool at the levels `process` and `landlock`: it watches, and its child confines
itself and becomes the tool.

    <this module's main> OPTION... -- COMMAND...

Being the subreaper of one command, it keeps every descendant findable while the command runs, and ends as its leader
ended. It stays outside the confinement, where tools of the level `landlock` cannot signal it. Refuses to start the
command if one step of the confinement fails.

Each start of a tool pays for its imports, hence only what is needed and cheap: no argparse, json, signal or typing.
"""

import os
import resource
import sys

from runner.isolation import kernel

CANNOT_START = 126
SIGPIPE, SIGKILL, SIGXFSZ = 13, 9, 25


class Recipe:
    """What the options say. Repeatable: `--limit`, `--read`, `--write`."""

    def __init__(self, words: list[str]) -> None:
        self.cwd = "/"
        self.limits: list[tuple[str, int, int]] = []
        self.user: tuple[int, int] | None = None
        self.flags: set[str] = set()
        """`--drop-capabilities`, `--no-network`, `--landlock`."""
        self.readable: list[str] = []
        self.writable: list[str] = []
        self.processes_file: str | None = None
        rest = iter(words)
        for word in rest:
            if word == "--":
                break
            if word == "--cwd":
                self.cwd = next(rest)
            elif word == "--limit":
                name, soft, hard = next(rest).split(":")
                self.limits.append((name, int(soft), int(hard)))
            elif word == "--user":
                uid, _, gid = next(rest).partition(":")
                self.user = (int(uid), int(gid))
            elif word == "--read":
                self.readable.append(next(rest))
            elif word == "--write":
                self.writable.append(next(rest))
            elif word == "--processes-file":
                self.processes_file = next(rest)
            elif word in ("--drop-capabilities", "--no-network", "--landlock"):
                self.flags.add(word)
            else:
                raise ValueError(f"unknown option {word}")
        self.command = list(rest)


def main() -> None:
    recipe = Recipe(sys.argv[1:])
    kernel.set_dumpable(False)
    kernel.become_subreaper()
    kernel.die_with_parent(SIGKILL)
    leader = os.fork()
    if leader == 0:
        become_tool(recipe)
    leave_streams()
    end_like(wait_for(leader))


def become_tool(recipe: Recipe) -> None:
    command = recipe.command
    try:
        confine(recipe)
        os.chdir(recipe.cwd)
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except (OSError, ValueError) as error:
        sys.stderr.write(f"runner: cannot start {command[0]!r}: {error}\n")
        sys.stderr.flush()
    os._exit(CANNOT_START)


def confine(recipe: Recipe) -> None:
    """Each step takes something away, in an order in which the next one is still possible."""
    for number in (SIGPIPE, SIGXFSZ):  # Python ignores them, and a tool would inherit that
        kernel.default_signal(number)
    os.umask(0o022)
    offer_memory()
    if recipe.processes_file is not None:
        write(recipe.processes_file, str(os.getpid()))
    for name, soft, hard in recipe.limits:
        limit(getattr(resource, name), soft, hard)
    ruleset = open_ruleset(recipe) if "--landlock" in recipe.flags else None
    if recipe.user is not None:
        uid, gid = recipe.user
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif "--drop-capabilities" in recipe.flags:
        kernel.drop_capabilities()
    kernel.die_with_parent(SIGKILL)  # after the change of user, which forgets it
    kernel.no_new_privileges()
    if ruleset is not None:
        kernel.landlock_restrict(ruleset)
        os.close(ruleset)
    filter_calls(network="--no-network" not in recipe.flags)


def open_ruleset(recipe: Recipe) -> int:
    from runner.isolation import landlock

    return landlock.open_ruleset(recipe.readable, recipe.writable, network="--no-network" not in recipe.flags)


def filter_calls(*, network: bool) -> None:
    from runner.isolation.call_filter import call_filter

    program = call_filter(os.uname().machine, network=network)
    if program is not None:  # else the start-up attack finds what is open
        kernel.seccomp(program)


def limit(kind: int, soft: int, hard: int) -> None:
    """A stricter limit of the host stays, unless one is root."""
    highest = resource.getrlimit(kind)[1]
    if highest != resource.RLIM_INFINITY and os.geteuid() != 0:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(kind, (soft, hard))


def offer_memory() -> None:
    """Where memory runs out, it is taken from tools."""
    try:
        write("/proc/self/oom_score_adj", "1000")
    except OSError:
        return


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


def end_like(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != SIGKILL:
            kernel.default_signal(number)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
