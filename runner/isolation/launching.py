"""The runner's side of the launcher (launcher.py): asks it to start commands, and learns how they end.

A launcher that was killed takes all its commands with it. The next command gets a new one, once nothing is left of what
ran: before it has closed itself, a tool of the same user could take it over. Calls block for milliseconds, or for
seconds where a tool has stopped the launcher. They are not thread-safe, except for `give_up`.
"""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from runner.isolation.cgroup import PidsGroup
from runner.isolation.errors import SpawnFailed
from runner.isolation.launcher import END, START
from runner.isolation.own_python import run_module
from runner.isolation.process_table import PAUSE_S, kill_families, own_children

START_S = 5.0
"""For a command to begin. It takes milliseconds; this bounds the wait for a launcher that a tool has stopped."""
END_S = 2.0
TRIES = 2


class Launched:
    """A command under way, with what the spawner uses of a `Popen`. `wait` is meant for one thread."""

    def __init__(self, pid: int, answer: int) -> None:
        self.pid = pid
        """Of its watcher, the root of everything that it starts."""
        self._answer = answer
        self._returncode: int | None = None
        self._gone: int | None = None
        with suppress(OSError):  # it has ended already
            self._gone = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self._returncode is None and select.select([self._answer], [], [], 0)[0]:
            return self.wait()
        return self._returncode

    def wait(self) -> int:
        """Blocks until it has ended, and what it leaves has come to the launcher. Negative: a signal."""
        if self._returncode is None:
            told = _read_all(self._answer)
            self._returncode = int(told) if told else -signal.SIGKILL
            os.close(self._answer)
            if self._gone is not None:
                select.select([self._gone], [], [], END_S)
                os.close(self._gone)
        return self._returncode


class Launcher:
    """Starts its process with the first command. `scratch`: the folder that goes if the runner is killed."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._spared = own_children()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._group: PidsGroup | None = None
        self._given_up = False

    @property
    def pids(self) -> set[int]:
        """Of the launcher, if it runs: a child that is no tool, and the parent of what tools leave. From any thread."""
        process = self._process
        return set() if process is None else {process.pid}

    def give_up(self) -> None:
        """Start nothing more: ends a wait for a launcher that does not answer, and with it all commands. From any
        thread.
        """
        self._given_up = True
        process = self._process
        if process is not None:
            process.kill()

    def start(
        self,
        steps: Sequence[str],
        environment: Mapping[str, str],
        command: Sequence[str],
        inherited: Sequence[int],
        group: PidsGroup | None,
    ) -> Launched:
        """`inherited`: standard streams, then the command's own descriptors. Raises OSError or ValueError."""
        words = [*steps]
        for name, value in environment.items():
            words += ["--env", f"{name}={value}"]
        request = in_memory([*words, "--", *command])
        try:
            for _ in range(TRIES):
                launched = self._ask(request, inherited, group)
                if launched is not None:
                    return launched
                self._end_all()
                if self._given_up:
                    raise SpawnFailed("the run is ending: no command is started any more")
        finally:
            os.close(request)
        raise SpawnFailed(
            f"{command[0]} could not be started: the process that starts commands was killed {TRIES} times"
        )

    def _ask(self, request: int, inherited: Sequence[int], group: PidsGroup | None) -> Launched | None:
        """None if the launcher does not answer. Raises OSError with its reason if it says that it cannot."""
        control = self._running(group)
        answer, answering = os.pipe()
        try:
            try:
                os.lseek(request, 0, os.SEEK_SET)
                socket.send_fds(control, [START], [request, answering, *inherited])
            except OSError:  # it is gone
                return None
            finally:
                os.close(answering)
            told = _read_line(answer, START_S)
            if told.startswith("!"):
                raise ValueError(told[1:])
            if not told:
                return None
            launched = Launched(int(told), answer)
            answer = -1
            return launched
        finally:
            if answer >= 0:
                os.close(answer)

    def _running(self, group: PidsGroup | None) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - this program itself
                    [*run_module("launcher"), self._scratch],
                    cwd="/",
                    env={},
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._group = None
        if group is not None and group != self._group and self._process is not None:
            group.add(self._process.pid)
            self._group = group
        return self._control

    def _end_all(self) -> None:
        """It was killed, or stopped: nothing may be left of its commands, which are ours now."""
        self._let_go()
        until = time.monotonic() + END_S
        while not kill_families(set(), self._spared) and time.monotonic() < until:
            time.sleep(PAUSE_S)

    def _let_go(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Once no command runs. The scratch folder stays."""
        if self._control is not None and self._process is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                self._control.send(END)
                self._process.wait(END_S)
        self._let_go()


def in_memory(words: Sequence[str]) -> int:
    """A descriptor to read words from. Not a command line, which would show them to everybody. Raises ValueError."""
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    descriptor = os.memfd_create("words", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(b"\0".join(os.fsencode(word) for word in words))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_line(descriptor: int, within_s: float) -> str:
    """One line at most: the next one comes much later. Empty at the end, or if nothing came in time."""
    if not select.select([descriptor], [], [], within_s)[0]:
        return ""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode("utf-8", "replace")


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 64):
        pieces.append(piece)
    return b"".join(pieces)
