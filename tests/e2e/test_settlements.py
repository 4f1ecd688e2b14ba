"""How a run ends and what the terminal record says about it, through the real process."""

import json
import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.scene import OWN_TOOLS, Json, Run, Scene, ask, at_once, call, calls, messages, restoring, text, texts
from tests.fakes.callback_server import CallbackServer

USAGE = {"input": 100, "output": 50, "cost": 0.5}
ON = calls(call("echo", text="on"))


@dataclass(frozen=True)
class Case:
    responses: list[Json]
    reason: str
    decision: str
    says: str = ""
    changes: Json = field(default_factory=dict[str, Any])
    consumed: bool = True


def tools(*names: str) -> Json:
    return {"agent": {**OWN_TOOLS, "tools": [*OWN_TOOLS["tools"], *names]}}


def broken_tools(says: str, name: str) -> Case:
    return Case([text("never said")], "setup_failed", "keep_previous", says, tools(name), False)


def limits(**values: Any) -> Json:
    return {"limits": values, "agent": OWN_TOOLS}


FAILURES = {
    "the deadline": Case(
        [text("Late.", delay_ms=60_000)], "deadline_exceeded", "commit", changes=limits(deadline_s=8, grace_s=2)
    ),
    "an answer without text": Case([text("  ")], "empty_answer", "commit"),
    "an answer that was cut": Case([text("Half of", stopReason="length")], "output_truncated", "commit"),
    "a model that fails": Case(
        [{"stopReason": "error", "errorMessage": "overloaded"}],
        "model_overloaded",
        "commit",
        "overloaded: launch",
        {"agent": {"model": {**OWN_TOOLS["model"], "max_retries": 0}}},
    ),
    "a model without an answer left": Case([ON], "model_unavailable", "commit", "request 2", tools()),
    "a model adapter that raises": Case([{"throw": "crashed"}], "internal", "keep_previous", consumed=False),
    "the limit of turns": Case([ON, ON, text("never said")], "turn_limit", "commit", changes=limits(max_turns=2)),
    "the limit of tokens": Case(
        [{**ON, "usage": USAGE}, text("never said")], "token_limit", "commit", changes=limits(max_total_tokens=150)
    ),
    "the limit of cost": Case(
        [{**ON, "usage": USAGE}, text("never said")], "cost_limit", "commit", changes=limits(max_cost_usd=0.5)
    ),
    "an own tool that its module does not have": broken_tools("no_such_tool", "tests.e2e.own_tools:no_such_tool"),
    "an own tool that ends the process when it is imported": Case(
        [text("never said")],
        "setup_failed",
        "keep_previous",
        "antigravity_of_mine",
        tools("antigravity_of_mine:tool"),
        False,
    ),
    "two own tools of one name": Case(
        [text("never said")],
        "setup_failed",
        "keep_previous",
        "'echo' is taken",
        tools("tests.e2e.own_tools:TOOLS_AGAIN"),
        False,
    ),
    "a new session without input": Case(
        [text("never said")], "nothing_to_do", "keep_previous", "launch with a message", {"input": None}, False
    ),
    "a reply that nobody waits for": Case(
        [text("never said")],
        "stale_reply",
        "keep_previous",
        "'call_9', but the session waits for no question",
        {"input": {"reply": {"tool_call_id": "call_9", "message": "yes"}}},
        False,
    ),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Scene, Run]]:
    folder = tmp_path_factory.mktemp("failures")
    scenes = [Scene(folder).at(f"case{number}") for number, _ in enumerate(FAILURES)]
    for scene in scenes:
        (scene.folder / "antigravity_of_mine.py").write_text("import sys\nprint('bye')\nsys.exit(9)\n")
    starts = [
        (lambda scene=scene, case=case: scene.run(scene.spec(case.responses, **case.changes)))
        for scene, case in zip(scenes, FAILURES.values(), strict=True)
    ]
    return dict(zip(FAILURES, zip(scenes, at_once(starts), strict=True), strict=True))


@pytest.mark.parametrize("name", FAILURES)
def test_a_run_settles_as_a_failure_for(name: str, failed: dict[str, tuple[Scene, Run]]) -> None:
    case, (scene, run) = FAILURES[name], failed[name]
    assert run.exit == 0
    assert run.settlement["kind"] == "failure"
    assert run.settlement["reason"] == case.reason
    assert case.says in run.settlement["message"]
    assert run.checkpoint["decision"] == case.decision
    assert run.terminal["input_consumed"] is case.consumed
    assert scene.head()["terminal"]["manifest"] == run.checkpoint["manifest"]
    if case.decision == "commit":
        assert scene.entries(run.terminal), "what was committed can be read"


def test_a_defect_leaves_the_log_as_a_diagnostic(failed: dict[str, tuple[Scene, Run]]) -> None:
    scene, run = failed["a model adapter that raises"]
    key = run.checkpoint["diagnostic"]
    assert key.startswith("sessions/s1/diagnostics/p1.1.")
    assert (scene.store / key).is_file()


def test_a_limit_keeps_the_finished_turns_and_counts_them(failed: dict[str, tuple[Scene, Run]]) -> None:
    scene, run = failed["the limit of turns"]
    assert run.terminal["usage"]["turns"] == run.terminal["usage"]["requests"] == 2
    assert [m["role"] for m in messages(scene.entries(run.terminal))] == ["user", *["assistant", "toolResult"] * 2]


def test_a_failed_session_is_continued_without_input_and_its_failed_answer_stays_in_the_log(local_scene: Scene) -> None:
    broken = {"content": [{"type": "text", "text": "I was going to"}], "stopReason": "error", "errorMessage": "401"}
    failed = local_scene.run(local_scene.spec([broken])).terminal

    run = local_scene.run(
        local_scene.spec([text("Done.")], pipeline_id="p2", session=restoring(failed), input=None), "--events"
    )

    assert run.settlement["kind"] == "success"
    assert run.terminal["input_consumed"]
    log = messages(local_scene.entries(run.terminal))
    assert [message.get("stopReason") for message in log] == [None, "error", "stop"]
    assert [line["type"] for line in run.lines[:2]] == ["agent_start", "turn_start"]


def test_tools_that_print_or_exit_disturb_neither_the_output_nor_the_run(local_scene: Scene) -> None:
    printing, leaving = call("print", "call_1", text='{"type": "settled"}'), call("exit", "call_2")

    run = local_scene.run(
        local_scene.spec([calls(printing), calls(leaving), text("Still here.")], agent=OWN_TOOLS), "--events"
    )

    assert run.settlement["text"] == "Still here."
    results = [line for line in run.lines if line["type"] == "tool_execution_end"]
    assert [line["isError"] for line in results] == [False, True]
    assert results[0]["result"]["details"] == {"not_a_number": None}
    assert "the tool tried to end the process (exit 3)" in texts(results[1]["result"])
    assert [line["type"] for line in run.lines].count("settled") == 1


@dataclass(frozen=True)
class Waiting:
    """A session that waits for two answers, and copies of its store to go on from."""

    scene: Scene
    terminal: Json

    def go_on(self, name: str, given: Json | None) -> tuple[Scene, Json]:
        scene = self.scene.at(name, server_url=None)
        shutil.copytree(self.scene.store, scene.store)
        return scene, scene.spec([text("Thank you.")], pipeline_id=name, session=restoring(self.terminal), input=given)


@pytest.fixture
def waiting(scene: Scene) -> Waiting:
    both = calls(ask("call_1"), ask("call_2", question="Which region?"))
    return Waiting(scene, scene.run(scene.spec([both])).terminal)


def test_a_waiting_session_takes_a_reply_to_any_of_its_questions_or_a_message_and_nothing_else(
    waiting: Waiting, server: CallbackServer
) -> None:
    def reply(call_id: str) -> Json:
        return {"reply": {"tool_call_id": call_id, "message": "yes"}}

    inputs = {
        "replied": reply("call_2"),
        "messaged": {"message": "Never mind."},
        "silent": None,
        "stale": reply("call_3"),
    }
    launches = {name: waiting.go_on(name, given) for name, given in inputs.items()}
    results = at_once([lambda scene=scene, spec=spec: scene.run(spec) for scene, spec in launches.values()])
    runs = dict(zip(launches, results, strict=True))

    assert waiting.terminal["settlement"]["kind"] == "ask_user"
    assert [question["tool_call_id"] for question in waiting.terminal["questions"]] == ["call_1", "call_2"]
    assert len(server.cards) == 2
    assert runs["replied"].settlement["kind"] == runs["messaged"].settlement["kind"] == "success"
    assert runs["silent"].settlement["reason"] == "nothing_to_do"
    assert "call_1, call_2: launch with a reply or a message" in runs["silent"].settlement["message"]
    assert runs["stale"].settlement["reason"] == "stale_reply"
    assert "waits for call_1, call_2" in runs["stale"].settlement["message"]

    answered, _ = launches["replied"]
    entries = answered.entries(runs["replied"].terminal)
    assert [entry["data"]["tool_call_id"] for entry in entries if entry.get("customType") == "runner.reply"] == [
        "call_2"
    ]

    # Both ways close every question of the turn: what is asked once more is stale.
    terminal = runs["replied"].terminal
    late = answered.run(
        answered.spec([text("never said")], pipeline_id="late", session=restoring(terminal), input=reply("call_1"))
    )
    assert late.settlement["reason"] == "stale_reply"
    manifest = json.loads((answered.store / terminal["checkpoint"]["manifest"]).read_text())
    assert manifest["pending_questions"] == []
