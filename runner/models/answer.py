"""One answer of a model under way: joins a wire protocol to a connection and gives the loop its events.

Never raises for what the model, its server or the network do: the last event is `done` or `error`, and what
went wrong is `failure`. Aborting closes the connection at once and keeps what had come.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoint.jsontypes import Message
from runner.agent.abort import AbortSignal
from runner.agent.types import StreamEvent
from runner.models.failure import Failure, ModelCallFailed, silent_overflow, unreadable_stream
from runner.models.json_text import body_bytes
from runner.models.pricing import PriceBook
from runner.models.protocol import AnswerReader, Conversation, HttpRequest, WireProtocol
from runner.models.retry import repeat_request
from runner.models.secrets_out import secret_values, without_secrets
from runner.models.settings import CallOptions, ModelSettings
from runner.models.sse import events
from runner.models.transport import (
    HttpTransport,
    read_error_body,
    silence_failure,
    transport_failure,
    wanted_delay_s,
)
from runner.models.watch import Interrupted, Watch

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

    from runner.models.recorder import Recording

ABORTED = "Request was aborted"
_LINGER_S = 0.25  # after a terminal event: what some servers still send
_ERROR_BODY_S = 30.0
_PRICES_S = 10.0

_MALFORMED = (AttributeError, TypeError, KeyError, IndexError, ValueError, RecursionError)

Sleep = Callable[[float], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an answer needs of the process; shared by all answers."""

    transport: HttpTransport
    prices: PriceBook | None = None
    sleep: Sleep = asyncio.sleep
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time


class Answer:
    """An `AssistantStream`. Iterate it once; `result` reads on to the end if that was not done."""

    def __init__(
        self,
        protocol: WireProtocol,
        model: ModelSettings,
        talk: Conversation,
        options: CallOptions,
        signal: AbortSignal | None,
        around: Surroundings,
        recording: "Recording | None" = None,
    ) -> None:
        self.failure: Failure | None = None
        """Set with the last event of an answer that failed; also of one that looks good but was cut short
        unseen."""
        self._protocol = protocol
        self._model = model
        self._talk = talk
        self._options = options
        self._signal = signal
        self._around = around
        self._recording = recording
        self._reader: AnswerReader = protocol.reader(model, talk, options)
        self._reading = False
        self._url = ""
        self._secrets: list[str] = []
        self._events = self._run()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    async def result(self) -> Message:
        async for _ in self._events:
            pass
        return self._reader.draft.message

    def is_about(self, message: Message) -> bool:
        """Whether `message` is this answer, or a cleaned copy of it."""
        mine = self._reader.draft.message
        return all(message.get(key) == mine.get(key) for key in ("timestamp", "stopReason", "responseId"))

    async def aclose(self) -> None:
        """Give the answer up: the connection is closed, no further event comes."""
        await self._events.aclose()

    # --- the story of one answer -------------------------------------------------------------------------

    async def _run(self) -> AsyncGenerator[StreamEvent, None]:
        import httpx

        begun = time.monotonic()
        reader, signal = self._reader, self._signal
        watch = Watch(signal, self._model.timeouts.total_s)
        response: httpx.Response | None = None
        aborted = False
        request = self._protocol.request(self._model, self._talk, self._options)
        content = body_bytes(request.body)
        try:
            response = await self._open(request, content, watch)
            yield reader.draft.event("start")
            async with aclosing(self._server_events(response, watch)) as sse_events:
                async for sse in sse_events:
                    self._reading = True
                    if sse.data:
                        for event in reader.feed(sse.event, sse.data):
                            yield event
                        if reader.complete:
                            break
                        if signal is not None and signal.aborted:
                            raise Interrupted(aborted=True)
        except Interrupted as why:
            aborted = why.aborted
            if not reader.ending or aborted:
                self.failure = None if aborted else silence_failure(why, self._url)
        except ModelCallFailed as failed:
            self.failure = failed.failure
        except (httpx.HTTPError, httpx.StreamError) as error:
            self.failure = None if reader.ending else transport_failure(error, self._url)
        except _MALFORMED as error:
            # The readers take any event of known shape; what trips them has members of unheard-of types.
            self.failure = unreadable_stream(f"The model's answer breaks its protocol ({type(error).__name__})")
        finally:
            watch.close()
            if response is not None:
                await response.aclose()
            if self._recording is not None:
                self._recording.close()
        if not aborted and self.failure is None:
            for event in self._finish():
                yield event
        aborted = aborted or (signal is not None and signal.aborted and self.failure is not None)
        if aborted or self.failure is not None:
            for event in reader.interrupted(aborted=aborted):
                yield event
        await self._price_late(0.0 if aborted else _PRICES_S)
        reader.draft.message["durationMs"] = int((time.monotonic() - begun) * 1000)
        last = self._last_event(aborted=aborted)
        if self._recording is not None:
            self._recording.finished(reader.draft.message)
        yield last

    def _finish(self) -> list[StreamEvent]:
        try:
            return self._reader.finish()
        except ModelCallFailed as failed:
            self.failure = failed.failure
            return []

    def _last_event(self, *, aborted: bool) -> StreamEvent:
        draft = self._reader.draft
        if aborted:
            self.failure = None
        if self.failure is not None:
            self.failure = replace(self.failure, message=without_secrets(self.failure.message, self._secrets))
        if aborted or self.failure is not None:
            return draft.failed(self.failure, ABORTED, aborted=aborted)
        if silent_overflow(draft.message, self._model.context_window):
            text = "The conversation no longer fits the model's context window"
            self.failure = Failure("context_overflow", text)
        return draft.done()

    def _server_events(self, response: "httpx.Response", watch: Watch) -> "AsyncGenerator[ServerSentEvent, None]":
        if self._around.prices is not None and self._model.prices is None:
            self._around.prices.begin()
        chunks = response.aiter_bytes()
        if self._recording is not None:
            chunks = self._recording.copied(chunks)
        return events(chunks, watch, self._limit_s)

    def _limit_s(self) -> float:
        if self._reader.ending:
            return _LINGER_S
        timeouts = self._model.timeouts
        return timeouts.between_events_s if self._reading else timeouts.first_byte_s

    # --- the request -------------------------------------------------------------------------------------

    async def _open(self, request: HttpRequest, content: bytes, watch: Watch) -> "httpx.Response":
        """Send the request, again if it may be, until an answer begins. Raises `ModelCallFailed`,
        `Interrupted`."""
        if self._signal is not None and self._signal.aborted:
            raise Interrupted(aborted=True)
        self._check_key()
        self._url = request.url
        self._secrets = secret_values(request.headers)
        if self._recording is not None:
            self._recording.sent(request)
        attempt = 0
        while True:
            outcome = await self._try(request, content, watch)
            if not isinstance(outcome, tuple):
                return outcome
            failure, asked = outcome
            verdict = repeat_request(
                attempt,
                failure,
                asked=asked,
                most=self._options.max_retries,
                cap_s=self._options.max_retry_delay_s,
                jitter=self._around.jitter(),
            )
            if isinstance(verdict, Failure):
                raise ModelCallFailed(verdict)
            await watch.wait(partial(self._around.sleep, verdict), verdict + 60)
            attempt += 1

    async def _try(
        self, request: HttpRequest, content: bytes, watch: Watch
    ) -> "httpx.Response | tuple[Failure, Mapping[str, str]]":
        """The head of a good answer; else what went wrong, and the headers that say whether to try again."""
        import httpx

        try:
            response = await self._around.transport.send(request, content, self._model.timeouts, watch)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return transport_failure(error, request.url), {}
        except Interrupted as why:
            if why.aborted:
                raise
            return silence_failure(why, request.url), {}
        if self._recording is not None:
            self._recording.answered(response.status_code, response.headers)
        if 200 <= response.status_code < 300:
            return response
        try:
            body = await read_error_body(response, watch, _ERROR_BODY_S)
        finally:
            await response.aclose()
        if self._recording is not None:
            self._recording.refused(body)
        failure = self._protocol.error(self._model, response.status_code, body)
        wait_s = wanted_delay_s(response.headers, self._around.clock())
        return replace(failure, retry_after_s=wait_s), response.headers

    def _check_key(self) -> None:
        headers = {**self._model.headers, **self._options.headers}
        if not self._options.api_key and replace(self._model, headers=headers).needs_key:
            raise ModelCallFailed(Failure("model_auth", f"No API key for provider: {self._model.provider}"))

    async def _price_late(self, limit_s: float) -> None:
        """Prices that the settings do not give are known only now: looking them up waited for the request."""
        book = self._around.prices
        draft = self._reader.draft
        if book is None or draft.prices is not None or not draft.message["usage"]["totalTokens"]:
            return
        draft.prices = await book.find(self._model, limit_s)
        draft.price()
