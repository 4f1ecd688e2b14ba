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

from checkpoint.jsontypes import JsonObject
from checkpoint.session.errors import SessionLogBroken
from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from runner.agent.abort import AbortSignal
from runner.agent.types import (
    AgentTool,
    ToolResult,
    UpdateCallback,
    text_result,
)
from runner.stop import RequestReason
from runner.subagent_budget import (
    MAX_AT_ONCE,
    MAX_DEPTH,
    MAX_SUBAGENTS,
    BudgetLeft,
    CountedUse,
    Use,
    left_of,
    share_of,
)
from runner.subagent_run import SubagentModel, SubagentRun
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed

TOOL = "subagent"
SUBAGENT_ENTRY = "runner.subagent"
SYSTEM_PROMPT = (
    "You work on one task for another agent, which sees nothing but your last message: put everything it needs into "
    "it. You cannot ask anybody; if something is unclear, decide and say how you decided."
)


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
    before: int = 0
    """Subagents of earlier attempts, whose transcripts have their names already."""
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
        run = SubagentRun(model, self.parts.system_prompt, tools, share, counted, log, on_update, self.parts.requested)
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
        number = self.parts.before + len(self.transcripts) + 1
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
