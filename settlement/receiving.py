"""The consuming side's door: from a raw HTTP request to a verified question or terminal, or to a problem to
answer with.

For any server, with any framework: headers and body go in, values come out, and every value knows its HTTP
status. What a server then does with them is in `commit_rule`. Refuses to parse what is not signed, and to
read without a bound.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import ValidationError

from settlement.callback import Terminal, webhook_id
from settlement.errors import SignatureInvalid
from settlement.heartbeat import Heartbeat
from settlement.question import Question
from settlement.signing import TOLERANCE_S, CallbackSecrets, verify
from settlement.wire import AnyWireModel, json_bytes, read

MAX_RECEIVED_BYTES = 256 * 1024

ProblemReason: TypeAlias = Literal[
    "unsigned",
    "too-large",
    "malformed",
    "unknown-pipeline",
    "wrong-session",
    "foreign-stream",
    "in-flight",
    "superseded",
    "not-the-restore-point",
    "other-body",
]

STATUS_OF: Final[Mapping[ProblemReason, int]] = {
    "unsigned": 401,
    "too-large": 413,
    "malformed": 400,
    "unknown-pipeline": 404,
    "wrong-session": 422,
    "foreign-stream": 403,
    "in-flight": 409,
    "superseded": 409,
    "not-the-restore-point": 409,
    "other-body": 422,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal as RFC 9457 has it. The runner retries `in-flight` only; every other one is final for it."""

    reason: ProblemReason
    detail: str

    @property
    def status(self) -> int:
        return STATUS_OF[self.reason]

    @property
    def type(self) -> str:
        return f"urn:pipeline-runner:problem:{self.reason}"

    def to_body(self) -> bytes:
        """The body to answer with, as `application/problem+json`."""
        return json_bytes({"type": self.type, "title": self.reason, "status": self.status, "detail": self.detail})


IN_FLIGHT = Problem("in-flight", "this id is being worked on; send it again")
"""For a server that is still committing the same `webhook-id` in another request."""


@dataclass(frozen=True, slots=True)
class ReceivedQuestion:
    question: Question
    digest: str
    """Of what is asked, without `attempt`, `asked_at`, `labels`: a takeover that asks again asks the same."""


@dataclass(frozen=True, slots=True)
class ReceivedTerminal:
    terminal: Terminal
    digest: str
    """`sha256:<hex>` of the exact body."""


QuestionRequest: TypeAlias = ReceivedQuestion | Problem
TerminalRequest: TypeAlias = ReceivedTerminal | Problem


def receive_question(
    secrets: CallbackSecrets,
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> QuestionRequest:
    """Verify and parse a question. `body` is the raw one, `now_s` the server's clock (Unix seconds)."""
    signed_id = _proven(secrets, headers, body, now_s, tolerance_s)
    if isinstance(signed_id, Problem):
        return signed_id
    question = _parsed(Question, body)
    if isinstance(question, Problem):
        return question
    if signed_id != question.question_id:
        return Problem("malformed", "webhook-id is not the body's question_id")
    return ReceivedQuestion(question, _asked(question))


def receive_terminal(
    secrets: CallbackSecrets,
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> TerminalRequest:
    """Verify and parse a terminal callback; arguments as for `receive_question`."""
    signed_id = _proven(secrets, headers, body, now_s, tolerance_s)
    if isinstance(signed_id, Problem):
        return signed_id
    terminal = _parsed(Terminal, body)
    if isinstance(terminal, Problem):
        return terminal
    if signed_id != webhook_id(terminal.pipeline_id):
        return Problem("malformed", "webhook-id is not term_<pipeline_id> of the body")
    return ReceivedTerminal(terminal, "sha256:" + hashlib.sha256(body).hexdigest())


def receive_heartbeat(
    secrets: CallbackSecrets,
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> Heartbeat | Problem:
    """Verify and parse a heartbeat; arguments as for `receive_question`. Its `webhook-id` names nothing to compare."""
    signed_id = _proven(secrets, headers, body, now_s, tolerance_s)
    return signed_id if isinstance(signed_id, Problem) else _parsed(Heartbeat, body)


def _proven(
    secrets: CallbackSecrets, headers: Mapping[str, str], body: bytes, now_s: float, tolerance_s: float
) -> str | Problem:
    if len(body) > MAX_RECEIVED_BYTES:
        return Problem("too-large", f"more than {MAX_RECEIVED_BYTES} bytes")
    try:
        return verify(secrets, headers, body, now_s, tolerance_s).webhook_id
    except SignatureInvalid as error:
        return Problem("unsigned", error.message)


def _parsed(model: type[AnyWireModel], body: bytes) -> AnyWireModel | Problem:
    try:
        return read(model, body)
    except ValidationError as error:
        places = [
            f"{'.'.join(str(part) for part in entry['loc']) or 'body'}: {entry['msg']}"
            for entry in error.errors(include_url=False, include_context=False, include_input=False)[:3]
        ]
        return Problem("malformed", f"not a {model.__name__.lower()}: {'; '.join(places)}")


def _asked(question: Question) -> str:
    asked = question.model_dump(mode="json", exclude={"attempt", "asked_at", "labels"})
    return "sha256:" + hashlib.sha256(json_bytes(asked)).hexdigest()
