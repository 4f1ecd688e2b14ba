"""Questions over HTTP: the adapter behind the gate, over the same delivery as the terminal callback.

Signed, and idempotent by the question's id: every try carries the same bytes, so that a server which took
the first one and whose answer was lost answers the second as it would have the first. Refuses to follow
redirects, to wait without a bound, and to repeat to the model anything that came over the network.

Possibly sent is a question of which some try ended in a way that does not rule out that the server took it
(the connection broke or timed out once it stood, a 5xx, 409 `in-flight`), and which no later try saw
answered with 2xx.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from runner.agent.abort import AbortSignal
from runner.question_gate import Refused, SendResult, Sent, Unreachable
from settlement.delivery import REAL_WORLD, Surroundings, Try, deliver
from settlement.errors import AddressInvalid
from settlement.signing import CallbackSecrets
from settlement.verdict import Answer, Delivered, GaveUp, NoAnswer, Rejected, Retry
from settlement.verdict import Refused as RefusedByServer

if TYPE_CHECKING:
    import httpx

    from settlement.question import Question

BUDGET_S = 45.0
"""For all tries of one question, pauses included."""
MAX_TRIES = 6


class HttpQuestionSender:
    """Posts to `url`. `time_left`: what remains of the pipeline's time, in seconds; nothing is tried beyond
    it."""

    def __init__(
        self,
        url: str,
        secrets: CallbackSecrets,
        *,
        time_left: Callable[[], float],
        budget_s: float = BUDGET_S,
        traceparent: str | None = None,
        on_try: "Callable[[str, Try], None] | None" = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
        around: Surroundings = REAL_WORLD,
    ) -> None:
        self._url = url
        self._secrets = secrets
        self._time_left = time_left
        self._budget_s = budget_s
        self._traceparent = traceparent
        self._on_try = on_try
        self._transport = transport
        self._around = around

    async def send(self, question: "Question", signal: AbortSignal | None) -> SendResult:
        """See `QuestionSender`. At most `MAX_TRIES` tries, within the budget and the pipeline's time."""
        from settlement.question import to_body

        tries: list[Try] = []

        def on_try(tried: Try) -> None:
            tries.append(tried)
            if self._on_try is not None:
                self._on_try(question.question_id, tried)

        try:
            delivery = await deliver(
                self._url,
                question.question_id,
                to_body(question),
                self._secrets,
                budget_s=min(self._budget_s, self._time_left()),
                on_try=on_try,
                go_on=lambda: len(tries) < MAX_TRIES and not (signal is not None and signal.aborted),
                traceparent=self._traceparent,
                transport=self._transport,
                around=_woken_by(signal, self._around),
            )
        except AddressInvalid:
            return Refused("The question was not sent: the server's address is not usable.")
        possibly_sent = any(_may_have_been_taken(tried) for tried in tries)
        match delivery.verdict:
            case Delivered():
                return Sent()
            case Rejected():
                return Refused(_MAY_NOT_ASK, may_not_ask=True, possibly_sent=possibly_sent)
            case RefusedByServer(status):
                return Refused(_refused(status), possibly_sent=possibly_sent)
            case GaveUp(last):
                return Unreachable(_gave_up(last, len(tries)), possibly_sent=possibly_sent)
            case _:
                assert_never(delivery.verdict)


def _woken_by(signal: AbortSignal | None, around: Surroundings) -> Surroundings:
    """The same surroundings, whose pauses an abort ends at once."""
    if signal is None:
        return around

    async def sleep(seconds: float) -> None:
        pause = asyncio.ensure_future(around.sleep(seconds))
        abort = asyncio.ensure_future(signal.wait())
        try:
            await asyncio.wait({pause, abort}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            abort.cancel()

    return replace(around, sleep=sleep)


def _may_have_been_taken(tried: Try) -> bool:
    """Whether this try leaves it open that the server has the question. Only what it may try again can do
    so."""
    if not isinstance(tried.verdict, Retry | GaveUp):
        return False
    match tried.answer:
        case NoAnswer(may_have_arrived=arrived):
            return arrived
        case Answer(status=status):
            return status >= 500 or status == 409


# --- words for the model: nothing in them came over the network ----------------------------------------

_MAY_NOT_ASK = "The question was not sent: the server does not take questions of this run any more."
_INSTEAD = "go on without the answer, or end with a text that says what is missing."


def _refused(status: int) -> str:
    return (
        f"The question was not sent: the server refused it (HTTP {status}). "
        f"Asking the same again will not help; {_INSTEAD}"
    )


def _gave_up(last: Answer | NoAnswer | None, tries: int) -> str:
    match last:
        case None:
            found = "there is no time left"
        case NoAnswer(what=what):
            found = what
        case Answer(status=status):
            found = f"the server answered HTTP {status}"
    return f"The question was not delivered: {found} (tries: {tries}). Ask again later, or {_INSTEAD}"
