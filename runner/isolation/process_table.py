"""Who descends from whom, read from /proc, and the end of whole families.

`parse_stat` and `descendants` are pure. One look is never enough, because processes go on forking while one looks: all
are stopped first, until a look finds nobody new, and only then killed.
"""

import os
import signal
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MAX_LOOKS = 64


@dataclass(frozen=True, slots=True)
class ProcessRow:
    pid: int
    parent: int
    session: int
    threads: int
    started: int
    """Clock ticks since the machine started: with the pid it tells one process from a later one."""
    zombie: bool


def parse_stat(text: bytes) -> ProcessRow:
    """One `/proc/<pid>/stat`. The program's name in it may hold spaces, parentheses and newlines. Raises ValueError."""
    head, _, rest = text.rpartition(b")")
    fields = rest.split()
    if len(fields) < 20:
        raise ValueError("too few fields")
    return ProcessRow(
        pid=int(head.partition(b" ")[0]),
        parent=int(fields[1]),
        session=int(fields[3]),
        threads=int(fields[17]),
        started=int(fields[19]),
        zombie=fields[0] in (b"Z", b"X"),
    )


def read_row(pid: int) -> ProcessRow | None:
    try:
        return parse_stat((PROC / str(pid) / "stat").read_bytes())
    except (OSError, ValueError):  # it has ended
        return None


def read_table() -> dict[int, ProcessRow]:
    """Every process that can be seen, by pid; empty where there is no /proc."""
    try:
        names = os.listdir(PROC)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return {}
    rows = (read_row(int(name)) for name in names if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def descendants(table: Mapping[int, ProcessRow], roots: Iterable[int]) -> set[int]:
    """All that descend from the roots, without the roots."""
    children: dict[int, list[int]] = {}
    for row in table.values():
        children.setdefault(row.parent, []).append(row.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def own_children() -> set[int]:
    """Children that this process has now."""
    me = os.getpid()
    return {row.pid for row in read_table().values() if row.parent == me}


def strays(table: Mapping[int, ProcessRow], me: int, known: Collection[int]) -> set[int]:
    """Children of this process that it did not start: orphans of tools, which came to it as their subreaper.

    What the process starts otherwise (a credential helper) shares its session; what came from a tool never can.
    """
    own = table.get(me)
    if own is None:
        return set()
    return {
        row.pid for row in table.values() if row.parent == me and row.pid not in known and row.session != own.session
    }


def users_in_use() -> set[int]:
    """User numbers of all processes that can be seen."""
    found: set[int] = set()
    for pid in read_table():
        with suppress(OSError):
            found.add((PROC / str(pid)).stat().st_uid)
    return found


def threads_of(uid: int) -> int:
    """How many threads this user has running: what a limit on processes counts."""
    count = 0
    for row in read_table().values():
        with suppress(OSError):
            if (PROC / str(row.pid)).stat().st_uid == uid:
                count += row.threads
    return count


def kill_families(roots: Collection[int], known: Collection[int]) -> bool:
    """One pass: stop everything that descends from the roots, and stray, then kill it; reap the strays.

    The roots themselves are killed last and reaped by who waits for them. `known`: children that are no strays, such as
    the roots of commands that go on.
    Returns true if there was nobody left but zombies of others.
    """
    me = os.getpid()
    stopped: set[int] = set()
    for _ in range(MAX_LOOKS):
        table = read_table()
        lost = strays(table, me, known)
        family = (descendants(table, {*roots, *lost}) | lost) - set(roots)
        fresh = {pid for pid in family - stopped if not table[pid].zombie}
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, signal.SIGKILL)
    for pid in roots:
        _signal(pid, signal.SIGKILL)
    reap(strays(read_table(), me, known))
    return not stopped


def reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
