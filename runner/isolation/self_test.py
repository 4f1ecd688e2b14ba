"""The start-up self-test: attack a confinement from inside, and judge what holds.

`judge` is pure. `attack_confinement` starts attack.py as a tool would be; blocking, meant for a thread, bounded.
"""

import json
import os
import select
import socket
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from runner.isolation.confinement import Confinement
from runner.isolation.errors import SpawnFailed
from runner.isolation.grounds import Grounds
from runner.isolation.launching import Launcher
from runner.isolation.limits import Limits, rlimits
from runner.isolation.own_python import run_module
from runner.isolation.process_table import PAUSE_S, kill_families, own_children, read_row
from runner.isolation.promises import Attack, Verdict
from runner.isolation.spawner import Environment, Started, start_wrapped

ATTACK_S = 10.0
END_S = 2.0
SHORTEST_SECRET = 8
"""Shorter values are found anywhere by chance."""
MOST_OUTPUT = 32 * 1024 * 1024

ATTACK_OF: Mapping[str, Attack] = {
    "secrets directory": "secrets_directory",
    "session log": "session_log",
    "store": "store",
    "launch spec": "launch_spec",
    "script": "launch_spec",
}
"""What is attacked at a hidden place, by what the place is."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """What came back from inside."""

    managed: Mapping[str, str]
    texts: Sequence[tuple[str, str]]
    unusable: str | None
    datagram_arrived: bool
    survivor: bool


def judge(attacked: Attacked, secrets: Mapping[str, str]) -> dict[str, str]:
    """Everything that was managed, with what exactly; names of secrets, never values."""
    managed = dict(attacked.managed)
    for name, value in secrets.items():
        lines = [line for line in value.splitlines() if len(line) >= SHORTEST_SECRET]
        needles = [line.encode("utf-8", "surrogateescape").decode("latin-1") for line in lines]
        found = next((where for where, text in attacked.texts if any(needle in text for needle in needles)), None)
        if found is not None:
            managed["secret_found"] = f"secret {name} in {found}"
            break
    if attacked.datagram_arrived:
        managed["network"] = "a datagram"
    if attacked.survivor:
        managed["survivor"] = "a process that had left its group"
    return managed


def attack_confinement(
    confinement: Confinement,
    grounds: Grounds,
    environment: Environment,
    launcher: Launcher,
    *,
    limits: Limits,
    network: bool,
    secrets: Mapping[str, str],
    search: Sequence[str],
) -> Verdict:
    """Attack, and judge. A confinement that cannot even start the attack is unusable, which is a verdict too."""

    def verdict(managed: Mapping[str, str], unusable: str | None) -> Verdict:
        return Verdict(confinement.level, confinement.description, managed, unusable, network)

    with ExitStack() as stack:
        targets = None if network else stack.enter_context(_listening())
        orders = _orders(grounds, limits, search, targets)
        command = [*run_module("attack"), json.dumps(orders)]
        spared = own_children()
        try:
            started = start_wrapped(
                confinement,
                launcher,
                command,
                grounds.workspace,
                environment({}),
                merge_stderr=False,
                interactive=False,
            )
        except SpawnFailed as error:
            return verdict({}, error.message)
        output, complaint, survivor = _collect(started, spared, launcher)
        arrived = targets is not None and targets.arrived()
    try:
        told: dict[str, Any] = json.loads(output)
    except ValueError:
        said = complaint.decode("utf-8", "replace").strip().splitlines()
        return verdict({}, f"a command in it fails: {said[-1][:300] if said else 'without a word'}")
    texts = [(str(where), str(text)) for where, text in told["texts"]]
    return verdict(
        judge(Attacked(told["managed"], texts, told["unusable"], arrived, survivor), secrets), told["unusable"]
    )


def _orders(grounds: Grounds, limits: Limits, search: Sequence[str], targets: "_Targets | None") -> dict[str, Any]:
    me = read_row(os.getpid())
    hard = {name: values[1] for name, values in rlimits(limits, 0).items() if name != "RLIMIT_NPROC"}
    return {
        "runner": {"pid": os.getpid(), "started": -1 if me is None else me.started},
        "hidden": [(ATTACK_OF[place.what], place.path) for place in grounds.hidden if place.what in ATTACK_OF],
        "program": list(grounds.program),
        "search": [*(place.path for place in grounds.hidden), grounds.workspace, *search],
        "workspace": grounds.workspace,
        "temporary": grounds.scratch.temporary,
        "network": None if targets is None else targets.names(),
        "limits": hard,
        "processes": limits.processes,
    }


def _collect(started: Started, spared: set[int], launcher: Launcher) -> tuple[bytes, bytes, bool]:
    """Read the one line of output, end everything, and see whether anybody still holds the pipe open."""
    try:
        output = _read_line(started.stdout, time.monotonic() + ATTACK_S)
        until = time.monotonic() + END_S
        ended = False
        while not ended and time.monotonic() < until:
            running = {started.process.pid} if started.process.poll() is None else set[int]()
            ended = kill_families(running, spared | running, launcher.pids) and not running
            if not ended:
                time.sleep(PAUSE_S)
        survivor = not _at_end(started.stdout)
        complaint = b"" if output or started.stderr is None or survivor else _drain(started.stderr)
    finally:
        os.close(started.stdout)
        if started.stderr is not None:
            os.close(started.stderr)
    return output, complaint, survivor


def _read_line(descriptor: int, until: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size < MOST_OUTPUT and select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 1024 * 1024)
        pieces.append(piece)
        size += len(piece)
        if not piece or piece.endswith(b"\n"):
            return b"".join(pieces)
    return b""


def _at_end(descriptor: int) -> bool:
    while select.select([descriptor], [], [], 0)[0]:
        if not os.read(descriptor, 65536):
            return True
    return False


def _drain(descriptor: int) -> bytes:
    return os.read(descriptor, 65536) if select.select([descriptor], [], [], 0)[0] else b""


class _Targets:
    """Sockets of ours on loopback for the attack to reach."""

    def __init__(self, tcp: socket.socket, udp: socket.socket, abstract: socket.socket, name: str) -> None:
        self._tcp, self._udp, self._abstract, self._name = tcp, udp, abstract, name

    def names(self) -> dict[str, Any]:
        return {"tcp": self._tcp.getsockname()[1], "udp": self._udp.getsockname()[1], "abstract": self._name}

    def arrived(self) -> bool:
        return bool(select.select([self._udp], [], [], 0)[0])


@contextmanager
def _listening() -> Generator[_Targets]:
    name = f"runner-attack-{os.getpid()}-{time.monotonic_ns()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        abstract.bind("\0" + name)
        abstract.listen()
        yield _Targets(tcp, udp, abstract, name)
