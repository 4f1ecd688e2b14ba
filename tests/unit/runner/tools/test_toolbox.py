import pytest

from runner.agent.agent import Agent
from runner.subagent import SubagentParts
from runner.subagent_budget import BudgetLeft, RunUse
from runner.subagent_run import SubagentModel
from runner.tools.errors import ToolSetupError
from runner.tools.folders import ToolFolders
from runner.tools.mcp_settings import McpStdio
from runner.tools.registry import BUILT_IN_TOOLS
from runner.tools.toolbox import ToolSelection, open_toolbox
from runner.usage import UsageTotals
from tests.fakes.agent_parts import call, says, stream_of, texts
from tests.fakes.plain_spawner import PlainSpawner
from tests.fakes.tool_calls import named, text_from

pytestmark = pytest.mark.anyio

HERE = "tests.unit.runner.tools.own_examples"


def no_subagents(folders: ToolFolders) -> SubagentParts:
    def no_model(_model_id: str | None) -> SubagentModel | None:
        return None

    return SubagentParts(
        folder=folders.outputs,
        workspace=folders.workspace,
        new_model=no_model,
        model_ids=(),
        use=RunUse(UsageTotals()),
        left=BudgetLeft,
        requested=lambda: None,
    )


async def names(spawner: PlainSpawner, folders: ToolFolders, selection: ToolSelection) -> list[str]:
    toolbox = await open_toolbox(selection, spawner, folders, no_subagents(folders))
    await toolbox.close()
    return [tool.name for tool in toolbox.tools]


async def test_all_built_in_tools_are_there_by_default(spawner: PlainSpawner, folders: ToolFolders) -> None:
    assert await names(spawner, folders, ToolSelection(names=None)) == list(BUILT_IN_TOOLS)


async def test_the_selected_tools_are_there_in_one_order(spawner: PlainSpawner, folders: ToolFolders) -> None:
    selection = ToolSelection(names=[f"{HERE}:MADE", "subagent", "ls", "bash"])
    assert await names(spawner, folders, selection) == ["bash", "ls", "subagent", "made"]


async def test_no_process_is_started_before_a_tool_is_called(spawner: PlainSpawner, folders: ToolFolders) -> None:
    await names(spawner, folders, ToolSelection(names=None))
    assert spawner.started == []


async def test_the_tools_work_together_through_the_agent(spawner: PlainSpawner, folders: ToolFolders) -> None:
    toolbox = await open_toolbox(ToolSelection(names=None), spawner, folders, None)
    stream = stream_of(
        {"content": [call("write", path="a.sh", content="echo one\n")]},
        {"content": [call("edit", path="a.sh", edits=[{"oldText": "one", "newText": "two"}])]},
        {"content": [call("bash", command="bash a.sh"), call("grep", pattern="tw.")]},
        says("Done."),
    )
    agent = Agent(stream_fn=stream, tools=toolbox.tools)
    await agent.prompt("go")
    await toolbox.close()
    results = [message for message in agent.state.messages if message["role"] == "toolResult"]
    assert texts(results) == [
        "Created a.sh (lines: 1, 9 B)",
        "Replaced 1 place in a.sh, from line 1",
        "two",
        "a.sh:1: echo two",
    ]


async def test_results_of_own_tools_are_bounded(spawner: PlainSpawner, folders: ToolFolders) -> None:
    toolbox = await open_toolbox(ToolSelection(names=[f"{HERE}:shout"]), spawner, folders, None)
    assert len(await text_from(named(toolbox.tools, "shout"), text="x" * 1_000_000)) < 70_000
    await toolbox.close()


async def test_what_cannot_be_set_up_leaves_nothing_behind(spawner: PlainSpawner, folders: ToolFolders) -> None:
    with pytest.raises(ToolSetupError):
        await open_toolbox(ToolSelection(names=[f"{HERE}:missing"]), spawner, folders, None)
    with pytest.raises(ToolSetupError):
        await open_toolbox(ToolSelection(names=[], mcp=[McpStdio("bad", "false")]), spawner, folders, None)
    for process in spawner.started:
        await process.wait()


async def test_subagents_get_no_tools_that_ask(spawner: PlainSpawner, folders: ToolFolders) -> None:
    selection = ToolSelection(names=["ls", "subagent", f"{HERE}:ALL"], ask_tools=["made"])
    toolbox = await open_toolbox(selection, spawner, folders, no_subagents(folders))
    await toolbox.close()
    assert toolbox.subagents is not None
    assert [tool.name for tool in toolbox.subagents.tools] == ["ls", "shout", "whisper"]
