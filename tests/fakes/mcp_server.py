"""A small MCP server in plain Python, over standard input and output or over HTTP, that behaves as badly as it is told.

Run as a script it speaks on its pipes. `answer` is the protocol, for both.
"""

import base64
import json
import os
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

Send = Callable[[dict[str, Any]], None]


def png(width: int = 2, height: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\0\0\0" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


TOOLS = [
    {
        "name": "add",
        "description": "Adds.",
        "inputSchema": {**_schema(a="integer", b="integer"), "required": ["a", "b"]},
    },
    {"name": "picture", "description": "A picture.", "inputSchema": _schema()},
    {"name": "fail", "description": "Fails.", "inputSchema": _schema()},
    {"name": "slow", "description": "Reports, then answers.", "inputSchema": _schema()},
    {"name": "hang", "description": "Never answers.", "inputSchema": _schema(log="string")},
    {"name": "die", "description": "Ends the server.", "inputSchema": _schema()},
    {"name": "environment", "description": "Its environment.", "inputSchema": _schema()},
    {"name": "odd name!", "description": None, "inputSchema": _schema()},
]


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
    """The response to a message; None where there is none (yet)."""
    method: str | None = message.get("method")
    params: dict[str, Any] = message.get("params") or {}
    if "id" not in message:
        return None
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    elif method == "tools/list":
        # Two pages, so that paging is seen to.
        half = int(params.get("cursor") or 0)
        result = {"tools": TOOLS[4:]} if half else {"tools": TOOLS[:4], "nextCursor": "1"}
    elif method == "tools/call":
        called = _call(params, send)
        if called is None:
            return None
        result = called
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _call(params: dict[str, Any], send: Send) -> dict[str, Any] | None:
    name: str = params["name"]
    args: dict[str, Any] = params.get("arguments") or {}
    match name:
        case "add":
            return _text(str(args["a"] + args["b"]), structuredContent={"sum": args["a"] + args["b"]})
        case "picture":
            data = base64.b64encode(png()).decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "fail":
            return _text("it does not work", isError=True)
        case "slow":
            token = params["_meta"]["progressToken"]
            for done in (1, 2):
                progress = {"progressToken": token, "progress": done, "total": 2, "message": f"step {done}"}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
            return _text("done")
        case "hang":
            token = params["_meta"]["progressToken"]
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 0},
                }
            )
            return None
        case "die":
            os._exit(3)
        case "environment":
            return _text(json.dumps(dict(os.environ)))
        case _:
            return _text("odd")


def serve_stdio() -> None:
    def send(message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    print("not a message", flush=True)
    print("noise " * 20_000, file=sys.stderr, flush=True)
    hang_log: str | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call" and message["params"]["name"] == "hang":
            hang_log = message["params"]["arguments"].get("log")
            if hang_log:
                with Path(hang_log).open("a") as file:
                    file.write("called\n")
        if message.get("method") == "notifications/cancelled" and hang_log:
            with Path(hang_log).open("a") as file:
                file.write("cancelled\n")
        response = answer(message, send)
        if response is not None:
            send(response)


@dataclass
class HttpMcp:
    """A server over streamable HTTP, and what it was sent."""

    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Of each request, by lower-case name."""
    methods: list[str] = field(default_factory=list[str])
    """Of each message, in order."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    """Calls of tools are answered by a stream of events, everything else by JSON."""

    served: ClassVar[HttpMcp]

    def do_POST(self) -> None:
        self.served.headers.append({name.lower(): value for name, value in self.headers.items()})
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.served.methods.append(message.get("method", ""))
        if message.get("method") == "notifications/cancelled":
            self.served.cancelled.set()
        if message.get("method") == "tools/call":
            self._stream(message)
            return
        response = answer(message, lambda _message: None)
        body = b"" if response is None else json.dumps(response).encode()
        self.send_response(202 if response is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, message: dict[str, Any]) -> None:
        def send(event: dict[str, Any]) -> None:
            self.wfile.write(b"event: message\ndata: %s\n\n" % json.dumps(event).encode())
            self.wfile.flush()

        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        response = answer(message, send)
        if response is not None:
            send(response)
            return
        while not (self.served.cancelled.wait(0.02) or self.served.closing.is_set()):
            pass

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the standard library's
        pass


@contextmanager
def serve_http() -> Generator[HttpMcp]:
    """A server on loopback for as long as the context lasts."""
    served = HttpMcp()

    class Handler(_Handler):
        pass

    Handler.served = served
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    serve_stdio()
