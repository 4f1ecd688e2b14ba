import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.context import load_context
from checkpoint.session.indexer import SessionIndexer
from runner.agent.abort import AbortController, AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import AgentTool, ModelName, ToolResult, UpdateCallback
from runner.models.script import parse_script
from runner.models.scripted import ScriptedModel
from runner.stop import RequestReason
from runner.subagent import SubagentParts, Subagents
from runner.subagent_budget import MAX_AT_ONCE, MAX_SUBAGENTS, MAX_TURNS, BudgetLeft, RunUse
from runner.subagent_run import SubagentModel
from runner.tools.errors import ToolFailed
from runner.usage import UsageTotals
from tests.fakes.agent_parts import call, calls, roles, says, stream_of, texts, tool
from tests.fakes.tool_calls import error_from, result_of, text_from, text_of

pytestmark = pytest.mark.anyio

USAGE = {"input": 10, "output": 5, "cost": 0.5}


class Crew:
    """The subagents of a run whose models play scripts: the run's own, and `other`."""

    def __init__(self, folder: Path, *responses: JsonObject, tools: list[AgentTool] | None = None) -> None:
        self.usage = UsageTotals()
        self.left = BudgetLeft()
        self.requested: RequestReason | None = None
        self.asked: list[str | None] = []
        self.responses = list(responses)
        parts = SubagentParts(
            folder=folder,
            workspace=Path("/workspace"),
            new_model=self._model,
            model_ids=("main", "other"),
            use=RunUse(self.usage),
            left=lambda: self.left,
            requested=lambda: self.requested,
        )
        self.subagents = Subagents(parts, tools or [])
        self.tool = self.subagents.tool()

    def _model(self, model_id: str | None) -> SubagentModel | None:
        self.asked.append(model_id)
        if model_id not in (None, "main", "other"):
            return None
        model = ScriptedModel(parse_script({"responses": self.responses}))
        return SubagentModel(ModelName(model_id or "main"), model.stream_fn)

    def transcript(self) -> list[Message]:
        (path,) = self.subagents.transcripts.values()
        indexer = SessionIndexer("fail")
        indexer.feed(path.read_bytes())
        return load_context(path, indexer.finish()).messages


async def test_the_answer_is_the_final_text_and_the_transcript_is_a_session_of_its_own(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("look", usage=USAGE), says("Found it.", usage=USAGE), tools=[tool("look", "seen")])
    result = await result_of(crew.tool, task="Find it.")
    assert text_of(result) == "Found it."
    assert result["details"] == {
        "transcript": "subagent-1-call-1.jsonl",
        "turns": 2,
        "totalTokens": 30,
        "costUsd": 1.0,
    }
    assert texts(crew.transcript()) == ["Find it.", "", "seen", "Found it."]
    lines = [
        json.loads(line) for line in crew.subagents.transcripts["subagent-1-call-1.jsonl"].read_text().splitlines()
    ]
    assert [line["type"] for line in lines[:4]] == ["session", "model_change", "thinking_level_change", "custom"]
    assert lines[3]["data"] == {"tool_call_id": "call-1", "depth": 1, "task": "Find it."}


async def test_what_it_uses_is_counted_as_the_runs(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("look", usage=USAGE), says("Done.", usage=USAGE), tools=[tool("look")])
    await result_of(crew.tool, task="x")
    used = crew.usage
    assert (used.requests, used.turns, used.total_tokens, used.cost_usd) == (2, 2, 30, 1.0)


async def test_each_subagent_plays_the_script_from_its_beginning(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("first"), says("second"))
    assert [await text_from(crew.tool, task="x") for _ in range(2)] == ["first", "first"]
    assert len(crew.subagents.transcripts) == 2


async def test_it_gets_the_tools_that_are_named(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("b"), says("Done."), tools=[tool("a"), tool("b")])
    await result_of(crew.tool, task="x", tools=["a"])
    assert texts(crew.transcript())[2] == "!Tool b not found"


async def test_the_schema_names_tools_and_models(tmp_path: Path) -> None:
    properties = Crew(tmp_path, tools=[tool("a")]).tool.parameters["properties"]
    assert properties["tools"]["items"]["enum"] == ["a", "subagent"]
    assert properties["model"]["enum"] == ["main", "other"]


async def test_tools_and_models_that_are_not_there_are_refused(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("x"), tools=[tool("a")])
    assert "cannot have ask_user: its tools are a, subagent" in await error_from(
        crew.tool, task="x", tools=["ask_user"]
    )
    assert "no model 'none' in this run: the models are main, other" in await error_from(
        crew.tool, task="x", model="none"
    )
    assert crew.subagents.transcripts == {}


async def test_another_model_can_be_named(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("x"))
    await result_of(crew.tool, task="x", model="other")
    assert crew.asked == ["other"]
    assert crew.transcript()[-1]["model"] == "other"


async def test_subagents_may_have_subagents_and_those_may_not(tmp_path: Path) -> None:
    crew = Crew(tmp_path, {"content": [call("subagent", task="deeper")], "usage": USAGE}, says("Bottom.", usage=USAGE))
    result = await result_of(crew.tool, task="deep")
    assert text_of(result) == "Bottom."
    assert sorted(crew.subagents.transcripts) == ["subagent-1-call-1.jsonl", "subagent-2-subagent.jsonl"]
    deeper = crew.subagents.transcripts["subagent-2-subagent.jsonl"].read_text()
    assert "Tool subagent not found" in deeper
    assert result["details"]["turns"] == crew.usage.turns == 4


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"stopReason": "error", "errorMessage": "overloaded"}, "The subagent failed: overloaded."),
        (says("half", stopReason="length"), "cut off by the model's output limit. Its last words: half"),
        (says(""), "ended without an answer"),
        ({"throw": "adapter crashed"}, "The subagent failed: adapter crashed."),
    ],
)
async def test_an_end_without_an_answer_is_an_error_result(tmp_path: Path, response: JsonObject, said: str) -> None:
    assert said in await error_from(Crew(tmp_path, response).tool, task="x")


async def test_its_share_is_half_of_what_the_run_has_left(tmp_path: Path) -> None:
    crew = Crew(tmp_path, *[calls("look", usage=USAGE)] * 20, tools=[tool("look")])
    crew.left = BudgetLeft(turns=8)
    assert "was stopped (turn_limit) before it was done" in await error_from(crew.tool, task="x")
    assert crew.usage.turns == 4
    crew.left = BudgetLeft(tokens=60)
    assert "(token_limit)" in await error_from(crew.tool, task="x")
    assert crew.usage.turns == 6
    crew.left = BudgetLeft(cost_usd=1.0)
    assert "(cost_limit)" in await error_from(crew.tool, task="x")
    assert crew.usage.turns == 7


async def test_none_is_started_on_a_used_up_budget(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("x"))
    crew.left = BudgetLeft(turns=0)
    assert "budget is used up" in await error_from(crew.tool, task="x")


async def test_without_limits_it_still_ends(tmp_path: Path) -> None:
    crew = Crew(tmp_path, *[calls("look")] * (MAX_TURNS + 5), tools=[tool("look")])
    assert "(turn_limit)" in await error_from(crew.tool, task="x")
    assert crew.usage.turns == MAX_TURNS


async def test_a_pause_of_the_run_stops_it_after_its_turn(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("look"), says("never"), tools=[tool("look")])
    crew.requested = "paused"
    assert "was stopped (paused)" in await error_from(crew.tool, task="x")


async def test_the_parents_abort_is_its_own(tmp_path: Path) -> None:
    entered, aborted, controller = asyncio.Event(), asyncio.Event(), AbortController()

    async def hang(_id: str, _args: JsonObject, signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
        assert signal is not None
        entered.set()
        await signal.wait()
        aborted.set()
        raise ToolFailed("aborted", "stopped")

    crew = Crew(tmp_path, calls("hang"), says("never"), tools=[tool("hang", execute=hang)])
    run = asyncio.create_task(result_of(crew.tool, controller.signal, task="x"))
    await asyncio.wait_for(entered.wait(), 5)
    controller.abort()
    with pytest.raises(ToolFailed, match="The subagent was aborted"):
        await asyncio.wait_for(run, 10)
    assert aborted.is_set()
    assert roles(crew.transcript())[:3] == ["user", "assistant", "toolResult"]


async def test_a_tool_that_ignores_the_abort_is_cancelled_with_its_subagent(tmp_path: Path) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def deaf(*_args: Any) -> ToolResult:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return {}

    crew = Crew(tmp_path, calls("deaf"), tools=[tool("deaf", execute=deaf)])
    run = asyncio.create_task(result_of(crew.tool, task="x"))
    await asyncio.wait_for(entered.wait(), 5)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 20)
    assert cancelled.is_set()


async def test_only_so_many_run_at_once_and_in_all(tmp_path: Path) -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def count(*_args: Any) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == MAX_AT_ONCE:
            release.set()
        await release.wait()
        running -= 1
        return {"content": []}

    crew = Crew(tmp_path, calls("count"), says("Done."), tools=[tool("count", execute=count)])
    await asyncio.gather(*(result_of(crew.tool, task="x") for _ in range(MAX_SUBAGENTS)))
    assert most == MAX_AT_ONCE
    assert f"at most {MAX_SUBAGENTS} subagents" in await error_from(crew.tool, task="x")


async def test_updates_tell_its_turns(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("look"), says("Done."), tools=[tool("look")])
    partials: list[ToolResult] = []
    await crew.tool.execute("c", {"task": "x"}, None, partials.append)
    assert [text_of(partial) for partial in partials] == ["Turn 1: calls look", "Turn 2: Done."]


async def test_a_transcript_that_cannot_be_written_is_an_error_result(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "missing", says("x"))
    assert "transcript cannot be written" in await error_from(crew.tool, task="x")


async def test_its_transcript_is_clean_whatever_its_tools_give(tmp_path: Path) -> None:
    crew = Crew(tmp_path, calls("look"), says("Done."), tools=[tool("look", "a\0b\ud800")])
    await result_of(crew.tool, task="x")
    assert texts(crew.transcript())[2] == "a\ufffdb\ufffd"


async def test_a_call_id_cannot_name_another_file(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("x"))
    await crew.tool.execute("../../etc/x", {"task": "x"}, None, lambda _partial: None)
    assert list(crew.subagents.transcripts) == ["subagent-1-______etc_x.jsonl"]


async def test_the_main_agent_goes_on_with_the_answer(tmp_path: Path) -> None:
    crew = Crew(tmp_path, says("Sub answer."))
    agent = Agent(
        stream_fn=stream_of({"content": [call("subagent", task="t")]}, says("Main answer.")), tools=[crew.tool]
    )
    await agent.prompt("go")
    assert texts(agent.state.messages) == ["go", "", "Sub answer.", "Main answer."]
