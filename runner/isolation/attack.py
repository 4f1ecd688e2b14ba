"""The start-up attack: run as a tool would be, it tries what no tool may be able to do, and tells what it managed.

    <this module's main> ORDERS

It is given no secret: what it could read it hands to the runner, which looks for its secrets in it (self_test.py). It
changes nothing: files are made without a name, signals are of number 0, tracing ends with this process. Standard
library only. Prints one JSON object: `managed` {attack: what exactly}, `texts` [[where, text]], `unusable` (why no tool
could work here, or null).
"""

# An attack must not pay for pathlib, which would also tidy its paths.
# ruff: noqa: PTH108, PTH112, PTH113, PTH115, PTH118, PTH208

import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

LARGEST_FILE = 64 * 1024
MOST_BYTES = 4 * 1024 * 1024
MOST_FILES = 400
SEARCH_S = 0.03
_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17

Orders = dict[str, Any]
"""`runner` {pid, started}; `hidden` [[attack, path]]; `program` [path]; `search` [folder]; `workspace`; `temporary`;
`network` {tcp, udp, abstract} | null; `limits` {name: hard value}; `processes`."""


class Report:
    def __init__(self) -> None:
        self.managed: dict[str, str] = {}
        self.texts: list[tuple[str, str]] = []
        self._bytes = 0

    def tried(self, attack: str, attempt: Callable[[], str | None]) -> None:
        """Note what an attempt managed; None or an error is a failed attempt."""
        if attack in self.managed:
            return
        with suppress(OSError, ValueError):
            evidence = attempt()
            if evidence is not None:
                self.managed[attack] = evidence

    def keep(self, where: str, data: bytes) -> None:
        if data and self._bytes < MOST_BYTES:
            self._bytes += len(data)
            self.texts.append((where, data.decode("latin-1")))


def main() -> None:
    orders: Orders = json.loads(sys.argv[1])
    report = Report()
    attack_processes(report, orders["runner"])
    for attack, path in orders["hidden"]:
        report.tried(attack, lambda path=path: reach(path))
    for path in orders["program"]:
        report.tried("program_writable", lambda path=path: writable(path))
    search(report, orders["search"])
    if orders["network"] is not None:
        attack_network(report, orders["network"])
    attack_limits(report, orders["limits"], orders["processes"])
    unusable = find_unusable(orders)
    sys.stdout.write(json.dumps({"managed": report.managed, "texts": report.texts, "unusable": unusable}) + "\n")
    sys.stdout.flush()
    stay_behind()


def read(path: str, most: int = LARGEST_FILE) -> bytes:
    """Never blocks on a pipe, and never follows into a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


# --- the runner and other processes --------------------------------------------------------------------------


def attack_processes(report: Report, runner: dict[str, int]) -> None:
    own = str(os.getpid())
    with suppress(OSError):
        report.keep("its own environment", read("/proc/self/environ"))
    for pid in processes():
        if pid == own:
            continue
        for name in ("environ", "cmdline"):
            with suppress(OSError):
                report.keep(f"/proc/{pid}/{name}", read(f"/proc/{pid}/{name}"))
    pid = runner["pid"]
    if started(pid) != runner["started"]:
        return  # another process, or none, has this number here
    folder = f"/proc/{pid}"
    report.managed["runner_visible"] = f"{folder} is there"
    report.tried("runner_environment", lambda: f"{folder}/environ" if read(f"{folder}/environ") else None)
    report.tried("runner_memory", lambda: opened(f"{folder}/mem"))
    report.tried("runner_memory", lambda: f"{folder}/maps" if read(f"{folder}/maps") else None)
    for number in range(64):
        report.tried("runner_descriptors", lambda number=number: os.readlink(f"{folder}/fd/{number}"))
        report.tried("runner_descriptors", lambda number=number: opened(f"{folder}/fd/{number}"))
    report.tried("runner_files", lambda: opened(os.path.join(folder, "root", "")))
    for thread in threads(folder):
        report.tried("runner_signals", lambda thread=thread: os.kill(thread, 0) or f"signal to {thread}")
    report.tried("runner_traced", lambda: trace(pid))


def processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def started(pid: int) -> int | None:
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def threads(folder: str) -> list[int]:
    """A signal to any thread is one to the process."""
    try:
        return [int(name) for name in os.listdir(f"{folder}/task")]
    except OSError:
        return [int(folder.rpartition("/")[2])]


def opened(path: str) -> str:
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return path


def trace(pid: int) -> str | None:
    import ctypes

    libc = ctypes.CDLL(None)
    if libc.ptrace(ctypes.c_long(_PTRACE_SEIZE), ctypes.c_long(pid), None, None) != 0:
        return None
    libc.ptrace(ctypes.c_long(_PTRACE_DETACH), ctypes.c_long(pid), None, None)
    return f"traced {pid}"


# --- files ---------------------------------------------------------------------------------------------------


def reach(path: str) -> str | None:
    """Whether a hidden place can be read, listed (unless it is empty) or written to."""
    with suppress(OSError):
        if os.path.isdir(path):
            if os.listdir(path):
                return f"lists {path}"
        else:
            read(path, 1)
            return f"reads {path}"
    return writable(path)


def writable(path: str) -> str | None:
    if not os.path.isdir(path):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return f"writes {path}"
    for folder in (path, *(entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))):
        with suppress(OSError):
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
            return f"makes files in {folder}"
    for entry in os.scandir(path):
        with suppress(OSError):
            if entry.is_file():
                os.close(os.open(entry.path, os.O_WRONLY | os.O_NONBLOCK))
                return f"writes {entry.path}"
    return None


def search(report: Report, folders: Iterable[str]) -> None:
    """Hand over small files from where secrets tend to lie about. Bounded in files, bytes and time."""
    until = time.monotonic() + SEARCH_S
    for count, path in enumerate(files(folders)):
        if count >= MOST_FILES or time.monotonic() > until:
            return
        with suppress(OSError):
            report.keep(path, read(path))


def files(folders: Iterable[str]) -> Iterator[str]:
    """Regular files, level by level, so that a large folder does not use up the search."""
    level = list(folders)
    for path in level:
        if os.path.isfile(path):
            yield path
    for _ in range(3):
        deeper: list[str] = []
        for folder in level:
            with suppress(OSError):
                for entry in os.scandir(folder):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in (".git", "node_modules", "__pycache__"):
                            deeper.append(entry.path)
                    elif entry.is_file() and entry.stat().st_size <= LARGEST_FILE:
                        yield entry.path
        level = deeper


# --- network -------------------------------------------------------------------------------------------------


def attack_network(report: Report, targets: dict[str, Any]) -> None:
    """The runner listens at these targets, on loopback: nothing is sent anywhere else."""

    def connect() -> str:
        with socket.create_connection(("127.0.0.1", targets["tcp"]), 1.0):
            return "a TCP connection"

    def send() -> None:
        # Whether it arrives is seen by the runner.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"attack", ("127.0.0.1", targets["udp"]))

    def vsock() -> str | None:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM):
            return "a socket to the host of this virtual machine"

    def abstract() -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local:
            local.settimeout(1.0)
            local.connect("\0" + targets["abstract"])
            return "an abstract socket"

    report.tried("network", connect)
    report.tried("network", send)
    if hasattr(socket, "AF_VSOCK"):
        report.tried("network", vsock)
    report.tried("abstract_sockets", abstract)


# --- limits --------------------------------------------------------------------------------------------------


def attack_limits(report: Report, limits: dict[str, int], processes: int) -> None:
    for name, most in limits.items():
        hard = resource.getrlimit(getattr(resource, name))[1]
        if hard < 0 or hard > most:
            report.managed["limits"] = f"{name} is {hard}"
    report.tried("process_limit", one_too_many)
    if "process_limit" in report.managed and one_more_than(processes) is None:
        del report.managed["process_limit"]  # a control group holds what the limit per user does not
        report.tried("process_limit", leave_control_group)


def one_too_many() -> str | None:
    """Fork although the limit is reached: root may."""
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, before[1]))
    try:
        child = os.fork()
    except OSError:
        return None
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "a process over the limit"


def one_more_than(processes: int) -> str | None:
    """Really start too many, each waiting for the end of this pipe."""
    waiting, held = os.pipe()
    try:
        for _ in range(processes):
            if os.fork() == 0:
                os.close(held)
                os.read(waiting, 1)
                os._exit(0)
    except OSError:
        return None
    else:
        return f"{processes} processes beside itself"
    finally:
        os.close(held)
        os.close(waiting)
        with suppress(ChildProcessError):
            while True:
                os.wait()


def leave_control_group() -> str | None:
    """Open what lifts the group's limit, or takes processes into another group: root's files, which root may write to
    also without capabilities.
    """
    from runner.isolation.cgroup import pids_parents  # seldom needed, and pathlib is dear

    own = pids_parents(read("/proc/self/cgroup").decode().splitlines())
    for path in [*(folder / "pids.max" for folder in own), *(folder.parent / "cgroup.procs" for folder in own)]:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            return f"{path} can be written to"
    return None


def stay_behind() -> None:
    """Leave a process that hides as well as it can; it holds standard output open, by which the runner sees it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)


# --- what must work ------------------------------------------------------------------------------------------


def find_unusable(orders: Orders) -> str | None:
    """Why tools could not work here; None if they can."""
    for folder in (orders["workspace"], orders["temporary"]):
        path = os.path.join(folder, f".runner-{os.getpid()}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            os.unlink(path)
        except OSError as error:
            return f"tools cannot write in {folder} ({error.strerror})"
    return None
