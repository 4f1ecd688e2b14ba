"""A loopback HTTP server that gives prepared answers to an S3 client and remembers what it was asked."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """`promised` is the Content-Length if it is to differ from what is sent before the connection is closed."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    promised: int | None = None


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


def error_answer(status: int, code: str, message: str = "as prepared") -> Answer:
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return Answer(status, body.encode(), {"content-type": "application/xml"})


@dataclass
class S3Answers:
    """Answers are given in order; the last one again and again."""

    endpoint_url: str
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list[Asked])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_for(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(*answers: Answer) -> Generator[S3Answers]:
    """Serve `answers` on loopback while the block runs."""
    served = S3Answers("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = served.next_for(Asked(self.command, self.path, headers, body))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            promised = len(answer.body) if answer.promised is None else answer.promised
            self.send_header("content-length", str(promised))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
            self.close_connection = promised != len(answer.body)

        do_GET = do_HEAD = do_PUT = answer

        def log_request(self, code: object = None, size: object = None) -> None:
            del code, size

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()
