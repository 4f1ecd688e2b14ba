"""The tools of the main agent's run: opened from the spec before it starts, closed with everything they started."""

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


async def open_tools(parts: Parts, usage: UsageTotals, before: Counters) -> Toolbox:
    """The tools that the spec selects. `usage` and `before` are what the run's limits count.

    Raises ToolSetupError, and TimeoutError when a stop leaves no time to connect.
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
    )
    selection = ToolSelection(names=agent.tools, mcp=parts.mcp, ask_tools=agent.ask_tools)
    opening = open_toolbox(selection, parts.space, parts.space.folders, subagents)
    try:
        return await parts.timebox.within("agent", SETUP_S, opening)
    except TimeoutError:
        if parts.stop.reason is not None:
            raise
        raise ToolSetupError(f"the tools were not ready within {SETUP_S:g} s: see to the MCP servers") from None


async def close_tools(parts: Parts, toolbox: Toolbox | None) -> None:
    """End every process of the tools, before the log is frozen: nothing may change a file any more."""
    if toolbox is not None:
        await toolbox.close()
    await parts.space.close()
