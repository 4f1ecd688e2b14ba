"""A loopback HTTP proxy between a runner and its servers that numbers the calls and does to one what a test asks.

    with FaultProxy({"store": s3.endpoint_url, "server": server.base_url}, plan) as proxy:
        ... a runner talks to proxy.url("store") and proxy.url("server") ...
        proxy.calls          # what came, in order

`plan` gets every call and names a fault or None; what it waits for, that call waits for, and no other. Requests and
answers are passed on byte for byte, so signatures stay good; both are read whole first, within a bound. Refuses request
bodies without a length. What the proxy itself could not do is in `defects`, and raised when the proxy is left.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from types import TracebackType
from typing import BinaryIO, Literal, Self, TypeAlias, get_args
from urllib.parse import urlsplit

BOUND_S = 40.0
"""How long a call may take at most, either side."""
SLOW_S = 0.3
"""How long a slow answer's body takes."""

AnswerFault: TypeAlias = Literal[
    "reset_before", "lost", "late", "twice", "own_retry", "conflict", "conflict_after", "error", "error_after", "slow",
    "wrong", "cut",
]  # fmt: skip
"""reset_before: the connection breaks before anything is passed on · lost: it took effect, the connection breaks
without an answer · late: it took effect, the answer never comes · twice: passed on twice, the first answer counts ·
own_retry: the second one does · conflict, error: 409 or 500, not passed on · …_after: took effect all the same · slow:
the answer's body comes in pieces · wrong: one byte of it is another · cut: the connection breaks in its middle."""
Kill: TypeAlias = Literal["kill_before", "kill_half", "kill_unanswered", "kill_answered"]
"""The process is killed before the call is passed on · when half of it is · when it took effect, before the answer ·
right after the answer."""
Fault: TypeAlias = AnswerFault | Kill
ANSWER_FAULTS: tuple[AnswerFault, ...] = get_args(AnswerFault)
KILLS: tuple[Kill, ...] = get_args(Kill)


@dataclass(slots=True)
class Call:
    number: int
    """From 1, over all targets."""
    where: str
    method: str
    path: str
    raw: bytes
    """The whole request."""
    head_bytes: int
    began: int
    ended: int | None = None
    """Ticks of one clock that counts beginnings and ends; None while there is no answer."""
    status: int | None = None
    """What the target answered the first time; None if it was not asked."""
    fault: Fault | None = None

    @property
    def body(self) -> bytes:
        return self.raw[self.head_bytes :]

    def __str__(self) -> str:
        return f"{self.number}. {self.where} {self.method} {self.path} -> {self.status} ({self.fault or 'untouched'})"


Plan: TypeAlias = Callable[[Call], Fault | None]


def nothing(_call: Call) -> Fault | None:
    """The plan that leaves every call alone."""
    return None


def at_call(number: int, fault: Fault) -> Plan:
    """The plan of one fault at one call."""
    return lambda call: fault if call.number == number else None


def longest_chain(calls: Iterable[Call]) -> int:
    """How many round trips follow one another: the longest chain of calls that each began after another's end."""
    chains: list[tuple[int, int]] = []
    for call in sorted(calls, key=lambda call: call.began):
        before = max((length for ended, length in chains if ended < call.began), default=0)
        chains.append((call.ended if call.ended is not None else call.began, before + 1))
    return max((length for _, length in chains), default=0)


@dataclass(frozen=True, slots=True)
class _Answer:
    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    @property
    def closes(self) -> bool:
        return b"connection: close" in self.head.lower()


@dataclass(slots=True)
class _Open:
    sockets: set[socket.socket] = field(default_factory=set[socket.socket])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    closing: bool = False


class FaultProxy:
    def __init__(
        self,
        targets: Mapping[str, str],
        plan: Plan = nothing,
        *,
        kill: Callable[[], None] = lambda: None,
        round_trip_s: float = 0.0,
        without_headers: tuple[str, ...] = (),
        clock_off_s: float = 0.0,
    ) -> None:
        """`targets`: base addresses by name. `kill` ends the process for the kill faults. `round_trip_s` is added to
        every call; headers of `without_headers` (lower case) are not passed on; the times that the targets tell in
        their answers' headers are off by `clock_off_s`.
        """
        self.calls: list[Call] = []
        self.connections = 0
        self.defects: list[BaseException] = []
        self.plan = plan
        self.kill = kill
        self.round_trip_s = round_trip_s
        self._without = without_headers
        self._clock_off_s = clock_off_s
        self._changed = threading.Condition()
        self._ticks = 0
        self._open = _Open()
        self._closed = threading.Event()
        self._targets = {name: urlsplit(address) for name, address in targets.items()}
        self._listeners = {name: socket.create_server(("127.0.0.1", 0), backlog=64) for name in targets}

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._listeners[name].getsockname()[1]}{self._targets[name].path}"

    def wait_for_calls(self, condition: Callable[[list[Call]], bool], timeout_s: float = BOUND_S) -> None:
        """Return once the calls so far meet the condition."""
        with self._changed:
            met = self._changed.wait_for(lambda: condition(self.calls), timeout_s)
        assert met, [str(call) for call in self.calls]

    def __enter__(self) -> Self:
        for name, listener in self._listeners.items():
            self._spawn(self._accept, name, listener)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._open.closing = True
            left = [*self._listeners.values(), *self._open.sockets]
        self._closed.set()
        for one in left:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._open.threads:
            thread.join(10)
        if error is None and self.defects:
            raise AssertionError("the proxy itself failed") from self.defects[0]

    # --- connections ----------------------------------------------------------------------------------------------

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        with self._changed:
            self._open.threads = [one for one in self._open.threads if one.is_alive() or one.ident is None]
            self._open.threads.append(thread)
        thread.start()

    def _accept(self, where: str, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._changed:
                if self._open.closing:
                    client.close()
                    return
                self._open.sockets.add(client)
                self.connections += 1
            self._spawn(self._serve, where, client)

    def _serve(self, where: str, client: socket.socket) -> None:
        try:
            client.settimeout(BOUND_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client.makefile("rb") as stream:
                while (call := self._next_call(where, stream)) is not None:
                    if not self._handle(call, client):
                        break
        except OSError:
            pass  # one of the sides has left, or was made to
        except Exception as error:  # noqa: BLE001 - raised when the proxy is left
            self.defects.append(error)
        finally:
            with self._changed:
                self._open.sockets.discard(client)
            client.close()

    def _next_call(self, where: str, stream: BinaryIO) -> Call | None:
        head = _read_head(stream)
        if not head:
            return None
        if b"transfer-encoding:" in head.lower():
            raise ValueError(f"a request body without a length: {head!r}")
        body = stream.read(_length(head) or 0)
        method, path = head.decode("latin-1").split(" ", 2)[:2]
        kept = self._stripped(head)
        with self._changed:
            self._ticks += 1
            call = Call(len(self.calls) + 1, where, method, path, kept + body, len(kept), self._ticks)
            self.calls.append(call)
            self._changed.notify_all()
        call.fault = self.plan(call)
        return call

    def _stripped(self, head: bytes) -> bytes:
        lines = head.split(b"\r\n")
        kept = [line for line in lines if line.split(b":")[0].decode("latin-1").lower() not in self._without]
        return b"\r\n".join(kept)

    def _ended(self, call: Call) -> None:
        with self._changed:
            self._ticks += 1
            call.ended = self._ticks
            self._changed.notify_all()

    # --- one call -------------------------------------------------------------------------------------------------

    def _handle(self, call: Call, client: socket.socket) -> bool:
        """Do what the plan says; False ends the connection."""
        if self.round_trip_s:
            self._closed.wait(self.round_trip_s)
        match call.fault:
            case "reset_before":
                return _reset(client)
            case "kill_before":
                self.kill()
                return _reset(client)
            case "kill_half":
                self._pass_half(call)
                self.kill()
                return _reset(client)
            case "conflict":
                return self._give(call, client, _conflict(call))
            case "error":
                return self._give(call, client, _ERROR)
            case _:
                return self._forwarded(call, client)

    def _forwarded(self, call: Call, client: socket.socket) -> bool:
        answer = self._ask(call)
        call.status = answer.status
        match call.fault:
            case "lost":
                return _reset(client)
            case "kill_unanswered":
                self.kill()
                return _reset(client)
            case "late":
                return _wait_until_left(client)
            case "twice":
                self._ask(call)
            case "own_retry":
                answer = self._ask(call)
            case "conflict_after":
                answer = _conflict(call)
            case "error_after":
                answer = _ERROR
            case "wrong" if answer.body:
                middle = len(answer.body) // 2
                changed = bytes([answer.body[middle] ^ 0x5A])
                answer = _Answer(answer.head, answer.body[:middle] + changed + answer.body[middle + 1 :])
            case "cut":
                client.sendall(answer.head + answer.body[: len(answer.body) // 2])
                return _reset(client)
            case "slow":
                return self._give_slowly(call, client, answer)
            case _:
                pass
        going_on = self._give(call, client, answer)
        if call.fault == "kill_answered":
            self.kill()
        return going_on

    def _give(self, call: Call, client: socket.socket, answer: _Answer) -> bool:
        self._ended(call)
        client.sendall(answer.head + answer.body)
        return not answer.closes

    def _give_slowly(self, call: Call, client: socket.socket, answer: _Answer) -> bool:
        pieces = 10
        size = max(1, -(-len(answer.body) // pieces))
        client.sendall(answer.head)
        for start in range(0, len(answer.body), size):
            self._closed.wait(SLOW_S / pieces)
            client.sendall(answer.body[start : start + size])
        self._ended(call)
        return not answer.closes

    def _ask(self, call: Call) -> _Answer:
        """The target's answer, read whole."""
        with self._upstream(call.where) as upstream, upstream.makefile("rb") as stream:
            upstream.sendall(call.raw)
            answer = _read_answer(stream, call.method)
        return answer if not self._clock_off_s else _Answer(_shifted(answer.head, self._clock_off_s), answer.body)

    def _pass_half(self, call: Call) -> None:
        with self._upstream(call.where) as upstream:
            upstream.sendall(call.raw[: (call.head_bytes + len(call.raw)) // 2 - 1])

    def _upstream(self, where: str) -> socket.socket:
        target = self._targets[where]
        assert target.hostname is not None, target
        upstream = socket.create_connection((target.hostname, target.port or 80), timeout=BOUND_S)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return upstream


def _read_head(stream: BinaryIO) -> bytes:
    """Start line and headers with the empty line; empty if the other side has left."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline(65536)
        if not line:
            return b""
        head += line
    return head


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return None


def _read_answer(stream: BinaryIO, method: str) -> _Answer:
    head = _read_head(stream)
    if not head:
        raise ConnectionError("the target closed the connection")
    length, status = _length(head), int(head.split(b" ", 2)[1])
    if method == "HEAD" or status in (204, 304):
        return _Answer(head, b"")
    if b"transfer-encoding: chunked" in head.lower():
        return _Answer(head, _read_chunked(stream))
    return _Answer(head, stream.read() if length is None else stream.read(length))


def _read_chunked(stream: BinaryIO) -> bytes:
    """The chunks as they came, with their sizes."""
    body = b""
    while True:
        size_line = stream.readline()
        chunk = stream.read(int(size_line.split(b";")[0], 16) + 2)
        body += size_line + chunk
        if chunk == b"\r\n":
            return body


def _shifted(head: bytes, seconds: float) -> bytes:
    """The head with `Date` and `Last-Modified` of a clock that is off."""
    lines = head.split(b"\r\n")
    for index, line in enumerate(lines):
        name, _, value = line.partition(b":")
        if name.lower() in (b"date", b"last-modified"):
            moment = parsedate_to_datetime(value.decode().strip()) + timedelta(seconds=seconds)
            lines[index] = name + b": " + format_datetime(moment, usegmt=True).encode()
    return b"\r\n".join(lines)


def _reset(client: socket.socket) -> bool:
    """Break the connection the hard way when it is closed, which the caller does next."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def _wait_until_left(client: socket.socket) -> bool:
    while client.recv(4096):
        pass
    return False


def _made(status: bytes, kind: bytes, body: bytes) -> _Answer:
    head = b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(body))
    return _Answer(head, body)


def _conflict(call: Call) -> _Answer:
    """409 in the words of a store, or of a server that is still at work on the same id."""
    if call.where == "store":
        body = b"<Error><Code>ConditionalRequestConflict</Code><Message>busy</Message></Error>"
        return _made(b"409 Conflict", b"application/xml", body)
    return _made(b"409 Conflict", b"application/problem+json", b'{"type": "urn:tests:in-flight"}')


_ERROR = _made(b"500 Internal Server Error", b"text/plain", b"broken")
