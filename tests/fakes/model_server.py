"""A loopback HTTP server that plays a script: one exchange per request, the last one again and again.

An exchange: `status`, `headers`, `chunks` (`{"text"}` or `{"b64"}`, written one by one, `gapMs` apart), and
how it ends: `end` absent (properly), "cut" (without the last chunk) or "hang"; `beforeHeaders` "cut" or
"hang". `requests` holds what arrived; `hung_up` is set when a client closed a connection the server kept
open. Waits end when the server is left, so that no thread outlives its test.
"""

import base64
import json
import socket
import threading
from types import TracebackType
from typing import Any

_HANG_LIMIT_S = 30.0


class ModelServer:
    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.hung_up = threading.Event()
        self._exchanges = exchanges
        self._stopping = threading.Event()
        self._arrival = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._threads: list[threading.Thread] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def wait_for_requests(self, count: int, timeout_s: float = _HANG_LIMIT_S) -> None:
        """Return once so many requests have arrived."""
        with self._arrival:
            there = self._arrival.wait_for(lambda: len(self.requests) >= count, timeout_s)
        assert there, f"{len(self.requests)} requests came, not {count}"

    def __enter__(self) -> "ModelServer":
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_HANG_LIMIT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                exchange = self._next_exchange(connection)
                if exchange is not None:
                    self._play(connection, exchange)
            except OSError:
                self.hung_up.set()

    def _next_exchange(self, connection: socket.socket) -> dict[str, Any] | None:
        stream = connection.makefile("rb")
        start = stream.readline().decode("latin-1").split()
        if len(start) < 2:
            return None
        headers: dict[str, str] = {}
        while (line := stream.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        raw = stream.read(int(headers.get("content-length", "0")))
        body: Any = json.loads(raw) if raw else None
        with self._arrival:
            number = len(self.requests)
            self.requests.append({"method": start[0], "path": start[1], "headers": headers, "body": body, "raw": raw})
            self._arrival.notify_all()
        return self._exchanges[min(number, len(self._exchanges) - 1)]

    def _play(self, connection: socket.socket, exchange: dict[str, Any]) -> None:
        before = exchange.get("beforeHeaders")
        if before == "hang":
            self._wait_for_hang_up(connection)
        if before:
            return
        head = [f"HTTP/1.1 {exchange.get('status', 200)} Scripted"]
        head += [f"{name}: {value}" for name, value in exchange.get("headers", {}).items()]
        head += ["transfer-encoding: chunked", "connection: close", "", ""]
        connection.sendall("\r\n".join(head).encode("latin-1"))
        for chunk in exchange.get("chunks", []):
            data = base64.b64decode(chunk["b64"]) if "b64" in chunk else chunk["text"].encode("utf-8")
            if data:
                connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            if self._stopping.wait(exchange.get("gapMs", 2) / 1000):
                return
        end = exchange.get("end")
        if end == "hang":
            self._wait_for_hang_up(connection)
        elif end != "cut":
            connection.sendall(b"0\r\n\r\n")

    def _wait_for_hang_up(self, connection: socket.socket) -> None:
        connection.settimeout(0.05)
        while not self._stopping.is_set():
            try:
                if not connection.recv(4096):
                    self.hung_up.set()
                    return
            except TimeoutError:
                continue
