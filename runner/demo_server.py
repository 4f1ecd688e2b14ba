"""The receiving end of the demo: the smallest server that keeps to the contracts (docs/callbacks.md), in memory.

Loopback only, one process, one secret. It is an example of how `settlement` is used, not something to deploy.
"""

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from settlement.callback import Terminal
from settlement.commit_rule import (
    Commit,
    JudgedBefore,
    Pipeline,
    Refuse,
    RestorePoint,
    ShowCard,
    ShownBefore,
    decide_commit,
    decide_question,
)
from settlement.question import Question
from settlement.receiving import Problem, receive_question, receive_terminal
from settlement.signing import CallbackSecrets

MAX_BODY_BYTES = 1024 * 1024


class _OwnStreams:
    """The demo has one person, to whom every stream belongs."""

    def __contains__(self, _stream: object) -> bool:
        return True


@dataclass(slots=True)
class DemoServer:
    """Use as a context manager. `restore_points` holds each session's committed checkpoint."""

    secret: str
    questions: list[Question] = field(default_factory=list[Question])
    terminals: list[Terminal] = field(default_factory=list[Terminal])
    restore_points: dict[str, RestorePoint | None] = field(default_factory=dict[str, "RestorePoint | None"])
    _pipelines: dict[str, Pipeline] = field(default_factory=dict[str, Pipeline])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _http: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = min(int(self.headers.get("content-length", 0)), MAX_BODY_BYTES)
                status, body = owner.take(self.path, dict(self.headers.items()), self.rfile.read(length))
                self.send_response(status)
                self.send_header("content-type", "application/problem+json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()

    @property
    def base_url(self) -> str:
        assert self._http is not None, "the server is entered"
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def launching(self, pipeline_id: str, session_id: str) -> None:
        """A pipeline is about to be launched; one that nobody launched is refused."""
        with self._lock:
            self._pipelines[pipeline_id] = Pipeline(pipeline_id, session_id)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """One request: verify, decide, store, answer. Under one lock, as a database transaction would be."""
        secrets, now = CallbackSecrets.parse(self.secret), time.time()
        with self._lock:
            if path == "/v1/questions":
                problem = self._question(secrets, headers, body, now)
            elif path == "/v1/terminals":
                problem = self._terminal(secrets, headers, body, now)
            else:
                return 404, b""
        return (200, b"") if problem is None else (problem.status, problem.to_body())

    def _question(self, secrets: CallbackSecrets, headers: dict[str, str], body: bytes, now: float) -> Problem | None:
        received = receive_question(secrets, headers, body, now)
        if isinstance(received, Problem):
            return received
        question = received.question
        decision = decide_question(self._pipelines.get(question.pipeline_id), received, streams=_OwnStreams())
        match decision:
            case Problem():
                return decision
            case ShowCard(pipeline):
                self.questions.append(question)
            case ShownBefore(pipeline):
                pass
        self._pipelines[question.pipeline_id] = pipeline
        return None

    def _terminal(self, secrets: CallbackSecrets, headers: dict[str, str], body: bytes, now: float) -> Problem | None:
        received = receive_terminal(secrets, headers, body, now)
        if isinstance(received, Problem):
            return received
        terminal = received.terminal
        point = self.restore_points.get(terminal.session_id)
        decision = decide_commit(self._pipelines.get(terminal.pipeline_id), point, received)
        match decision:
            case Problem():
                return decision
            case JudgedBefore(refused):
                return refused
            case Refuse(pipeline, problem):
                self._pipelines[terminal.pipeline_id] = pipeline
                return problem
            case Commit(pipeline, restore_point):
                self._pipelines[terminal.pipeline_id] = pipeline
                self.restore_points[terminal.session_id] = restore_point
                self.terminals.append(terminal)
                return None
