"""The gate through which questions leave the process, and the record of those that did.

One gate per process: it opens with the run and is closed, for good, before the outcome is read, so that no
card appears on somebody's screen after the settlement was worked out. It refuses to ask when it is closed,
when the run is being aborted, or when nobody can take the question; each of these is an answer for the
model, never a wait.

A question is recorded as soon as it may have arrived. Once sending has begun it runs to its own end,
whatever becomes of the tool call that waits for it: the server's "taken" must not be lost, nor a card be
forgotten.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from runner.agent.abort import AbortSignal
from runner.interruption import MAX_CALL_ID_CHARS, AskedCall
from settlement.outcome import SentQuestion

if TYPE_CHECKING:
    from settlement.question import Question

MAX_QUESTIONS = 20
"""Of one run. The terminal callback names them all and has room for 20 KB."""


class Sent(Struct, frozen=True):
    """The server has the question."""


class Refused(Struct, frozen=True):
    """The server will not take it. `message` is a sentence for the model, without secrets."""

    message: str
    may_not_ask: bool = False
    """True if this pipeline may not ask any more at all."""
    possibly_sent: bool = False
    """An earlier try of the same question had no answer and may have been taken."""


class Unreachable(Struct, frozen=True):
    """No try had a final answer."""

    message: str
    possibly_sent: bool = False


SendResult: TypeAlias = Sent | Refused | Unreachable


class QuestionSender(Protocol):
    async def send(self, question: "Question", signal: AbortSignal | None) -> SendResult:
        """Give the question to the server, within a bound.

        Idempotent by the question's id: tries of one question carry the same bytes. An abort ends the
        retries, but not the try under way. Raises only for a defect.
        """
        ...


class Asker(Struct, frozen=True):
    """Who asks: goes into every question."""

    pipeline_id: str
    attempt: int
    session_id: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Ask(Struct, frozen=True, kw_only=True):
    """What a tool call wants to have asked, validated. Either `question` or `form`."""

    tool_call_id: str
    tool_name: str
    question: str | None = None
    context: str | None = None
    options: tuple[str, ...] | None = None
    form: Any = None
    stream_id: str | None = None


class Asked(Struct, frozen=True):
    question_id: str


class NotAsked(Struct, frozen=True):
    message: str
    """A sentence for the model: why, and what to do instead."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class QuestionGate:
    """`sender` None: no server is configured. `assistant_entry_id`: of the log's last assistant message."""

    def __init__(
        self,
        *,
        sender: QuestionSender | None,
        asker: Asker,
        assistant_entry_id: Callable[[], str | None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._sender = sender
        self._asker = asker
        self._assistant_entry_id = assistant_entry_id
        self._now = now
        self._closed: str | None = None
        self._records: dict[str, SentQuestion | None] = {}
        """By question id, in the order of asking; None for one that surely did not arrive (yet)."""
        self._posting: set[asyncio.Task[SendResult]] = set()

    @property
    def sent(self) -> tuple[SentQuestion, ...]:
        """Every question that went out, or may have. Complete once `drain` has returned."""
        return tuple(record for record in self._records.values() if record is not None)

    def close(self, reason: str = "the run is over, no question can be asked any more") -> None:
        """From now on nothing new is sent. The first reason stays."""
        if self._closed is None:
            self._closed = reason

    async def drain(self, timeout_s: float) -> None:
        """Wait for the sending under way; what has no answer by then is cut off and counts as possibly
        sent."""
        if self._posting:
            await asyncio.wait(self._posting, timeout=timeout_s)
        for task in tuple(self._posting):
            task.cancel()
        if self._posting:
            await asyncio.wait(self._posting, timeout=1.0)

    def note(self, call: AskedCall) -> None:
        """Record the question of an asking tool that sent it by itself, under the id which that call's
        question has."""
        entry_id, identity = self._assistant_entry_id(), self.identity_of(call.tool_call_id)
        if entry_id is None or identity is None:
            return
        self._records[identity] = SentQuestion(identity, call.tool_call_id, call.tool_name, entry_id)

    def identity_of(self, tool_call_id: str) -> str | None:
        """The id that the question of a call of the log's last answer has; None before there is an answer."""
        from settlement.question import question_id

        entry_id = self._assistant_entry_id()
        return None if entry_id is None else question_id(self._asker.pipeline_id, entry_id, tool_call_id)

    async def ask(self, ask: Ask, signal: AbortSignal | None) -> Asked | NotAsked:
        """Send one question. Returns when the server has answered or sending was given up."""
        if self._closed is not None:
            return NotAsked(f"The question was not sent: {self._closed}.")
        if signal is not None and signal.aborted:
            return NotAsked("The question was not sent: the run is being stopped.")
        sender, entry_id = self._sender, self._assistant_entry_id()
        if sender is None or entry_id is None:
            return NotAsked(
                "The question was not sent: nobody can be asked in this run. Go on with what you know, or "
                "end with a text that says what is missing."
            )
        if len(ask.tool_call_id) > MAX_CALL_ID_CHARS:
            return NotAsked("The question was not sent: the id of this call is too long to be answered.")
        if len(self._records) >= MAX_QUESTIONS:
            return NotAsked(f"The question was not sent: a run may ask {MAX_QUESTIONS} at most.")
        question = self._question(ask, entry_id)
        if question.question_id in self._records:
            return NotAsked("The question was not sent: this call id has been used for a question already.")
        self._records[question.question_id] = None
        # Shielded: a tool call that is cancelled stops waiting, the sending goes on to its own end.
        result = await asyncio.shield(self._start(sender, question, entry_id, signal))
        match result:
            case Sent():
                return Asked(question.question_id)
            case Refused() | Unreachable():
                return NotAsked(result.message)

    def _question(self, ask: Ask, entry_id: str) -> "Question":
        from settlement.question import build_question
        from settlement.wire import time_text

        return build_question(
            pipeline_id=self._asker.pipeline_id,
            attempt=self._asker.attempt,
            session_id=self._asker.session_id,
            labels=self._asker.labels,
            entry_id=entry_id,
            tool_call_id=ask.tool_call_id,
            tool_name=ask.tool_name,
            asked_at=time_text(self._now()),
            question=ask.question,
            context=ask.context,
            options=ask.options,
            form=ask.form,
            stream_id=ask.stream_id,
        )

    def _start(
        self, sender: QuestionSender, question: "Question", entry_id: str, signal: AbortSignal | None
    ) -> asyncio.Task[SendResult]:
        task = asyncio.ensure_future(self._post(sender, question, entry_id, signal))
        self._posting.add(task)
        task.add_done_callback(self._posted)
        return task

    def _posted(self, task: asyncio.Task[SendResult]) -> None:
        self._posting.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it when nobody waits any more

    async def _post(
        self, sender: QuestionSender, question: "Question", entry_id: str, signal: AbortSignal | None
    ) -> SendResult:
        identity = question.question_id
        record = SentQuestion(identity, question.tool_call_id, question.tool_name, entry_id, confirmed=False)
        # Possibly sent until known better: also if this is cut off, or a defect raises.
        self._records[identity] = record
        result = await sender.send(question, signal)
        match result:
            case Sent():
                self._records[identity] = replace(record, confirmed=True)
            case Refused() | Unreachable():
                if not result.possibly_sent:
                    self._records[identity] = None
                if isinstance(result, Refused) and result.may_not_ask:
                    self.close("this pipeline may not ask any more")
        return result
