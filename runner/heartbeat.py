"""Tells the server, while the pipeline runs, how far it is; takes from the answer that it should stop.

A thread and a loop of its own: what holds the pipeline's loop (a tool of the launch, a store that does not answer)
neither silences a heartbeat nor delays it. Nothing depends on one: a beat that fails is not sent again, a refusal (also
409 or 410) changes nothing, and nobody waits for the thread.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from checkpoint.head import Head
from runner.logs import Logger, is_worth_a_line
from runner.signals import StopLatch, StopReason
from runner.standing import Standing
from settlement.signing import CallbackSecrets
from settlement.wire import time_text

if TYPE_CHECKING:
    import httpx

    from settlement.beating import NotTaken, Taken
    from settlement.heartbeat import HeartbeatAction

TRY_S = 5.0
LEAST_TRY_S = 1.0
"""Of a shorter period some beats are left out rather than that no answer could ever come in time."""
_STOPS: "dict[HeartbeatAction, StopReason]" = {"cancel": "cancelled", "pause": "paused"}
_HEEDED_IN = ("claim", "restore", "agent")
"""Later the run is over and its settlement decided."""


def next_beat(due: float, now: float, period_s: float) -> float:
    """When the beat after the one that was due at `due` is due: in the same rhythm, without those that were missed."""
    missed = max(0.0, now - due) // period_s
    return due + period_s * (missed + 1)


class Heartbeat:
    """A `Channel`. Beats at once when it is opened, then every `period_s` seconds."""

    def __init__(
        self,
        url: str,
        secrets: CallbackSecrets,
        *,
        period_s: float,
        standing: Standing,
        stop: StopLatch,
        log: Logger,
        traceparent: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._secrets = secrets
        self._period_s = period_s
        self._standing = standing
        self._stop = stop
        self._log = log
        self._traceparent = traceparent
        self._clock = clock
        self._closed = False
        self._failures = 0
        self._beating: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._thread: threading.Thread | None = None

    def prepare(self) -> None:
        """There is nothing that could be found wrong."""

    def open(self, head: Head) -> None:
        self._thread = threading.Thread(target=self._work, args=(head,), daemon=True, name="heartbeat")
        try:
            self._thread.start()
        except RuntimeError as error:  # the host has no thread left
            self._log.warning("heartbeat_not_started", error=str(error))

    def close(self) -> None:
        """A beat on its way is cut off."""
        self._closed = True
        if self._beating is not None:
            loop, task = self._beating
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(task.cancel)

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended, waited for so long."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _work(self, head: Head) -> None:
        loop = asyncio.new_event_loop()
        try:
            task = loop.create_task(self._beat_on(head))
            self._beating = (loop, task)
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception:  # noqa: BLE001 - a defect of the heartbeat is no reason to end the run
            self._log.exception("heartbeat_ended")
        finally:
            loop.close()

    async def _beat_on(self, head: Head) -> None:
        from settlement.delivery import new_client

        due, number = self._clock(), 0
        async with new_client(self._url) as client:
            if self._traceparent is not None:
                client.headers["traceparent"] = self._traceparent
            while not self._closed:
                number += 1
                self._judge(await self._beat(client, head, number))
                due = next_beat(due, self._clock(), self._period_s)
                await asyncio.sleep(due - self._clock())

    async def _beat(self, client: "httpx.AsyncClient", head: Head, number: int) -> "Taken | NotTaken":
        from settlement.beating import beat_once

        timeout_s = min(TRY_S, max(LEAST_TRY_S, self._period_s))
        webhook_id = f"beat_{head.fields.claim_id}_{number}"
        return await beat_once(client, self._url, webhook_id, self._body(head), self._secrets, time.time(), timeout_s)

    def _body(self, head: Head) -> bytes:
        from settlement.heartbeat import Heartbeat as Beat
        from settlement.heartbeat import HeartbeatUsage, to_body

        usage = self._standing.usage
        beat = Beat(
            pipeline_id=head.fields.pipeline_id,
            attempt=head.fields.attempt,
            session_id=head.fields.session_id,
            phase=self._standing.phase,
            turn=self._standing.turn,
            usage=HeartbeatUsage(total_tokens=usage.total_tokens, cost_usd=usage.cost_usd, requests=usage.requests),
            sent_at=time_text(datetime.now(UTC)),
        )
        return to_body(beat)

    def _judge(self, answer: "Taken | NotTaken") -> None:
        from settlement.beating import NotTaken

        if self._closed:
            return
        if isinstance(answer, NotTaken):
            self._failures += 1
            if is_worth_a_line(self._failures):
                self._log.warning("heartbeat_failed", why=answer.why, in_a_row=self._failures)
            return
        if self._failures:
            self._log.info("heartbeat_taken_again", failed=self._failures)
            self._failures = 0
        if answer.action is not None and self._standing.phase in _HEEDED_IN:
            if self._stop.reason is None:
                self._log.warning("heartbeat_asks", action=answer.action)
            self._stop.request(_STOPS[answer.action])
