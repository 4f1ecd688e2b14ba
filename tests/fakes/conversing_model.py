"""A loopback model that answers by what it has been told, so that a process which takes over is answered rightly.

Each script is a list of answers; a request gets the one whose number is the count of assistant messages in it. A
process that starts the conversation again gets the same answers again, one that goes on gets the next ones.

    with ConversingModel({"work": [(Call("note"),), ("Done.",)]}) as model:
        spec["agent"]["model"] = {"api": "openai-completions", "base_url": model.url("work"), ...}
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from tests.fakes.provider_answers import Block, answer

Turn: TypeAlias = tuple[Block, ...] | int
"""What the model says, or the status of an error."""
Script: TypeAlias = Sequence[Turn] | Callable[[int], Turn]
"""The answers, or what gives the n-th."""
API = "openai-completions"


class ConversingModel:
    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="conversing-model")

    def url(self, script: str) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/{script}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join(10)
        self._http.server_close()

    def turn(self, path: str, body: dict[str, Any]) -> Turn:
        script = self._scripts[path.split("/")[1]]
        number = sum(message["role"] == "assistant" for message in body["messages"])
        return script(number) if callable(script) else script[number]


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, owner: ConversingModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no news; a request beyond the script shows in the run that made it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *_args: Any, **_named: Any) -> None:
        """Tests stay quiet."""

    def do_POST(self) -> None:
        self.close_connection = True
        length = int(self.headers.get("content-length") or 0)
        received = self.rfile.read(length)
        if len(received) < length:
            return  # the client has left in the middle of its request
        body = json.loads(received)
        turn = cast(_Server, self.server).owner.turn(self.path, body)
        if isinstance(turn, int):
            status, kind = turn, "application/json"
            data = json.dumps({"error": {"message": "not today", "type": "invalid_request_error"}}).encode()
        else:
            status, kind = 200, "text/event-stream"
            data = "".join(chunk["text"] for chunk in answer(API, *turn)["chunks"]).encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)
