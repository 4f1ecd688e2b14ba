"""Who descends from whom, read from /proc, and the end of whole families.

`parse_stat` and `descendants` are pure. One look is never enough, because processes go on forking while one looks: all
are stopped first, until a look finds nobody new, and only then killed.
"""

import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

MAX_LOOKS = 64
PAUSE_S = 0.003


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
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:  # it has ended
        return None
    try:
        return parse_stat(os.read(descriptor, 4096))
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def read_table() -> dict[int, ProcessRow]:
    """Every process that can be seen, by pid; empty where there is no /proc."""
    rows = (read_row(pid) for pid in _pids())
    return {row.pid: row for row in rows if row is not None}


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - many of them, and pathlib takes its time
    except OSError:  # it has ended
        return None


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


def strays(table: Mapping[int, ProcessRow], adopters: Collection[int], known: Collection[int]) -> set[int]:
    """Children of these processes that they did not start: orphans of tools, which came to them as their subreapers.

    What they start otherwise (a credential helper, a watcher) shares their session; what came from a tool never can.
    """
    sessions = {table[pid].session for pid in adopters if pid in table}
    return {
        row.pid
        for row in table.values()
        if row.parent in adopters and row.pid not in known and row.session not in sessions
    }


def users_in_use() -> set[int]:
    """User numbers of all processes that can be seen."""
    owners = (_owner(pid) for pid in _pids())
    return {owner for owner in owners if owner is not None}


def threads_of(uid: int) -> int:
    """How many threads this user has running: what a limit on processes counts."""
    rows = (read_row(pid) for pid in _pids() if _owner(pid) == uid)
    return sum(row.threads for row in rows if row is not None)


def kill_families(roots: Collection[int], known: Collection[int], launcher: Collection[int] = ()) -> bool:
    """One pass: stop everything that descends from the roots, and stray, then kill it; reap the strays.

    The roots themselves are killed last, and reaped by who waits for them; they are stopped as well, or a shell would
    see its command end and say so by its own exit code. `known`: children that are no strays, such as
    the roots of commands that go on. `launcher`: a child that adopts strays too.
    Returns true if there was nobody left but zombies of others.
    """
    adopters, known = {os.getpid(), *launcher}, {*known, *launcher}
    for pid in roots:
        _signal(pid, signal.SIGSTOP)
    stopped: set[int] = set()
    lost: set[int] = set()
    for _ in range(MAX_LOOKS):
        table = read_table()
        lost = strays(table, adopters, known)
        family = (descendants(table, {*roots, *lost}) | lost) - set(roots)
        fresh = {pid for pid in family - stopped if not table[pid].zombie}
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in (*stopped, *roots):
        _signal(pid, signal.SIGKILL)
    reap(lost)
    return not stopped


def end_children(within_s: float) -> None:
    """Kill all children of this process and everything they started: for its own end, from any thread."""
    until = time.monotonic() + within_s
    while (children := own_children()) and time.monotonic() < until:
        kill_families(children, children)
        reap(children)
        time.sleep(PAUSE_S)


def reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
