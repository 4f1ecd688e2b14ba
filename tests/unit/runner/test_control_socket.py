"""The socket's life and its clients, well-behaved and other ones."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger

from checkpoint.head import Claimant, Head, WriteClaim, decide_claim
from runner.control import Control
from runner.control_socket import MOST_CLIENTS, SocketControl, descends
from runner.errors import Refused
from runner.isolation.process_table import ProcessRow
from runner.signals import StopLatch

LOG = structlog.wrap_logger(CapturingLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(0))


def claimed() -> Head:
    me = Claimant("p1", "s1", 1, "claim-1", "2026-01-01T00:00:00.000Z", 3600, 25, None, None)
    decision = decide_claim(None, me)
    assert isinstance(decision, WriteClaim)
    return decision.head


class Open(SocketControl):
    """With a latch to look at. Clients of these tests are this very process, which the real check refuses."""

    def __init__(self, path: Path, *, checked: bool = False) -> None:
        self.stop = StopLatch()
        super().__init__(path, Control("p1", self.stop, LOG), LOG, **({} if checked else {"own_pid": 2**22 + 1}))

    @contextmanager
    def opened(self) -> Generator["Open"]:
        self.prepare()
        self.open(claimed())
        try:
            yield self
        finally:
            self.close()
            assert self.join(10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    with Open(path).opened() as ours:
        yield ours


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.settimeout(10)
    return client


def ask(client: socket.socket, *lines: bytes) -> list[Any]:
    for line in lines:
        client.sendall(line + b"\n")
    answers = client.makefile()
    return [json.loads(answers.readline()) for _ in lines]


def asks(path: Path, *lines: bytes) -> list[Any]:
    with connect(path) as client:
        return ask(client, *lines)


def test_the_socket_is_its_users_own_and_is_there_from_the_claim_to_the_end(path: Path) -> None:
    ours = Open(path)
    ours.prepare()
    assert not path.exists()
    ours.open(claimed())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert asks(path, b'{"type":"steer","text":"x","id":1}')[0]["ok"]
    ours.close()
    ours.close()
    assert ours.join(10)
    assert list(path.parent.iterdir()) == []


def test_a_process_that_does_not_get_the_claim_leaves_nothing(path: Path) -> None:
    ours = Open(path)
    ours.prepare()
    ours.close()
    assert list(path.parent.iterdir()) == []


def test_a_socket_that_somebody_left_is_replaced(path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with Open(path).opened():
        assert asks(path, b'{"type":"pause"}')[0]["ok"]


def test_who_owns_the_pipeline_owns_the_path_and_who_is_overtaken_does_not_take_it_away(path: Path) -> None:
    with Open(path).opened() as first, Open(path).opened() as second:
        assert asks(path, b'{"type":"pause"}')[0]["ok"]
        assert (first.stop.reason, second.stop.reason) == (None, "paused")
        first.close()
        assert path.is_socket()
    assert not path.exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be made"):
        Open(tmp_path / "nowhere" / "control.sock").prepare()


def test_each_line_is_answered_also_bad_ones_and_clients_come_one_after_the_other(opened: Open, path: Path) -> None:
    answers = asks(path, b"no json", b'{"type":"stop"}', b"x" * 70_000, b'{"type":"steer","text":"one"}')
    assert [answer.get("error", {}).get("reason") for answer in answers] == [
        "not_json",
        "unknown_type",
        "line_too_long",
        None,
    ]
    assert asks(path, b'{"type":"pause"}')[0]["ok"]
    assert opened.stop.reason == "paused"


def test_clients_at_once_are_served_while_others_hold_half_a_line(opened: Open, path: Path) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(path)) for _ in range(8)]
        for client in clients[:4]:
            client.sendall(b'{"type":"can')
        for number, client in enumerate(clients[4:]):
            assert ask(client, b'{"type":"steer","text":"x","id":%d}' % number)[0]["id"] == number
        assert opened.stop.reason is None


def test_a_thousand_connections_cost_each_other_their_places_and_nobody_else(opened: Open, path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is needed
    clients: list[socket.socket] = []
    try:
        for _ in range(300):
            with suppress(OSError):
                clients.append(connect(path))
        assert asks(path, b'{"type":"cancel"}')[0]["ok"]
    finally:
        for client in clients:
            client.close()
    ends = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before + MOST_CLIENTS:  # noqa: PTH208
        assert time.monotonic() < ends
        threading.Event().wait(0.01)
    assert opened.stop.reason == "cancelled"


def test_a_client_that_never_ends_a_line_nor_reads_keeps_nobody_else_waiting(opened: Open, path: Path) -> None:
    with connect(path) as endless, connect(path) as deaf:
        flooding = threading.Event()

        def flood() -> None:
            with suppress(OSError):
                for _ in range(2000):
                    if flooding.is_set():
                        return
                    deaf.sendall(b'{"type":"stop"}\n' * 10)
                    endless.sendall(b"x" * 10_000)

        thread = threading.Thread(target=flood)
        thread.start()
        began = time.monotonic()
        assert asks(path, b'{"type":"pause"}')[0]["ok"]
        assert time.monotonic() - began < 3
        flooding.set()
        deaf.shutdown(socket.SHUT_RDWR)
        endless.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    assert opened.stop.reason == "paused"


CLIENT = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
try:
    client.sendall(b'{"type":"cancel"}\\n')
    print(client.makefile().readline(), end="")
except OSError:
    print('{"error": {"reason": "not_allowed"}}')
"""


def test_a_process_that_the_run_started_is_refused(path: Path) -> None:
    with Open(path, checked=True).opened() as ours:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, str(path)], capture_output=True, text=True, timeout=30, check=True
        )
    assert json.loads(done.stdout)["error"]["reason"] == "not_allowed"
    assert ours.stop.reason is None


def test_descent_is_followed_to_the_top_and_the_unknown_is_no_stranger() -> None:
    def row(pid: int) -> ProcessRow | None:
        parents = {30: 20, 20: 10, 10: 1, 40: 1, 50: 49, 60: 0}
        return ProcessRow(pid, parents[pid], 0, 1, 0, False) if pid in parents else None

    assert descends(10, 10, row) is True
    assert descends(30, 10, row) is True
    assert descends(40, 10, row) is False
    assert descends(60, 1, row) is False, "it came from outside of the container"
    assert descends(40, 1, row) is True, "an orphan that the container's first process took on"
    assert descends(0, 10, row) is False, "not to be seen from here"
    assert descends(50, 10, row) is None
