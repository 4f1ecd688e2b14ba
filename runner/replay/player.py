"""Answers what the loop of one run asks for, from the recording: the model's requests, and the calls of its tools.

Refuses to answer what the recording does not hold: such a request ends the replay, with the entry and what was asked.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, cast

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentTool,
    BeforeToolCallContext,
    LlmContext,
    Model,
    StreamEvent,
    StreamOptions,
    ToolResult,
    UpdateCallback,
)
from runner.interruption import InterruptionAdapter
from runner.question_gate import Ask, QuestionGate, Unreachable
from runner.replay.segments import Run, Turn, calls_of
from runner.replay.tape import Tape
from runner.replay.told import Told
from runner.run_watch import message_text
from runner.stop import RequestReason

if TYPE_CHECKING:
    from runner.agent.agent import Agent
    from runner.models.failure import Failure
    from settlement.question import Question

_ABORTED = "Operation aborted"
"""The result that the loop itself gives to a call in whose preparation the run is aborted."""
_RESULT_FIELDS = ("content", "details", "usage", "addedToolNames")


class RecordedStop:
    """Who asks the run to stop: the recording, where the run was stopped (`StopRequests`)."""

    def __init__(self) -> None:
        self.reason: RequestReason | None = None
        self._abort = asyncio.Event()

    def abort(self, reason: RequestReason) -> None:
        self.reason = reason
        self._abort.set()

    async def wait_abort(self) -> None:
        await self._abort.wait()

    async def wait_urgent(self) -> None:
        await self._abort.wait()


class LostQuestions:
    """A server from which no answer ever comes (`QuestionSender`): all that is known of a question that failed."""

    async def send(self, question: "Question", signal: AbortSignal | None) -> Unreachable:
        return Unreachable("as recorded", possibly_sent=True)


class RecordedAnswer:
    """One recorded answer as a stream: its final message at once."""

    def __init__(self, message: Message, abort: Callable[[], None] | None, signal: AbortSignal | None) -> None:
        self._message = message
        self._abort = abort
        self._signal = signal

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        if self._abort is not None and self._signal is not None:
            self._abort()
            await self._signal.wait()
        yield StreamEvent("done", message=self._message)

    async def result(self) -> Message:
        return self._message


class Player:
    """Everything the agent of one run is given: stream function, tools, hooks. `told` is for the last run only."""

    def __init__(self, entries: Sequence[JsonObject], run: Run, tape: Tape, told: Told | None) -> None:
        self._entries = entries
        self._run = run
        self._tape = tape
        self._told = told
        self._number = -1
        self._calls: dict[Any, deque[int]] = {}
        self._numbers: dict[int, int] = {}
        self._chosen_asked = asyncio.Event()
        self.stop = RecordedStop()
        self.agent: Agent | None = None
        self.interruption: InterruptionAdapter | None = None
        self.gate: QuestionGate | None = None
        """Set before the run starts, as the two above."""
        self.tools = [self._tool(name) for name in sorted(self._names())]
        self.aborts_calls = any(turn.aborted_call is not None for turn in run.turns)
        self.sequential = any(self._needs_sequence(turn) for turn in run.turns)

    # --- the model ---

    def stream(self, _model: Model, context: LlmContext, options: StreamOptions) -> RecordedAnswer:
        turn = self._next_turn(context)
        message = self._message(turn.answer)
        self._tape.expect_results(turn)
        calls = calls_of(message) if turn.results else []
        self._calls = {}
        self._numbers = {id(call): number for number, call in enumerate(calls)}
        for number, call in enumerate(calls):
            self._calls.setdefault(call.get("id"), deque()).append(number)
        self._queue_messages(turn)
        aborts = message.get("stopReason") == "aborted"
        return RecordedAnswer(message, self._abort if aborts else None, options.signal)

    def _next_turn(self, context: LlmContext) -> Turn:
        turns, tape = self._run.turns, self._tape
        self._number += 1
        if self._number >= len(turns):
            if self._run.end == "left":
                raise tape.leave()
            count = len(context.messages)
            asked = f"the model was asked again, with {count} {'message' if count == 1 else 'messages'} of this run"
            follows = tape.expected
            if follows is None:
                follows = next(
                    (at for at in range(tape.at + 1, len(self._entries)) if "message" in self._entries[at]), None
                )
            if follows is None:
                raise tape.diverge(
                    "unanswered", max(tape.at, 0), f"after this entry {asked}, and the recording ends here"
                )
            recorded = self._entries[follows].get("message")
            raise tape.diverge("unanswered", follows, f"{asked}, and no answer is recorded here", recorded)
        turn = turns[self._number]
        if tape.expected != turn.answer:
            position = tape.at if tape.expected is None else tape.expected
            raise tape.diverge(
                "unanswered", position, "the model was asked before this message was taken up", self._message(position)
            )
        return turn

    def _queue_messages(self, turn: Turn) -> None:
        """Have what the next turn begins with waiting when this one ends, where it was waiting then."""
        agent, turns = self.agent, self._run.turns
        assert agent is not None, "the agent is set before its run starts"
        last = self._number + 1 == len(turns)
        taken = self._run.untaken if last else turns[self._number + 1].taken
        queue = agent.steer if turn.results else agent.follow_up
        for position in taken:
            queue(self._message(position))
        told = self._told
        if not last or told is None or told.ended not in ("requested", "limit", "interrupted"):
            return
        for waiting in told.undelivered:
            message: Message = {"role": "user", "content": [{"type": "text", "text": waiting.text}]}
            (agent.steer if waiting.queue == "steering" else agent.follow_up)(message)
        if told.ended == "requested" and turn.after in ("open", "ended"):
            self.stop.reason = self._reason()

    # --- the tools ---

    def _tool(self, name: str) -> AgentTool:
        async def execute(
            call_id: str, _args: JsonObject, signal: AbortSignal | None, _on_update: UpdateCallback
        ) -> ToolResult:
            return await self._execute(call_id, signal)

        return AgentTool(name, "", {}, execute)

    async def _execute(self, call_id: str, signal: AbortSignal | None) -> ToolResult:
        turn, waiting = self._turn, self._calls.get(call_id)
        if self._tape.over or not waiting:
            return {"content": []}
        number = waiting.popleft()
        position = turn.results[number]
        if position is None:
            return await self._unrecorded(turn, number)
        if turn.aborted_call == number and signal is not None:
            self._abort()
            await signal.wait()
        recorded = self._message(position)
        await self._after_the_chosen(recorded)
        if recorded.get("isError"):
            await self._ask_in_vain(call_id, recorded)
        result = {key: recorded[key] for key in _RESULT_FIELDS if recorded.get(key) is not None}
        if turn.after == "open" and self._told is not None and self._told.ended == "by_itself":
            result["terminate"] = True
        return result

    async def _unrecorded(self, turn: Turn, number: int) -> ToolResult:
        """A call without a result. Where the run was cut off in it, it is cut off again."""
        if turn.after == "left":
            self._tape.leave()
        elif self._told is not None and self._told.ended == "requested":
            self._abort()
            await asyncio.Event().wait()  # until it is cancelled, as the recorded one was
        else:
            call = calls_of(self._message(turn.answer))[number]
            self._tape.diverge(
                "unanswered",
                turn.answer,
                f"this entry calls {call.get('name')!r} (call {call.get('id')!r}), and no result of it is recorded",
                call,
            )
        return {"content": []}

    async def _ask_in_vain(self, call_id: str, recorded: Message) -> None:
        """A question that may have gone out although its call failed: the terminal record withdrew it."""
        assert self.gate is not None, "the gate is set before the run starts"
        if self._told is not None and self.gate.identity_of(call_id) in self._told.withdrawn:
            name = str(recorded.get("toolName"))
            await self.gate.ask(Ask(tool_call_id=call_id, tool_name=name, question="as recorded"), None)

    async def _after_the_chosen(self, recorded: Message) -> None:
        """Of several questions in one turn, the recorded interruption was the first to be answered."""
        chosen = None if self._told is None or self.sequential else self._told.interruption
        if chosen is None or chosen == recorded.get("toolCallId") or chosen not in self._calls:
            return
        if self._turn.after == "interrupted" and recorded.get("toolName") in cast("Told", self._told).asking:
            await self._chosen_asked.wait()

    async def before_tool_call(self, context: BeforeToolCallContext, signal: AbortSignal | None) -> None:
        """Abort in the preparation of the call that the recorded run was aborted in."""
        turn = self._turn
        if turn.aborted_call is None or self._numbers.get(id(context.tool_call)) != turn.aborted_call:
            return
        if self._aborted_in_preparation(turn) and signal is not None:
            self._abort()
            await signal.wait()

    def after_tool_call(self, context: AfterToolCallContext, signal: AbortSignal | None) -> AfterToolCallResult | None:
        """Make an error of what was one, and tell the interruption adapter, as it was told then."""
        assert self.interruption is not None, "the adapter is set before the run starts"
        number = self._numbers.get(id(context.tool_call))
        position = None if number is None or self._tape.over else self._turn.results[number]
        if position is None:
            return None
        if self._message(position).get("isError"):
            return AfterToolCallResult(is_error=True)
        self.interruption.after_tool_call(context, signal)
        if self._told is not None and context.tool_call.get("id") == self._told.interruption:
            self._chosen_asked.set()
        return None

    # --- failures of the model ---

    def failure_of(self, message: Message) -> "Failure | None":
        """What a failed answer meant: whatever makes the retries go as they are recorded to have gone."""
        from runner.models.failure import Failure, failure_of_message

        turn = self._turn
        text = str(message.get("errorMessage") or "")
        if turn.after == "retried" or self._cut_off_in_pause:
            return Failure("model_unavailable", text, transient=True, retry_after_s=0.0)
        if turn.after == "next_model":
            return Failure("model_unavailable", text)
        if self._told is not None and self._told.ended == "model":
            return Failure(cast("Any", self._told.reason), text, transient=self._told.retryable)
        return failure_of_message(message)

    def time_left(self) -> float:
        """None where the recorded run gave up."""
        return 0.0 if self._turn.after == "failed" and not self._cut_off_in_pause else inf

    async def pause(self, _delay_s: float) -> None:
        if self._cut_off_in_pause:
            self._abort()
            await asyncio.Event().wait()  # until the abort ends it

    @property
    def _cut_off_in_pause(self) -> bool:
        """The run was stopped while it waited to ask a failed model again."""
        turn = self._turn
        if self._told is None or self._told.ended != "requested" or turn.after != "failed":
            return False
        return self._message(turn.answer).get("stopReason") == "error"

    # --- what is recorded ---

    @property
    def _turn(self) -> Turn:
        return self._run.turns[min(self._number, len(self._run.turns) - 1)]

    def _message(self, position: int) -> Message:
        return self._entries[position]["message"]

    def _abort(self) -> None:
        self.stop.abort(self._reason())

    def _reason(self) -> RequestReason:
        told = self._told
        return cast("RequestReason", told.reason) if told is not None and told.ended == "requested" else "cancelled"

    def _names(self) -> set[str]:
        calls = [call for turn in self._run.turns if turn.results for call in calls_of(self._message(turn.answer))]
        return {name for name in (call.get("name") for call in calls) if isinstance(name, str)}

    def _needs_sequence(self, turn: Turn) -> bool:
        """Calls of which only the first ones have results were run one after the other."""
        if None not in turn.results or all(result is None for result in turn.results):
            return False
        return not (turn.aborted_call is not None and self._aborted_in_preparation(turn))

    def _aborted_in_preparation(self, turn: Turn) -> bool:
        position = None if turn.aborted_call is None else turn.results[turn.aborted_call]
        return position is not None and message_text(self._message(position)) == _ABORTED
