"""The control channel's commands: messages for the running agent, a pause, a cancel.

What is acknowledged is not lost while the process lives: a message either becomes part of the session log, or is among
the `undelivered` of the callback. So each is remembered here until the log has it, whatever becomes of the agent's own
queues. Messages that come before the agent runs wait for it. Refuses messages once a stop was asked for, and everything
once the run is over. Any thread may bring commands; the agent is only touched on the thread of its loop.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias, assert_never

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentEvent, Listener, MessageEnd, TurnEnd
from runner.control_lines import Command, Refusal, TooLong, answer, parse_command
from runner.logs import Logger, is_worth_a_line
from runner.signals import StopLatch
from settlement.outcome import Undelivered

MOST_WAITING = 100
"""Messages that the session log does not hold yet."""
Queue: TypeAlias = Literal["steering", "follow_up"]


class Steered(Protocol):
    """The part of `Agent` that is used here."""

    def steer(self, message: Message) -> None: ...
    def follow_up(self, message: Message) -> None: ...
    def subscribe(self, listener: Listener) -> Callable[[], object]: ...


class _Accepted(Struct):
    queue: Queue
    message: Message
    handed_over: bool = False
    logged: bool = False

    def as_undelivered(self) -> Undelivered:
        return Undelivered(self.queue, self.message["content"][0]["text"])


class Ended(Struct, frozen=True):
    """What became of the messages that were acknowledged, each in the order they came."""

    logged: tuple[Undelivered, ...] = ()
    """They are part of the session log."""
    undelivered: tuple[Undelivered, ...] = ()


class Control:
    def __init__(self, pipeline_id: str, stop: StopLatch, log: Logger) -> None:
        self._pipeline_id = pipeline_id
        self._stop = stop
        self._log = log
        self._lock = threading.Lock()
        self._accepted: list[_Accepted] = []
        self._agent: tuple[Steered, asyncio.AbstractEventLoop] | None = None
        self._over = False
        self._refused = 0

    # --- commands, from any thread --------------------------------------------------------------------------

    def obey(self, line: bytes | TooLong) -> JsonObject:
        """Do what a line says, and the line that answers it."""
        command = parse_command(line)
        result = command if isinstance(command, Refusal) else self._done(command)
        if isinstance(result, Refusal):
            return self.refuse(result)
        self._log.info("control", command=result.type)
        return answer(self._pipeline_id, result)

    def refuse(self, refusal: Refusal) -> JsonObject:
        self._refused += 1
        if is_worth_a_line(self._refused):
            self._log.warning("control_refused", reason=refusal.reason, refused=self._refused)
        return answer(self._pipeline_id, refusal)

    def _done(self, command: Command) -> Command | Refusal:
        match command.type:
            case "steer":
                return self._queue(command, "steering")
            case "follow_up":
                return self._queue(command, "follow_up")
            case "pause" | "cancel":
                return self._request(command)
            case _:
                assert_never(command.type)

    def _request(self, command: Command) -> Command | Refusal:
        with self._lock:
            if self._over:
                return _ending(command)
            if command.type == "cancel":
                self._stop.request("cancelled")
                return command
            if self._stop.since is not None:
                return _stopping(command, self._stop.reason)
            self._stop.request("paused")
            return command

    def _queue(self, command: Command, queue: Queue) -> Command | Refusal:
        with self._lock:
            if self._over:
                return _ending(command)
            if self._stop.reason is not None:
                return _stopping(command, self._stop.reason)
            if sum(not accepted.logged for accepted in self._accepted) >= MOST_WAITING:
                return Refusal(
                    "queue_full",
                    f"{MOST_WAITING} messages are waiting already: send it when some are taken",
                    command.id,
                )
            block = {"type": "text", "text": command.text}
            message: Message = {"role": "user", "content": [block], "timestamp": int(time.time() * 1000)}
            self._accepted.append(_Accepted(queue, message))
            agent = self._agent
        if agent is not None:
            with suppress(RuntimeError):  # the loop is closed: then so is the run
                agent[1].call_soon_threadsafe(self._hand_over)
        return command

    # --- the run, on the loop's thread ----------------------------------------------------------------------

    def attach(self, agent: Steered) -> None:
        """The agent is about to run. Its listeners that write the session log stand already."""
        agent.subscribe(self._on_event)
        with self._lock:
            self._agent = (agent, asyncio.get_running_loop())
        self._hand_over()

    def _on_event(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        match event:
            case MessageEnd(message):
                with self._lock:
                    for accepted in self._accepted:
                        accepted.logged = accepted.logged or accepted.message is message
            case TurnEnd():
                self._hand_over()  # before the agent looks whether it should go on
            case _:
                pass

    def _hand_over(self) -> None:
        with self._lock:
            if self._agent is None or self._over:
                return
            agent = self._agent[0]
            for accepted in self._accepted:
                if not accepted.handed_over:
                    accepted.handed_over = True
                    put = agent.steer if accepted.queue == "steering" else agent.follow_up
                    put(accepted.message)

    def end(self) -> Ended:
        """The run is over, whether or not it began: nothing is accepted any more."""
        with self._lock:
            self._over = True
            return Ended(
                tuple(each.as_undelivered() for each in self._accepted if each.logged),
                tuple(each.as_undelivered() for each in self._accepted if not each.logged),
            )


def _ending(command: Command) -> Refusal:
    return Refusal("ending", "the run is over and its settlement under way: see its callback", command.id)


def _stopping(command: Command, reason: str | None) -> Refusal:
    return Refusal("stopping", f"the run is being stopped already ({reason}): see its callback", command.id)
