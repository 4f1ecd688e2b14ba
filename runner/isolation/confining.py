"""What a tool's process does to itself before it becomes the tool: the recipe, and its steps.

Runs in a process that the launcher has forked, possibly as a user who cannot read the interpreter any more: everything
is imported before. Refuses to become the tool if one step fails.

The launcher starts with the first tool of a run, hence only what is needed and cheap: no json, signal or typing.
"""

import fcntl
import os
import resource

from runner.isolation import kernel, landlock
from runner.isolation.call_filter import call_filter

FIRST_DESCRIPTOR = 10
"""The number that the first descriptor beside the standard streams has in the tool's process; the others follow."""
OUT_OF_THE_WAY = 64
SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGCHLD, SIGXFSZ = 1, 2, 9, 13, 15, 17, 25


class Recipe:
    """What the words say. Repeatable: `--limit`, `--env`, `--read`, `--write`. After `--` comes the command."""

    def __init__(self, words: list[str]) -> None:
        self.cwd = "/"
        self.limits: list[tuple[str, int, int]] = []
        self.user: tuple[int, int] | None = None
        self.flags: set[str] = set()
        """`--limits-only` (the command confines itself), `--drop-capabilities`, `--no-network`, `--landlock`."""
        self.readable: list[str] = []
        self.writable: list[str] = []
        self.environment: dict[str, str] = {}
        rest = iter(words)
        for word in rest:
            if word == "--":
                break
            if word == "--cwd":
                self.cwd = next(rest)
            elif word == "--env":
                name, _, value = next(rest).partition("=")
                self.environment[name] = value
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
            elif word in ("--limits-only", "--drop-capabilities", "--no-network", "--landlock"):
                self.flags.add(word)
            else:
                raise ValueError(f"unknown option {word}")
        self.command = list(rest)


def become_tool(recipe: Recipe, descriptors: list[int]) -> None:
    """`descriptors`: standard streams, then the command's own. Returns only by raising OSError or ValueError."""
    take_descriptors(descriptors)
    os.setsid()
    for number in (SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGCHLD, SIGXFSZ):  # ignored here, which a tool would inherit
        kernel.default_signal(number)
    os.umask(0o022)
    confine(recipe)
    os.chdir(recipe.cwd)
    os.execve(recipe.command[0], recipe.command, recipe.environment)  # noqa: S606 - no shell is wanted


def take_descriptors(descriptors: list[int]) -> None:
    """Everything else closes itself when the command begins."""
    for index, descriptor in enumerate([out_of_the_way(each) for each in descriptors]):
        os.dup2(descriptor, index if index < 3 else FIRST_DESCRIPTOR + index - 3)


def out_of_the_way(descriptor: int) -> int:
    """The same under a number that nothing else will get."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)


def confine(recipe: Recipe) -> None:
    """Each step takes something away, in an order in which the next one is still possible."""
    for name, soft, hard in recipe.limits:
        limit(getattr(resource, name), soft, hard)
    if "--limits-only" in recipe.flags:
        kernel.die_with_parent(SIGKILL)
        return
    network = "--no-network" not in recipe.flags
    ruleset: int | None = None
    if "--landlock" in recipe.flags:
        ruleset = landlock.open_ruleset(recipe.readable, recipe.writable, network=network)
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
    program = call_filter(os.uname().machine, network=network)
    if program is not None:  # else the start-up attack finds what is open
        kernel.seccomp(program)


def limit(kind: int, soft: int, hard: int) -> None:
    """A stricter limit of the host stays, unless one is root."""
    highest = resource.getrlimit(kind)[1]
    if highest != resource.RLIM_INFINITY and os.geteuid() != 0:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(kind, (soft, hard))
