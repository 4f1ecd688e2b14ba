"""A real loopback HTTP server that takes questions and callbacks as `settlement` says, and misbehaves when
told to.

    with CallbackServer() as server:
        server.answer_terminals_with([500, Answer(409, problem="in-flight")])   # then as it should
        ... let a runner talk to server.base_url, signed with server.secret ...
        server.wait_for_terminals(3)
        assert server.committed[0].settlement.kind == "success"

It keeps everything in memory. A pipeline or session that nobody registered is taken on as it comes: the first
terminal's parent then counts as the session's restore point. Whatever hangs is released when the server
closes.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from settlement.callback import Terminal
from settlement.commit_rule import (
    Commit,
    JudgedBefore,
    Owed,
    Pipeline,
    Refuse,
    Reply,
    RestorePoint,
    ShowCard,
    ShownBefore,
    decide_commit,
    decide_question,
    keep_reply,
)
from settlement.heartbeat import Heartbeat
from settlement.question import Question
from settlement.receiving import Problem, receive_question, receive_terminal
from settlement.signing import CallbackSecrets, verify
from settlement.wire import read

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
QUESTIONS_PATH = "/v1/questions"
TERMINALS_PATH = "/v1/terminals"
HEARTBEATS_PATH = "/v1/heartbeats"
LONGEST_HANG_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets instead of the right answer.

    The request is not consumed, unless `consumed`: then the server does its work and only the answer goes
    wrong.
    """

    status: int = 200
    problem: str | None = None
    """Ends the problem `type`: `in-flight`, `superseded`, ..."""
    retry_after: str | None = None
    location: str | None = None
    """For redirects."""
    hang: bool = False
    """Say nothing until the client leaves or the server closes."""
    cut: bool = False
    """Close the connection without an answer."""
    slow_body: bool = False
    """Send the status line and headers, then a body that does not end."""
    consumed: bool = False
    body: bytes = b""
    """Of an answer without a problem."""


Scripted: TypeAlias = int | Answer | None
"""A status, an Answer, or None for the right answer."""


@dataclass(slots=True)
class Received:
    """One request as it came in, also one that was refused or left hanging."""

    path: str
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes
    status: int | None = None
    """What was answered; None while nothing was."""

    def json(self) -> Any:
        return json.loads(self.body)


class AnyStream:
    def __contains__(self, _stream_id: object) -> bool:
        return True


@dataclass(slots=True)
class _State:
    questions: list[Received] = field(default_factory=list[Received])
    terminals: list[Received] = field(default_factory=list[Received])
    heartbeats: list[Received] = field(default_factory=list[Received])
    other: list[Received] = field(default_factory=list[Received])
    pipelines: dict[str, Pipeline] = field(default_factory=dict[str, Pipeline])
    restore_points: dict[str, RestorePoint | None] = field(default_factory=dict[str, RestorePoint | None])
    cards: list[Question] = field(default_factory=list[Question])
    committed: list[Terminal] = field(default_factory=list[Terminal])
    owed: dict[str, Owed] = field(default_factory=dict[str, Owed])
    question_script: list[Scripted] = field(default_factory=list[Scripted])
    terminal_script: list[Scripted] = field(default_factory=list[Scripted])
    heartbeat_script: list[Scripted] = field(default_factory=list[Scripted])
    defects: list[BaseException] = field(default_factory=list[BaseException])


class CallbackServer:
    def __init__(self, secret: str = SECRET, *, on_terminal: "Callable[[Received], None] | None" = None) -> None:
        """`on_terminal` sees each terminal request as it comes in; what it raises, leaving the server raises too."""
        self.secret = secret
        self._on_terminal = on_terminal
        self._secrets = CallbackSecrets.parse(secret)
        self._state = _State()
        self._changed = threading.Condition()
        self.closing = threading.Event()
        self._http = _HttpServer(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="callback-server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join(10)
        self._http.server_close()
        if error is None and self._state.defects:
            raise AssertionError("the callback server itself failed") from self._state.defects[0]

    # --- what a test sees ---------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def questions(self) -> list[Received]:
        """Every question request, in the order they came, repeated and refused ones too."""
        return list(self._state.questions)

    @property
    def terminals(self) -> list[Received]:
        """Every terminal request, in the order they came, repeated and refused ones too."""
        return list(self._state.terminals)

    @property
    def heartbeats(self) -> list[Received]:
        """Every heartbeat, in the order they came, refused ones too."""
        return list(self._state.heartbeats)

    @property
    def other_requests(self) -> list[Received]:
        """Requests for any other path (answered 404), such as a redirect that was followed."""
        return list(self._state.other)

    @property
    def cards(self) -> list[Question]:
        """The questions that were shown, each once."""
        return list(self._state.cards)

    @property
    def committed(self) -> list[Terminal]:
        """The terminal records that were committed, each once."""
        return list(self._state.committed)

    def pipeline(self, pipeline_id: str) -> Pipeline:
        return self._state.pipelines[pipeline_id]

    def restore_point(self, session_id: str) -> RestorePoint | None:
        return self._state.restore_points.get(session_id)

    def owed(self, pipeline_id: str) -> Owed:
        """What the pipeline's terminal left to do for people."""
        return self._state.owed[pipeline_id]

    # --- what a test sets ---------------------------------------------------------------------------------

    def launched(self, pipeline_id: str, session_id: str, attempt: int = 1) -> None:
        """Make a pipeline known, or a higher attempt of it."""
        with self._changed:
            known = self._pipeline(pipeline_id, session_id)
            self._state.pipelines[pipeline_id] = replace(known, launched=max(attempt, known.launched))

    def set_restore_point(self, session_id: str, point: RestorePoint | None) -> None:
        with self._changed:
            self._state.restore_points[session_id] = point

    def reply(self, question_id: str, message: str, reply_id: str = "reply-1") -> bool:
        """A person answers while the pipeline runs; True if the reply is kept."""
        with self._changed:
            for pipeline in self._state.pipelines.values():
                kept = keep_reply(pipeline, Reply(reply_id, question_id, message))
                if kept is not None:
                    self._state.pipelines[pipeline.pipeline_id] = kept
                    return True
            return False

    def forget(self, pipeline_id: str, session_id: str) -> None:
        """Drop everything kept about a pipeline that is done with, so that a long life does not fill the memory."""
        with self._changed:
            state = self._state
            for requests in (state.questions, state.terminals):
                requests[:] = [one for one in requests if one.json()["pipeline_id"] != pipeline_id]
            state.cards[:] = [one for one in state.cards if one.pipeline_id != pipeline_id]
            state.committed[:] = [one for one in state.committed if one.pipeline_id != pipeline_id]
            for kept, name in ((state.pipelines, pipeline_id), (state.owed, pipeline_id)):
                kept.pop(name, None)
            state.restore_points.pop(session_id, None)

    def answer_questions_with(self, script: Iterable[Scripted]) -> None:
        """Answers of the next question requests; afterwards the right ones."""
        with self._changed:
            self._state.question_script[:] = script

    def answer_terminals_with(self, script: Iterable[Scripted]) -> None:
        """Answers of the next terminal requests; afterwards the right ones."""
        with self._changed:
            self._state.terminal_script[:] = script

    def answer_heartbeats_with(self, script: Iterable[Scripted]) -> None:
        """Answers of the next heartbeats; afterwards an empty 200."""
        with self._changed:
            self._state.heartbeat_script[:] = script

    def wait_for_heartbeats(self, count: int, timeout_s: float = 10) -> list[Received]:
        """The heartbeats, once there are `count`."""
        return self._wait_for(self._state.heartbeats, count, timeout_s)

    def wait_for_questions(self, count: int, timeout_s: float = 10) -> list[Received]:
        """The question requests, once there are `count`."""
        return self._wait_for(self._state.questions, count, timeout_s)

    def wait_for_terminals(self, count: int, timeout_s: float = 10) -> list[Received]:
        """The terminal requests, once there are `count`."""
        return self._wait_for(self._state.terminals, count, timeout_s)

    def _wait_for(self, requests: list[Received], count: int, timeout_s: float) -> list[Received]:
        with self._changed:
            if not self._changed.wait_for(lambda: len(requests) >= count, timeout_s):
                raise AssertionError(f"{len(requests)} requests within {timeout_s} s, expected {count}")
            return list(requests)

    # --- what the HTTP side calls -------------------------------------------------------------------------

    def take(self, request: Received) -> Answer | Problem:
        """Record a request, consume it unless the script says otherwise, and say what to answer."""
        if request.path == TERMINALS_PATH and self._on_terminal is not None:
            self._on_terminal(request)
        with self._changed:
            if request.path == QUESTIONS_PATH:
                kept, script, consume = self._state.questions, self._state.question_script, self._question
            elif request.path == TERMINALS_PATH:
                kept, script, consume = self._state.terminals, self._state.terminal_script, self._terminal
            elif request.path == HEARTBEATS_PATH:
                kept, script, consume = self._state.heartbeats, self._state.heartbeat_script, self._heartbeat
            else:
                self._state.other.append(request)
                return Answer(404)
            kept.append(request)
            scripted = script.pop(0) if script else None
            wrong = Answer(scripted) if isinstance(scripted, int) else scripted
            problem = consume(request) if wrong is None or wrong.consumed else None
            self._changed.notify_all()
            return wrong or problem or Answer(200)

    def failed(self, error: BaseException) -> None:
        self._state.defects.append(error)

    def _question(self, request: Received) -> Problem | None:
        received = receive_question(self._secrets, request.headers, request.body, time.time())
        if isinstance(received, Problem):
            return received
        pipeline = self._pipeline(received.question.pipeline_id, received.question.session_id)
        decision = decide_question(pipeline, received, streams=AnyStream())
        match decision:
            case ShowCard():
                self._state.cards.append(received.question)
                self._state.pipelines[pipeline.pipeline_id] = decision.pipeline
            case ShownBefore():
                self._state.pipelines[pipeline.pipeline_id] = decision.pipeline
            case Problem():
                return decision
        return None

    def _terminal(self, request: Received) -> Problem | None:
        received = receive_terminal(self._secrets, request.headers, request.body, time.time())
        if isinstance(received, Problem):
            return received
        terminal = received.terminal
        pipeline = self._pipeline(terminal.pipeline_id, terminal.session_id)
        points = self._state.restore_points
        if terminal.session_id not in points:
            parent = terminal.checkpoint.parent
            points[terminal.session_id] = None if parent is None else RestorePoint(parent)
        decision = decide_commit(pipeline, points[terminal.session_id], received)
        match decision:
            case Commit():
                self._state.pipelines[pipeline.pipeline_id] = decision.pipeline
                points[terminal.session_id] = decision.restore_point
                self._state.owed[pipeline.pipeline_id] = decision.owed
                self._state.committed.append(terminal)
            case Refuse():
                self._state.pipelines[pipeline.pipeline_id] = decision.pipeline
                self._state.owed[pipeline.pipeline_id] = decision.owed
                return decision.problem
            case JudgedBefore():
                return decision.refused
            case Problem():
                return decision
        return None

    def _heartbeat(self, request: Received) -> Problem | None:
        try:
            verify(self._secrets, request.headers, request.body, time.time())
            read(Heartbeat, request.body)
        except ValueError as error:
            return Problem("unsigned", str(error))
        return None

    def _pipeline(self, pipeline_id: str, session_id: str) -> Pipeline:
        return self._state.pipelines.setdefault(pipeline_id, Pipeline(pipeline_id, session_id))


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for the handlers, each of which is bounded

    def __init__(self, owner: CallbackServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        import sys

        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.owner.failed(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    @property
    def owner(self) -> CallbackServer:
        return cast(_HttpServer, self.server).owner

    def log_message(self, *_args: Any, **_named: Any) -> None:
        """Tests stay quiet; requests are kept, not printed."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.close_connection = True
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            return  # the client has left in the middle of its request
        request = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        answer = self.owner.take(request)
        if isinstance(answer, Problem):
            request.status = answer.status
            self._send(answer.status, {"content-type": "application/problem+json"}, answer.to_body())
        elif answer.hang:
            self.owner.closing.wait(LONGEST_HANG_S)
        elif not answer.cut:
            request.status = answer.status
            self._send_scripted(answer)

    def _send_scripted(self, answer: Answer) -> None:
        headers = {"retry-after": answer.retry_after, "location": answer.location}
        wanted = {name: value for name, value in headers.items() if value is not None}
        if answer.slow_body:
            self._send_slowly(answer.status, wanted)
        elif answer.problem is None:
            self._send(answer.status, wanted, answer.body)
        else:
            problem = json.dumps({"type": f"https://problems.example/{answer.problem}"}).encode()
            self._send(answer.status, {"content-type": "application/problem+json", **wanted}, problem)

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        with suppress(OSError):  # the client may have left
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

    def _send_slowly(self, status: int, headers: dict[str, str]) -> None:
        with suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            ends = time.monotonic() + LONGEST_HANG_S
            while time.monotonic() < ends and not self.owner.closing.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
