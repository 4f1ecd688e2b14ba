"""One subagent from its task to its answer: its agent, its transcript, its limits, its end.

Refuses to leave anything moving behind: whatever the end, the agent and its tools have ended, or were cut off.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkpoint.jsontypes import Message
from checkpoint.session.llm import convert_to_llm
from checkpoint.session.log import SessionLog
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentEvent,
    AgentTool,
    MessageEnd,
    Model,
    StreamFn,
    ThinkingLevel,
    TurnContext,
    TurnEnd,
    UpdateCallback,
    text_result,
)
from runner.cleaning import clean_stream, clean_tool
from runner.run_watch import has_tool_calls, message_text
from runner.stop import RequestReason, decide_stop
from runner.subagent_budget import CountedUse, Share
from runner.tools.errors import ToolFailed
from settlement.outcome import StopReason

END_S = 1.0
"""For an aborted subagent to end by itself; then it is cut off."""
UPDATE_CHARS = 500


@dataclass(frozen=True, slots=True)
class SubagentModel:
    name: Model
    stream: StreamFn
    thinking_level: ThinkingLevel = "off"


class SubagentRun:
    def __init__(
        self,
        model: SubagentModel,
        system_prompt: str,
        tools: Sequence[AgentTool],
        share: Share,
        counted: CountedUse,
        log: SessionLog,
        on_update: UpdateCallback,
        requested: Callable[[], RequestReason | None],
    ) -> None:
        self._requested = requested
        self._share = share
        self._counted = counted
        self._log = log
        self._on_update = on_update
        self._stopped: StopReason | None = None
        self._last: Message | None = None
        self._agent = Agent(
            stream_fn=clean_stream(model.stream),
            system_prompt=system_prompt,
            model=model.name,
            thinking_level=model.thinking_level,
            tools=[clean_tool(tool) for tool in tools],
            convert_to_llm=convert_to_llm,
            should_stop_after_turn=self._should_stop,
        )
        self._agent.subscribe(self._on_event)

    async def until_ended(self, task: str) -> str:
        """The final text. Raises ToolFailed for any other end; when cancelled, aborts the agent and waits for it."""
        run = asyncio.ensure_future(self._agent.prompt(task))
        try:
            await asyncio.wait({run})
        except asyncio.CancelledError:
            self._agent.abort()
            await asyncio.wait({run}, timeout=END_S)
            raise
        finally:
            await self._cut_off(run)
        return self._answer(run)

    async def _cut_off(self, run: "asyncio.Future[None]") -> None:
        """Nothing of a subagent moves after this; what has ended is not touched."""
        left = {run, *self._agent.in_flight}
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=END_S)
        for task in left:
            if task.done() and not task.cancelled():
                task.exception()

    def _should_stop(self, turn: TurnContext, _signal: AbortSignal | None) -> bool:
        if not has_tool_calls(turn.message):
            return False  # it ends by itself
        # The run's own limits count what subagents use, and stop the main agent after this call.
        reason = decide_stop(
            interrupted=False,
            requested=self._requested(),
            limits=self._share,
            counters=self._counted.totals,
        )
        self._stopped = reason
        return reason is not None

    def _on_event(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        match event:
            case MessageEnd(message):
                self._log.append_message(message)
                if message.get("role") == "assistant":
                    self._last = message
                    self._counted.answer(message)
            case TurnEnd(message):
                self._counted.turn()
                self._on_update(text_result(_progress(self._counted.totals.turns, message)))
            case _:
                pass

    def _answer(self, run: "asyncio.Future[None]") -> str:
        text = message_text(self._last) if self._last is not None else ""
        so_far = f" Its last words: {text}" if text.strip() else ""
        if self._log.broken is not None:
            raise ToolFailed("failed", f"The subagent failed: its transcript could not be written.{so_far}")
        if run.cancelled() or run.exception() is not None or self._last is None:
            raise ToolFailed("failed", "The subagent failed before it had an answer")
        if self._stopped is not None:
            raise ToolFailed("limit", f"The subagent was stopped ({self._stopped}) before it was done.{so_far}")
        reason = self._last.get("stopReason")
        if reason in ("error", "aborted"):
            said = self._last.get("errorMessage") or reason
            raise ToolFailed("failed", f"The subagent failed: {said}.{so_far}")
        if reason == "length":
            raise ToolFailed("limit", f"The subagent's answer was cut off by the model's output limit.{so_far}")
        if not text.strip():
            raise ToolFailed("failed", "The subagent ended without an answer")
        return text


def _progress(turns: int, message: Message) -> str:
    calls = [str(block.get("name")) for block in message.get("content") or () if block.get("type") == "toolCall"]
    doing = f"calls {', '.join(calls)}" if calls else message_text(message)[:UPDATE_CHARS]
    return f"Turn {turns}: {doing}"
