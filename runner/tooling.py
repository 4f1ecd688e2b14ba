"""The tools of the main agent's run: opened from the spec before it starts, closed with everything they started."""

import asyncio
from typing import Any

from checkpoint.manifest import Counters
from runner.cleaning import clean_stream
from runner.parts import Parts
from runner.subagent import SubagentParts
from runner.subagent_budget import BudgetLeft, RunUse, left_of_run
from runner.subagent_run import SubagentModel
from runner.tools.errors import ToolSetupError
from runner.tools.toolbox import Toolbox, ToolSelection, open_toolbox
from runner.usage import UsageTotals, added

SETUP_S = 90.0
"""For connecting every MCP server; each has a bound of its own below this."""
CUT_OFF_S = 1.0
"""For what is given up to end by itself; that its processes end, `close_tools` sees to."""
CLOSE_S = 5.0
"""For tools to take their leave: MCP servers are told, before they are killed."""
CLOSE_SHARE = 1 / 4
"""Of the time there is, at most: the log is still to be frozen."""


async def open_tools(parts: Parts, usage: UsageTotals, before: Counters, *, subagents_before: int = 0) -> Toolbox:
    """The tools that the spec selects. `usage` and `before` are what the run's limits count; `subagents_before`: those
    of attempts that were taken over.

    Raises ToolSetupError, and TimeoutError when a stop comes before all is connected.
    """
    agent = parts.spec.agent

    def left() -> BudgetLeft:
        return left_of_run(parts.spec.limits, added(before, usage))

    def new_model(model_id: str | None) -> SubagentModel | None:
        choice = parts.fresh_model(model_id)
        if choice is None:
            return None
        return SubagentModel(choice.name, clean_stream(choice.stream), choice.thinking_level)

    subagents = SubagentParts(
        folder=parts.folder,
        workspace=parts.workspace,
        new_model=new_model,
        model_ids=parts.model_ids,
        use=RunUse(usage),
        left=left,
        requested=lambda: parts.stop.reason,
        before=subagents_before,
    )
    selection = ToolSelection(names=agent.tools, mcp=parts.mcp, ask_tools=agent.ask_tools)
    opening = asyncio.ensure_future(open_toolbox(selection, parts.space, parts.space.folders, subagents))
    stopped = asyncio.ensure_future(parts.stop.wait_abort())
    try:
        await asyncio.wait({opening, stopped}, timeout=SETUP_S, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            toolbox = opening.result()
            if parts.tools_instead is not None:
                toolbox.tools[:] = parts.tools_instead(toolbox.tools)
            return toolbox
        if stopped.done():
            raise TimeoutError("the run was stopped before its tools were ready")
        raise ToolSetupError(f"the tools were not ready within {SETUP_S:g} s: see to the MCP servers")
    finally:
        stopped.cancel()
        await _cut_off(opening, parts.timebox.remaining("agent", CUT_OFF_S))


async def close_tools(parts: Parts, toolbox: Toolbox | None) -> None:
    """End every process of the tools, before the log is frozen: nothing may change a file any more.

    However short the time is, killing is never left out for the sake of taking leave.
    """
    time_left = parts.timebox.remaining("freeze", CLOSE_S / CLOSE_SHARE)
    leaving = None if toolbox is None else asyncio.ensure_future(toolbox.close())
    try:
        if leaving is not None:
            await asyncio.wait({leaving}, timeout=time_left * CLOSE_SHARE)
    finally:
        await parts.space.close()
    if leaving is not None:
        await _cut_off(leaving, time_left * CLOSE_SHARE)
        if not leaving.cancelled():
            leaving.result()


async def _cut_off(work: "asyncio.Future[Any]", within_s: float) -> None:
    if not work.done():
        work.cancel()
        await asyncio.wait({work}, timeout=within_s)
