"""The attacks, as a tool would make them: `python inside.py NAME ORDERS` prints what it managed, or nothing.

Runs inside the confinement, from a copy in the workspace: standard library only, and it is told paths and numbers, no
secrets. A secret is recognised by how it begins.
"""

# pathlib would tidy the paths that are the attack.
# ruff: noqa: PTH102, PTH104, PTH108, PTH110, PTH112, PTH115, PTH118, PTH119, PTH120, PTH123, PTH202, PTH208, PTH211

import ctypes
import errno
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

SECRET_BEGINS = "attack-secret-"
METADATA = ("169.254.169.254", 80)

Orders = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)


def first(attempts: Iterable[Callable[[], str | None]]) -> str | None:
    for attempt in attempts:
        with suppress(OSError, ValueError, MemoryError):
            managed = attempt()
            if managed is not None:
                return managed
    return None


def content(path: str) -> str | None:
    with open(path, "rb") as file:
        return f"read {path}" if file.read(1) else None


def secret_in(path: str) -> str | None:
    with open(path, "rb") as file:
        return f"secret in {path}" if SECRET_BEGINS.encode() in file.read(1_000_000) else None


def pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


# --- the runner and other processes ------------------------------------------------------------------------------


def read_environments(orders: Orders) -> str | None:
    places = [f"/proc/{pid}/{name}" for pid in pids() for name in ("environ", "cmdline")]
    return first(lambda place=place: secret_in(place) for place in places)


def read_runner_memory(orders: Orders) -> str | None:
    def by_call() -> str | None:
        buffer = ctypes.create_string_buffer(16)
        here = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)
        there = (ctypes.c_void_p * 2)(4096, 16)
        read = libc.process_vm_readv(orders["runner"], here, 1, there, 1, 0)
        return "process_vm_readv" if read >= 0 or ctypes.get_errno() == errno.EFAULT else None

    if not is_runner(orders):
        return None
    folder = f"/proc/{orders['runner']}"
    return first([lambda: content(f"{folder}/maps"), lambda: content(f"{folder}/smaps"), by_call])


def read_runner_descriptors(orders: Orders) -> str | None:
    def taken(number: int) -> str | None:
        descriptor = libc.syscall(434, orders["runner"], 0)  # pidfd_open
        if descriptor < 0 or libc.syscall(438, descriptor, number, 0) < 0:  # pidfd_getfd
            return None
        return f"took descriptor {number}"

    if not is_runner(orders):
        return None
    links = [f"/proc/{orders['runner']}/fd/{number}" for number in range(32)]
    return first(
        [
            *(lambda link=link: f"{link} -> {os.readlink(link)}" for link in links),
            *(lambda number=number: taken(number) for number in range(32)),
        ]
    )


def trace_runner(orders: Orders) -> str | None:
    if not is_runner(orders):
        return None
    traced = libc.ptrace(ctypes.c_long(0x4206), ctypes.c_long(orders["runner"]), None, None)
    return "traced" if traced == 0 else None


def signal_runner(orders: Orders) -> str | None:
    if not is_runner(orders):
        return None
    tasks = [int(name) for name in os.listdir(f"/proc/{orders['runner']}/task")]
    return first(lambda task=task: os.kill(task, 0) or f"signal to {task}" for task in tasks)


def limit_runner(orders: Orders) -> str | None:
    """Set a limit of the runner to what it is."""
    if not is_runner(orders):
        return None
    resource.prlimit(orders["runner"], resource.RLIMIT_STACK, resource.prlimit(orders["runner"], resource.RLIMIT_STACK))
    return "changed its limits"


def see_runner(orders: Orders) -> str | None:
    return "the runner is in /proc" if is_runner(orders) else None


def is_runner(orders: Orders) -> bool:
    """The number may be another process's in here."""
    with suppress(OSError, IndexError), open(f"/proc/{orders['runner']}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19]) == orders["runner_started"]
    return False


def launchers(orders: Orders) -> list[Orders]:
    """What starts tools in the runner's place: the launcher, and another tool's watcher."""
    return [{**orders, "runner": pid, "runner_started": started} for pid, started in orders["launchers"]]


def take_over_launcher(orders: Orders) -> str | None:
    attacks = (read_runner_memory, read_runner_descriptors, trace_runner, limit_runner)
    return first(lambda each=each, attack=attack: attack(each) for each in launchers(orders) for attack in attacks)


def signal_launcher(orders: Orders) -> str | None:
    return first(lambda each=each: signal_runner(each) for each in launchers(orders))


def order_launcher(orders: Orders) -> str | None:
    """Its orders come over a socket: one that this process holds, or can take, could start and end commands."""
    held = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
    sockets = [name for name in held if os.path.exists(f"/proc/self/fd/{name}") and is_socket(int(name))]
    if sockets:
        return f"holds sockets {sockets}"
    return first(lambda each=each: read_runner_descriptors(each) for each in launchers(orders))


def is_socket(number: int) -> bool:
    return stat.S_ISSOCK(os.fstat(number).st_mode)


def steer_the_run(orders: Orders) -> str | None:
    """The control channel's socket: by oneself, by an orphan of a session of its own, and by one that is gone at once.
    Whether the last one was heard is seen by the runner.
    """

    def ask(*, wait: bool = True) -> str | None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(5.0)
            control.connect(orders["control"])
            control.sendall(b'{"type": "cancel"}\n')
            return "cancelled the run" if wait and b'"ok": true' in control.recv(65536) else None

    def ask_as_orphan(*, wait: bool) -> None:
        waiting, held = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with suppress(OSError):
                    os.write(held, (ask(wait=wait) or "").encode())
            os._exit(0)
        os.close(held)
        os.wait()
        answers.append(os.read(waiting, 100).decode())

    answers = [ask() or ""]
    for wait in (True, False):
        ask_as_orphan(wait=wait)
    return "".join(answers) or None


def other_tools(orders: Orders) -> list[str]:
    found: list[str] = []
    for pid in pids():
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"sleep\0" + orders["other_tool"].encode() in file.read():
                found.append(pid)
    return found


def answer_for_another_tool(orders: Orders) -> str | None:
    def write(path: str) -> str:
        with open(path, "wb", buffering=0) as file:
            file.write(b"false answer")
        return f"wrote to {path}"

    return first(lambda pid=pid: write(f"/proc/{pid}/fd/1") for pid in other_tools(orders))


def signal_another_tool(orders: Orders) -> str | None:
    return first(lambda pid=pid: os.kill(int(pid), 0) or f"signal to {pid}" for pid in other_tools(orders))


# --- files -------------------------------------------------------------------------------------------------------


def ways_to(path: str, orders: Orders) -> list[str]:
    """A path, and the tricks that lead there."""
    link = os.path.join(orders["workspace"], f"link-{os.path.basename(path)}")
    with suppress(OSError):
        os.symlink(path, link)
    hard = os.path.join(orders["workspace"], f"hard-{os.path.basename(path)}")
    with suppress(OSError):
        os.link(path, hard)
    up = "/".join([orders["workspace"], *[".."] * 32])
    roots = ["/proc/self/root", "/proc/1/root", f"/proc/{orders['runner']}/root", "/proc/self/cwd/" + "../" * 32]
    return [path, link, hard, up + path, *(root + path for root in roots)]


def read_any(path: str, orders: Orders) -> str | None:
    def listed(place: str) -> str | None:
        return f"listed {place}" if os.path.isdir(place) and os.listdir(place) else None

    places = ways_to(path, orders)
    return first(
        [
            *(lambda place=place: listed(place) for place in places),
            *(lambda place=place: content(place) for place in places),
        ]
    )


def change_any(path: str, orders: Orders) -> str | None:
    """Append nothing, rename to itself, make a file beside it: all that a forger would need, and no harm."""

    def append(place: str) -> str:
        os.close(os.open(place, os.O_WRONLY | os.O_APPEND))
        return f"opened {place} for writing"

    def beside(folder: str) -> str:
        name = os.path.join(folder, f"forged-{os.getpid()}")
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(name)
        return f"made files in {folder}"

    def again(place: str) -> str:
        os.rename(place, place + ".moved")
        os.rename(place + ".moved", place)
        return f"renamed {place}"

    places = ways_to(path, orders)
    others = [place for place in places if not place.startswith(orders["workspace"] + "/") or "/../" in place]
    return first(
        [
            *(lambda place=place: append(place) for place in places),
            *(lambda place=place: beside(os.path.dirname(place)) for place in others if os.path.exists(place)),
            *(lambda place=place: again(place) for place in others),
        ]
    )


def read_secrets_directory(orders: Orders) -> str | None:
    return read_any(orders["secrets_file"], orders) or read_any(os.path.dirname(orders["secrets_file"]), orders)


def read_session_log(orders: Orders) -> str | None:
    return read_any(orders["session_log"], orders)


def write_session_log(orders: Orders) -> str | None:
    return change_any(orders["session_log"], orders)


def read_head(orders: Orders) -> str | None:
    return read_any(orders["head"], orders)


def write_head(orders: Orders) -> str | None:
    return change_any(orders["head"], orders)


def read_launch_spec(orders: Orders) -> str | None:
    return read_any(orders["spec"], orders)


def write_program(orders: Orders) -> str | None:
    return first(lambda place=place: change_any(place, orders) for place in orders["program"])


def unmask(orders: Orders) -> str | None:
    """A user namespace of one's own gives the right to mount, and to unmount."""
    folder = os.path.dirname(orders["secrets_file"])
    script = 'umount "$1"; umount -l "$1"; mount -t proc proc /proc; cat "$2"; cat "/proc/1/root$2"'
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        folder,
        orders["secrets_file"],
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout
    return "unmounted what hides the secrets" if SECRET_BEGINS in said else None


def gain_privileges(orders: Orders) -> str | None:
    if os.geteuid() == 0:
        return "root"
    with suppress(OSError):
        os.setuid(0)
        return "became root"
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    if int(status["CapEff"], 16):
        return f"capabilities {status['CapEff'].strip()}"
    return None if status["NoNewPrivs"].strip() == "1" else "set-user-id programs gain privileges"


# --- network -----------------------------------------------------------------------------------------------------


def reach_metadata_address(orders: Orders) -> str | None:
    """Connecting a datagram socket looks up the way and sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.connect(METADATA)
        return f"a way to {METADATA[0]}"


def reach_network(orders: Orders) -> str | None:
    def stream() -> str:
        with socket.create_connection(("127.0.0.1", orders["port"]), 2.0):
            return "a connection to a port of the host"

    def datagram() -> str:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as found:
            found.connect(("2001:db8::1", 9))
            return "a way to another host"

    def host_of_the_machine() -> str:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM):
            return "a vsock"

    return first([stream, datagram, host_of_the_machine])


def reach_abstract_sockets(orders: Orders) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.settimeout(2.0)
        found.connect("\0" + orders["abstract"])
        return "an abstract socket of another program"


def reach_socket_files(orders: Orders) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.settimeout(2.0)
        found.connect(orders["socket_file"])
        return "a socket in the file system"


# --- limits ------------------------------------------------------------------------------------------------------


def eat_memory(orders: Orders) -> str | None:
    held = bytearray((orders["memory_mb"] + 64) * 1024 * 1024)
    return f"{len(held)} bytes"


def fill_disk(orders: Orders) -> str | None:
    path = os.path.join(orders["workspace"], "large")
    piece = bytes(1024 * 1024)
    with open(path, "wb", buffering=0) as file:
        for _ in range(orders["file_mb"] + 1):
            file.write(piece)
    return f"a file of {os.path.getsize(path)} bytes"


def fill_disk_with_many_files(orders: Orders) -> str | None:
    """No file is large, and there is no end of them; slow enough for a busy machine to see it."""
    folder = f"{orders['workspace']}/{orders['many']}"
    os.mkdir(folder)
    for number in range(orders["room"]):
        with open(os.path.join(folder, str(number)), "wb"):
            time.sleep(0.002)
    return f"{orders['room']} files, and the disk is full"


def start_too_many(orders: Orders) -> str | None:
    waiting, held = os.pipe()
    started = 0
    try:
        for _ in range(orders["processes"] + orders["running"] + 16):
            if os.fork() == 0:
                os.close(held)
                os.read(waiting, 1)
                os._exit(0)
            started += 1
    except OSError:
        return None
    finally:
        os.close(held)
    return f"{started} processes"


def use_too_much_cpu(orders: Orders) -> str | None:
    while True:
        used = resource.getrusage(resource.RUSAGE_SELF)
        if used.ru_utime + used.ru_stime > orders["cpu_s"] + 1:
            return f"{used.ru_utime:.1f} s"


def leave_core_files(orders: Orders) -> str | None:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (1024, 1024))
        return "core files"
    return None


def main() -> None:
    managed: str | None = None
    with suppress(OSError, ValueError, MemoryError, subprocess.SubprocessError):
        managed = globals()[sys.argv[1]](json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps({"managed": managed}))


if __name__ == "__main__":
    main()
