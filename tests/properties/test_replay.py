"""Any run that the loop makes is the same when it is replayed; a message that no run can have made is found.

Sessions are recorded by the real agent with its retries, persisted to a real log as the runner does it: queued
messages, failed answers, errors and several calls in a turn, in any order that a model can come up with.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import AgentEvent, AgentTool, MessageEnd, ModelName, ToolResult, UpdateCallback
from runner.inspection.source import StoreOptions
from runner.models.failure import failure_of_message
from runner.models.script import parse_script
from runner.models.scripted import ScriptedModel
from runner.replay.command import ReplayOptions, replay_source
from runner.replay.report import Report
from runner.retrying import ModelChoice, RetryingAgent

WORDS = st.text(st.sampled_from('abc é☃\n"\\'), max_size=8)
CALL = st.fixed_dictionaries({"name": st.sampled_from(["read", "fail", "nothing"]), "queue": st.booleans()})
TURN = st.one_of(
    st.lists(CALL, min_size=1, max_size=3),
    st.sampled_from(["overloaded", "cut", "queue"]),
)
RUN = st.lists(TURN, max_size=5)
QUEUED = 20
"""More than there are queued messages in a run: each of them asks the model once more."""
SESSION = st.lists(RUN, min_size=1, max_size=3)


class Recorded:
    """One session: each run's turns, then a final answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = SessionLog.create(path, new_header("/project"))
        self._log.append("model_change", {"provider": "scripted", "modelId": "m"})
        self._number = 0
        self._queued: list[str] = []

    def close(self) -> None:
        self._log.close()

    async def record(self, turns: list[Any], messages: list[Message]) -> list[Message]:
        script = parse_script({"responses": [*(self._response(turn) for turn in turns), *[self._final()] * QUEUED]})
        model = ScriptedModel(script)
        tools = [AgentTool(name, "", {}, self._tool(name)) for name in ("read", "fail")]
        agent = self._agent = Agent(stream_fn=model.stream_fn, model=ModelName("m"), messages=messages, tools=tools)
        agent.subscribe(self._persist)
        choice = ModelChoice(ModelName("m"), model.stream_fn, failure_of_message, max_retries=99)
        retrying = RetryingAgent(
            agent, [choice], time_left=lambda: 1e9, on_verdict=lambda _: None, jitter=lambda: 0.0, sleep=no_pause
        )
        await retrying.prompt([user("go")])
        return agent.state.messages

    def _response(self, turn: Any) -> JsonObject:
        self._number += 1
        if turn == "overloaded":
            return {"stopReason": "error", "errorMessage": "overloaded"}
        if turn == "queue":
            return {"content": [{"type": "thinking", "thinking": "queue"}], "stopReason": "stop"}
        calls = [{"name": "read", "queue": False}] if turn == "cut" else turn
        content = [
            {"type": "toolCall", "id": f"c{index % 2}", "name": call["name"], "arguments": {"queue": call["queue"]}}
            for index, call in enumerate(calls)
        ]
        return {"content": content, **({"stopReason": "length"} if turn == "cut" else {}), "usage": {"input": 3}}

    def _final(self) -> JsonObject:
        return {"content": [{"type": "text", "text": f"done {self._number}"}]}

    def _tool(self, name: str) -> Any:
        async def execute(
            _id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback
        ) -> ToolResult:
            if args.get("queue"):
                self._agent.steer(user("steering"))
            if name == "fail":
                raise RuntimeError("it failed")
            return {"content": [{"type": "text", "text": "read"}], "details": {"true": True, "one": 1}}

        return execute

    def _persist(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        if not isinstance(event, MessageEnd):
            return
        self._log.append_message(event.message)
        content: Any = event.message.get("content")
        if event.message.get("role") == "assistant" and content and content[0].get("thinking") == "queue":
            self._agent.follow_up(user("follow up"))


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}


async def no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def recorded(session: list[list[Any]], path: Path) -> list[JsonObject]:
    """Record the session at `path`; its lines."""

    async def record() -> None:
        recording, messages = Recorded(path), list[Message]()
        for turns in session:
            messages = await recording.record(turns, messages)
        recording.close()

    asyncio.run(record())
    return [json.loads(line) for line in path.read_text().splitlines()]


def replayed(path: Path) -> Report:
    return replay_source(ReplayOptions(source=str(path), store=StoreOptions(path.parent, {})))


@given(SESSION)
@settings(max_examples=60)
def test_whatever_the_loop_made_is_the_same_again(session: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        lines = recorded(session, path)
        report = replayed(path)

        assert report.same, report.replayed.divergence
        answers = [line for line in lines if line.get("message", {}).get("role") == "assistant"]
        assert report.replayed.turns == len(answers)
        assert report.settlement is not None
        assert report.settlement["kind"] == "success"


@given(SESSION, st.integers(0, 10**6), st.sampled_from(["other_name", "other_call", "one_more_call", "no_flag"]))
@settings(max_examples=60)
def test_a_message_that_no_run_can_have_made_is_found_with_its_entry(
    session: list[list[Any]], choice: int, change: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        lines = recorded([*session, [[{"name": "read", "queue": False}]]], path)
        role = "assistant" if change == "one_more_call" else "toolResult"
        found = [at for at, line in enumerate(lines) if line.get("message", {}).get("role") == role]
        if role == "assistant":
            found = [at for at in found if lines[at]["message"]["stopReason"] == "stop"][-1:]
        at = found[choice % len(found)]
        message = lines[at]["message"]
        match change:
            case "other_name":
                message["toolName"] += "x"
            case "other_call":
                message["toolCallId"] += "x"
            case "no_flag":
                message["isError"] = int(message["isError"])
            case _:
                message["content"].append({"type": "toolCall", "id": "new", "name": "read", "arguments": {}})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

        report = replayed(path)

        assert not report.same
        divergence = report.replayed.divergence
        assert divergence is not None
        named = report.entry_id(divergence.position)
        nearby = {line["id"] for line in lines[_call_of(lines, at) : at + 1]}
        assert named in ({lines[at]["id"]} if change != "other_call" else nearby)


def _call_of(lines: list[JsonObject], at: int) -> int:
    """The line of the answer whose call a result belongs to."""
    return next(place for place in range(at, 0, -1) if lines[place].get("message", {}).get("role") == "assistant")
