"""`subagent`: a task for an agent of its own, whose answer is the tool's result.

It has its own transcript file, the parent's tools without those that ask, and a share of the run's budget; what it uses
is counted as the run's. It ends with the parent's abort. It refuses to ask anybody: whoever asks is the main agent,
which then stops; a subagent could only wait. Depth and number are bounded.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.errors import SessionLogBroken
from checkpoint.session.header import new_header
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
    ToolResult,
    TurnContext,
    TurnEnd,
    UpdateCallback,
    text_result,
)
from runner.cleaning import clean_stream, clean_tool
from runner.run_watch import has_tool_calls, message_text
from runner.stop import RequestReason, decide_stop
from runner.subagent_budget import (
    MAX_AT_ONCE,
    MAX_DEPTH,
    MAX_SUBAGENTS,
    BudgetLeft,
    CountedUse,
    Share,
    Use,
    left_of,
    share_of,
)
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed
from settlement.outcome import StopReason

TOOL = "subagent"
END_S = 1.0
"""For an aborted subagent to end by itself; then it is cut off."""
SUBAGENT_ENTRY = "runner.subagent"
UPDATE_CHARS = 500
SYSTEM_PROMPT = (
    "You work on one task for another agent, which sees nothing but your last message: put everything it needs into "
    "it. You cannot ask anybody; if something is unclear, decide and say how you decided."
)


@dataclass(frozen=True, slots=True)
class SubagentModel:
    name: Model
    stream: StreamFn
    thinking_level: ThinkingLevel = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentParts:
    """What subagents need of the run."""

    folder: Path
    """For the transcripts; private to this process."""
    workspace: Path
    new_model: Callable[[str | None], SubagentModel | None]
    """The model of that id, the run's own for None, None if there is no such model. A new one for each subagent, so
    that a scripted model counts its requests apart.
    """
    model_ids: tuple[str, ...]
    use: Use
    """Counts what subagents use as the run's."""
    left: Callable[[], BudgetLeft]
    """What the run has left now."""
    requested: Callable[[], RequestReason | None]
    """Why the run is asked to stop, if it is."""
    system_prompt: str = SYSTEM_PROMPT


@dataclass(slots=True)
class Subagents:
    """All subagents of one run. `tools` are what they may be given: no asking tools, bounded."""

    parts: SubagentParts
    tools: Sequence[AgentTool]
    transcripts: dict[str, Path] = field(default_factory=dict[str, Path])
    """By the name under which the checkpoint stores them; complete once the run has ended."""
    _places: dict[int, asyncio.Semaphore] = field(default_factory=dict[int, asyncio.Semaphore])

    def tool(self) -> AgentTool:
        """The main agent's `subagent` tool."""
        return self.tool_at(1, self.parts.use, self.parts.left)

    def tool_at(self, depth: int, use: Use, left: Callable[[], BudgetLeft]) -> AgentTool:
        """The tool that starts subagents of this depth, counting into `use`."""

        async def execute(
            call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
        ) -> ToolResult:
            async def run() -> ToolResult:
                # Per depth: waiting for one's own subagents must not take the place that they wait for.
                async with self._places.setdefault(depth, asyncio.Semaphore(MAX_AT_ONCE)):
                    return await self._run(call_id, args, depth, use, left, on_update)

            return await unless_aborted(run(), signal, "The subagent")

        return AgentTool(TOOL, _DESCRIPTION, self._parameters(depth), execute, label=TOOL)

    def _parameters(self, depth: int) -> JsonObject:
        models: JsonObject = {"type": "string", "description": "Another model than your own."}
        if self.parts.model_ids:
            models["enum"] = list(self.parts.model_ids)
        return {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The task, complete in itself: the subagent knows nothing of this conversation.",
                },
                "tools": {
                    "type": "array",
                    "items": {"type": "string", "enum": self._allowed(depth)},
                    "description": "The tools it gets; all of these if left out.",
                },
                "model": models,
            },
            "required": ["task"],
        }

    def _allowed(self, depth: int) -> list[str]:
        return [tool.name for tool in self.tools] + ([TOOL] if depth < MAX_DEPTH else [])

    async def _run(
        self,
        call_id: str,
        args: JsonObject,
        depth: int,
        use: Use,
        left: Callable[[], BudgetLeft],
        on_update: UpdateCallback,
    ) -> ToolResult:
        model = self._model(args.get("model"))
        budget = left()
        if budget.is_used_up:
            raise ToolFailed("limit", "No subagent was started: the run's budget is used up")
        share, counted = share_of(budget), CountedUse(use)
        nested = self.tool_at(depth + 1, counted, lambda: left_of(share, counted.totals, left()))
        tools = self._chosen(args.get("tools"), depth, nested)
        name, log = self._open_transcript(call_id, args["task"], depth, model)
        run = _SubagentRun(self.parts, model, tools, share, counted, log, on_update)
        try:
            text = await run.until_ended(args["task"])
        finally:
            log.close()
        return text_result(
            text,
            details={
                "transcript": name,
                "turns": counted.totals.turns,
                "totalTokens": counted.totals.total_tokens,
                "costUsd": counted.totals.cost_usd,
            },
        )

    def _model(self, model_id: str | None) -> SubagentModel:
        model = self.parts.new_model(model_id)
        if model is None:
            known = ", ".join(self.parts.model_ids) or "none but your own"
            raise ToolFailed("refused", f"There is no model {model_id!r} in this run: the models are {known}")
        return model

    def _chosen(self, names: Sequence[str] | None, depth: int, nested: AgentTool) -> list[AgentTool]:
        known = {tool.name: tool for tool in self.tools}
        if depth < MAX_DEPTH:
            known[TOOL] = nested
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise ToolFailed(
                "refused", f"A subagent cannot have {', '.join(unknown)}: its tools are {', '.join(known) or 'none'}"
            )
        return [tool for name, tool in known.items() if names is None or name in names]

    def _open_transcript(self, call_id: str, task: str, depth: int, model: SubagentModel) -> tuple[str, SessionLog]:
        number = len(self.transcripts) + 1
        if number > MAX_SUBAGENTS:
            raise ToolFailed("limit", f"A run has at most {MAX_SUBAGENTS} subagents: go on without further ones")
        name = f"subagent-{number}-{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:64]}.jsonl"
        path = self.parts.folder / name
        try:
            log = SessionLog.create(path, new_header(str(self.parts.workspace)))
            self.transcripts[name] = path
            log.append("model_change", {"provider": model.name.provider, "modelId": model.name.id})
            log.append("thinking_level_change", {"thinkingLevel": model.thinking_level})
            log.append_custom(SUBAGENT_ENTRY, {"tool_call_id": call_id, "depth": depth, "task": task})
        except (OSError, SessionLogBroken) as error:
            raise ToolFailed("failed", f"The subagent's transcript cannot be written ({error})") from error
        return name, log


_DESCRIPTION = (
    "Give a task to a subagent: an agent of its own with a fresh conversation. The result is its last message. Use it "
    "for work that can be described in full and whose details you do not need; several at once if they are "
    "independent. It cannot ask the user, and shares your budget."
)


class _SubagentRun:
    """One subagent from its task to its answer."""

    def __init__(
        self,
        parts: SubagentParts,
        model: SubagentModel,
        tools: Sequence[AgentTool],
        share: Share,
        counted: CountedUse,
        log: SessionLog,
        on_update: UpdateCallback,
    ) -> None:
        self._parts = parts
        self._share = share
        self._counted = counted
        self._log = log
        self._on_update = on_update
        self._stopped: StopReason | None = None
        self._last: Message | None = None
        self._agent = Agent(
            stream_fn=clean_stream(model.stream),
            system_prompt=parts.system_prompt,
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
            requested=self._parts.requested(),
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
