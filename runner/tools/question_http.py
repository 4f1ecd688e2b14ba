"""Questions over HTTP: the adapter behind the gate.

Signed as Standard Webhooks, idempotent by the question's id: every try carries the same bytes, so that a
server which took the first one and whose answer was lost answers the second one as before. Refuses to
follow redirects, to wait without a bound, and to say anything that it got from the network in the text
which the model sees.

What counts as possibly sent: a try that broke or timed out after the connection stood, or a 5xx, after
which no later try was answered with 2xx. A 2xx is final as soon as its status is there; the body is not
waited for.
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.question_gate import Refused, SendResult, Sent, Unreachable
from settlement.signing import CallbackSecrets, webhook_headers

if TYPE_CHECKING:
    import httpx

    from settlement.question import Question

CONNECT_S = 5.0
TRY_S = 10.0
BUDGET_S = 45.0
"""For all tries of one question, pauses included."""
MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
MAX_PROBLEM_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    problem: str | None = None
    """The problem document's `type`, if the server sent one."""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No status came. `found` says how, in words that are ours."""

    found: str
    maybe_taken: bool
    """False if the connection never stood, so that the server cannot have the question."""


Try: TypeAlias = Answered | Unanswered
Verdict: TypeAlias = Literal["sent", "again", "refused", "may_not_ask"]


def judge_try(tried: Try) -> Verdict:
    """What one try means: the table of the question contract."""
    if isinstance(tried, Unanswered):
        return "again"
    status = tried.status
    if 200 <= status < 300:
        return "sent"
    if status == 409:
        return "again" if _is_in_flight(tried.problem) else "may_not_ask"
    if status == 410:
        return "may_not_ask"
    if status in (408, 425, 429) or status >= 500:
        return "again"
    return "refused"


def maybe_taken(tried: Try) -> bool:
    """Whether the server may hold the question although this try did not say so."""
    if isinstance(tried, Unanswered):
        return tried.maybe_taken
    return tried.status >= 500 or (tried.status == 409 and _is_in_flight(tried.problem))


def pause_before(tries: int, tried: Try, jitter: float) -> float:
    """Seconds to wait after `tries` tries: full jitter (0..1), unless the server named a longer time."""
    pause = jitter * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (tries - 1))
    named = tried.retry_after_s if isinstance(tried, Answered) else None
    return pause if named is None else max(pause, named)


def _is_in_flight(problem: str | None) -> bool:
    return problem is not None and problem.endswith("in-flight")


async def pause_or_abort(seconds: float, signal: AbortSignal | None) -> None:
    """Wait, but no longer than until the abort."""
    if signal is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(signal.wait(), seconds)
    except TimeoutError:
        return


class HttpQuestionSender:
    """Posts to `url`. `time_left` is what remains of the pipeline's time, in seconds; no try begins beyond
    it."""

    def __init__(
        self,
        url: str,
        secrets: CallbackSecrets,
        *,
        time_left: Callable[[], float],
        try_s: float = TRY_S,
        budget_s: float = BUDGET_S,
        now_s: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        pause: Callable[[float, AbortSignal | None], Awaitable[None]] = pause_or_abort,
    ) -> None:
        self._url = url
        self._secrets = secrets
        self._time_left = time_left
        self._try_s = try_s
        self._budget_s = budget_s
        self._now_s = now_s
        self._monotonic = monotonic
        self._jitter = jitter
        self._pause = pause

    async def send(self, question: "Question", signal: AbortSignal | None) -> SendResult:
        """See `QuestionSender`. At most `MAX_TRIES` tries within the budget and the pipeline's time."""
        import httpx

        from settlement.question import to_body

        body = to_body(question)
        ends = self._monotonic() + min(self._budget_s, self._time_left())
        possibly_sent = False
        tries = 0
        last: Try = Unanswered("no time was left", maybe_taken=False)
        timeout = httpx.Timeout(self._try_s, connect=min(CONNECT_S, self._try_s))
        async with httpx.AsyncClient(timeout=timeout, follow_redirects=False) as client:
            while tries < MAX_TRIES and (left := ends - self._monotonic()) > 0:
                tries += 1
                last = await self._try(client, question.question_id, body, min(self._try_s, left))
                match judge_try(last):
                    case "sent":
                        return Sent()
                    case "refused":
                        return Refused(_refusal(last), possibly_sent=possibly_sent)
                    case "may_not_ask":
                        return Refused(_NOT_ALLOWED, may_not_ask=True, possibly_sent=possibly_sent)
                    case "again":
                        possibly_sent = possibly_sent or maybe_taken(last)
                pause = pause_before(tries, last, self._jitter())
                if tries == MAX_TRIES or self._monotonic() + pause >= ends:
                    break
                await self._pause(pause, signal)
                if signal is not None and signal.aborted:
                    break
        return Unreachable(_gave_up(last, tries), possibly_sent)

    async def _try(self, client: "httpx.AsyncClient", question_id: str, body: bytes, seconds: float) -> Try:
        import httpx

        headers = webhook_headers(self._secrets, question_id, int(self._now_s()), body)
        headers["accept-encoding"] = "identity"
        try:
            async with asyncio.timeout(seconds):
                request = client.stream("POST", self._url, content=body, headers=headers)
                async with request as response:
                    problem = await _problem_type(response) if response.status_code == 409 else None
                    return Answered(response.status_code, problem, _retry_after(response))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            return Unanswered("there was no connection", maybe_taken=False)
        except (httpx.TimeoutException, TimeoutError):
            return Unanswered("there was no answer in time", maybe_taken=True)
        except httpx.TransportError:
            return Unanswered("the connection broke", maybe_taken=True)


async def _problem_type(response: "httpx.Response") -> str | None:
    """The `type` of an RFC 9457 document, read within a bound; None if there is none."""
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > MAX_PROBLEM_BYTES:
            return None
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    kind = cast("JsonObject", document).get("type") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else None


def _retry_after(response: "httpx.Response") -> float | None:
    """Whole seconds only; a date would need the server's clock to be ours."""
    value = response.headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 6 else None


# --- words for the model: nothing in them came over the network ----------------------------------------

_NOT_ALLOWED = "The question was not sent: the server does not take questions of this run any more."


def _refusal(tried: Try) -> str:
    status = tried.status if isinstance(tried, Answered) else 0
    return (
        f"The question was not sent: the server refused it (HTTP {status}). Asking the same again will "
        "not help; go on without the answer, or end with a text that says what is missing."
    )


def _gave_up(tried: Try, tries: int) -> str:
    found = tried.found if isinstance(tried, Unanswered) else f"the server answered HTTP {tried.status}"
    return (
        f"The question could not be delivered: {found} (tries: {tries}). Go on without the answer, ask "
        "again later, or end with a text that says what is missing."
    )
