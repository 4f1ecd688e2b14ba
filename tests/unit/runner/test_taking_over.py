"""What an attempt makes of the progress of one that was killed: the story over fakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkpoint.jsontypes import JsonObject
from checkpoint.manifest import digest_of
from runner.exits import Exit
from tests.fakes.answers import answer, call
from tests.fakes.attempts import (
    ASK,
    CALL,
    ECHO,
    TOOLS,
    TURN,
    Attempts,
    at_manifest,
    denied_segments,
    roles,
    stopped,
    texts,
    turns,
)
from tests.fakes.pipeline_parts import HEAD
from tests.fakes.questions import FakeQuestionSender
from tests.fakes.stored_session import stored_entries, stored_lines, stored_messages

pytestmark = pytest.mark.anyio


@pytest.fixture
def scene(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


# --- settled without the model ------------------------------------------------------------------------------


async def settled_by_the_second(scene: Attempts, *answers: Any, **changes: Any) -> tuple[JsonObject, JsonObject]:
    """The terminal record of a run that nothing happened to, and the one of an attempt after a killed one."""
    twin = Attempts(scene.folder / "twin", sender=FakeQuestionSender())
    twin.folder.mkdir()
    await twin.attempt(1, *answers, **changes)
    scene.kill_at(at_manifest, stopped)
    scene.keep_step()
    first = await scene.attempt(1, *answers, **changes)
    assert first.exit_code == Exit.INFRASTRUCTURE
    second = await scene.attempt(2, **changes)
    assert second.exit_code == Exit.ACKNOWLEDGED
    assert scene.answers.requests == []
    return twin.terminal, scene.terminal


@pytest.mark.parametrize(
    ("answers", "limits", "kind"),
    [
        ((answer("All done."),), {}, "success"),
        ((ECHO, answer("All done.")), {}, "success"),
        ((answer("", call("f", "finish", text="finished")),), {}, "success"),
        ((answer("cut", stop_reason="length"),), {}, "output_truncated"),
        ((answer(""),), {}, "empty_answer"),
        ((ECHO,), {"max_turns": 1}, "turn_limit"),
    ],
)
async def test_a_run_that_was_over_is_settled_as_its_own_process_would_have(
    scene: Attempts, answers: tuple[Any, ...], limits: JsonObject, kind: str
) -> None:
    undisturbed, taken_over = await settled_by_the_second(scene, *answers, agent=TOOLS, limits=limits, **TURN)

    assert kind in taken_over["settlement"].values()
    for same in ("settlement", "input_consumed", "questions", "usage", "warnings"):
        assert taken_over[same] == undisturbed[same], same
    assert taken_over["checkpoint"]["entries"] == undisturbed["checkpoint"]["entries"]


async def test_a_stored_question_is_reported_under_its_id_and_not_sent_again(scene: Attempts) -> None:
    scene.sender = sender = FakeQuestionSender()
    undisturbed, taken_over = await settled_by_the_second(scene, ASK, **TURN)

    assert len(sender.questions) == 1
    assert taken_over["settlement"] == undisturbed["settlement"]
    assert taken_over["questions"] == [
        {"question_id": sender.questions[0].question_id, "tool_call_id": "call-1", "tool_name": "ask_user"}
    ]
    manifest = json.loads(scene.store.objects[taken_over["checkpoint"]["manifest"]])
    assert [question["question_id"] for question in manifest["pending_questions"]] == [sender.questions[0].question_id]


async def test_of_two_stored_questions_the_one_that_was_sent_first_is_the_interruption(scene: Attempts) -> None:
    both = answer("", call("call-1", "ask_user", question="One?"), call("call-2", "ask_user", question="Two?"))
    scene.sender = SecondFirst()
    scene.kill_at(at_manifest, stopped)
    await scene.attempt(1, both, **TURN)
    await scene.attempt(2, **TURN)

    assert scene.progress["interrupted_by"] == "call-2"
    assert scene.terminal["settlement"]["interruption"]["tool_call_id"] == "call-2"
    assert [question["tool_call_id"] for question in scene.terminal["questions"]] == ["call-1", "call-2"]


class SecondFirst(FakeQuestionSender):
    """The answer to the first question comes after that to the second."""

    async def send(self, question: Any, signal: Any) -> Any:
        if len(self.questions) == 0:
            self.questions.append(question)
            await self.came.wait()
            return await FakeQuestionSender().send(question, signal)
        return await super().send(question, signal)


# --- the run goes on ----------------------------------------------------------------------------------------


async def test_a_takeover_goes_on_behind_the_stored_turn_with_input_and_counters_kept(scene: Attempts) -> None:
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), agent=TOOLS, **TURN)
    await scene.attempt(2, answer("Done."), agent=TOOLS, **TURN)

    (request,) = scene.answers.requests
    assert roles(request.messages) == ["user", "assistant", "toolResult"]
    terminal = scene.terminal
    assert terminal["settlement"]["text"] == "Done."
    assert (terminal["usage"]["requests"], terminal["usage"]["turns"]) == (2, 2)
    assert terminal["input_consumed"] is True
    entries = stored_entries(scene.store, terminal)
    assert roles(stored_messages(entries)) == ["user", "assistant", "toolResult", "assistant"]
    assert [entry["type"] for entry in entries].count("model_change") == 1
    manifest = json.loads(scene.store.objects[terminal["checkpoint"]["manifest"]])
    assert manifest["counters"]["turns"] == 2


async def test_a_limit_counts_the_turns_of_the_attempt_before(scene: Attempts) -> None:
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), agent=TOOLS, **TURN)
    await scene.attempt(2, ECHO, agent=TOOLS, limits={"max_turns": 2}, **TURN)

    assert len(scene.answers.requests) == 1
    assert scene.terminal["settlement"]["reason"] == "turn_limit"


async def test_a_takeover_may_itself_be_taken_over(scene: Attempts) -> None:
    for attempt in (1, 2, 3):
        scene.kill_at_request(2, turns(attempt))
        await scene.attempt(attempt, ECHO, answer("never stored"), agent=TOOLS, **TURN)
    await scene.attempt(4, answer("Done."), agent=TOOLS, **TURN)

    assert scene.terminal["usage"]["turns"] == 4
    stored = stored_messages(stored_entries(scene.store, scene.terminal))
    assert roles(stored) == ["user", *["assistant", "toolResult"] * 3, "assistant"]


async def test_a_failed_answer_behind_the_stored_turn_is_asked_for_again(scene: Attempts) -> None:
    failed = answer("", stop_reason="error", error="overloaded")
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, failed, agent=TOOLS, **TURN)
    await scene.attempt(2, answer("Done."), agent=TOOLS, **TURN)

    assert scene.terminal["settlement"]["text"] == "Done."


async def test_a_reply_is_noted_once_and_taken_once(scene: Attempts) -> None:
    scene.sender = FakeQuestionSender()
    await scene.attempt(1, ASK)
    asked = scene.terminal["checkpoint"]
    session = {"id": "s1", "restore": {"manifest": asked["manifest"], "digest": asked["digest"]}}
    reply = {"reply": {"tool_call_id": "call-1", "message": "The second."}}
    next_one = Attempts(scene.folder / "next", store=scene.store)
    next_one.folder.mkdir()
    changes = {"session": session, "input": reply, "agent": TOOLS, **TURN}
    scene.store.objects[HEAD] = b""
    del scene.store.objects[HEAD]
    next_one.kill_at_request(2, turns(1))
    await next_one.attempt(1, ECHO, answer("never stored"), **changes)
    await next_one.attempt(2, answer("Done."), **changes)

    entries = stored_entries(scene.store, next_one.terminal)
    assert [entry.get("customType") for entry in entries].count("runner.reply") == 1
    assert [texts(message) for message in stored_messages(entries) if message["role"] == "user"] == [
        "Deploy the project.",
        "The second.",
    ]
    assert next_one.terminal["input_consumed"] is True
    assert next_one.terminal["checkpoint"]["parent"] == asked["digest"]


async def test_a_plain_session_keeps_its_digest_and_its_counters_over_a_takeover(scene: Attempts) -> None:
    scene.store.objects["old.jsonl"] = plain = plain_session()
    changes = {
        "session": {"id": "s1", "restore": {"jsonl": "old.jsonl"}},
        "limits": {"scope": "session", "max_turns": 4},
        "agent": TOOLS,
        **TURN,
    }
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), **changes)
    del scene.store.objects["old.jsonl"]
    await scene.attempt(2, ECHO, ECHO, **changes)

    terminal = scene.terminal
    assert terminal["settlement"]["reason"] == "turn_limit"
    assert len(scene.answers.requests) == 2, "one turn was in the session, one was the first attempt's"
    assert terminal["checkpoint"]["parent"] == digest_of(plain)
    manifest = json.loads(scene.store.objects[terminal["checkpoint"]["manifest"]])
    assert manifest["counters"]["turns"] == 4
    assert stored_lines(scene.store, manifest["segments"]).startswith(plain)


def plain_session() -> bytes:
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    user = {"role": "user", "content": [{"type": "text", "text": "Hello."}], "timestamp": 0}
    lines: list[JsonObject] = [header]
    for number, message in enumerate((user, answer("Good day."))):
        parent = None if number == 0 else "a0"
        entry = {"type": "message", "id": f"a{number}", "parentId": parent, "timestamp": header["timestamp"]}
        lines.append({**entry, "message": message})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def test_damaged_progress_is_no_reason_to_begin_again(scene: Attempts) -> None:
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), agent=TOOLS, **TURN)
    scene.store.objects[scene.progress["segments"][0]["key"]] = b"damaged"
    await scene.attempt(2, agent=TOOLS, **TURN)

    assert scene.answers.requests == []
    assert scene.terminal["settlement"]["reason"] == "restore_failed"
    assert scene.terminal["checkpoint"]["decision"] == "keep_previous"


async def test_tools_that_cannot_be_set_up_cost_nothing_of_what_is_stored(scene: Attempts) -> None:
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), agent=TOOLS, **TURN)
    await scene.attempt(2, agent={**TOOLS, "tools": ["no.such:TOOLS"]}, **TURN)

    assert scene.terminal["settlement"]["reason"] == "setup_failed"
    assert scene.terminal["checkpoint"]["decision"] == "commit"
    assert scene.terminal["input_consumed"] is True


# --- calls --------------------------------------------------------------------------------------------------


def counting(path: Path, *more: JsonObject) -> JsonObject:
    return answer("", call("count-1", "count", path=str(path)), *more)


async def killed_in_its_calls(scene: Attempts, message: JsonObject, *, every: JsonObject = CALL) -> None:
    """One attempt whose process is killed when all its calls have been made and none has been recorded."""
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, message, answer("never stored"), agent=TOOLS, **every)
    scene.forget_the_turn()


async def test_a_call_in_doubt_is_never_made_again(scene: Attempts) -> None:
    ran = scene.folder / "ran"
    await killed_in_its_calls(scene, counting(ran))
    await scene.attempt(2, answer("Then so."), agent=TOOLS, **CALL)

    assert ran.read_text() == "ran\n"
    (request,) = scene.answers.requests
    (_, _, result) = request.messages
    assert result["isError"]
    assert result["toolCallId"] == "count-1"
    assert "not known whether" in texts(result)
    assert "count" in scene.terminal["warnings"][0]
    assert scene.terminal["usage"]["turns"] == 2
    stored = stored_messages(stored_entries(scene.store, scene.terminal))
    assert roles(stored) == ["user", "assistant", "toolResult", "assistant"]


async def test_a_question_in_doubt_is_asked_again_under_its_id_and_settled_without_the_model(scene: Attempts) -> None:
    scene.sender = sender = FakeQuestionSender()
    ran = scene.folder / "ran"
    both = counting(ran, call("call-1", "ask_user", question="Which one?", options=["a", "b"]))
    scene.kill_at(at_manifest, stopped)
    await scene.attempt(1, both, agent=TOOLS, **CALL)
    scene.forget_the_turn()
    await scene.attempt(2, agent=TOOLS, **CALL)

    first, again = (question.model_dump(exclude={"attempt", "asked_at"}) for question in sender.questions)
    assert first == again
    assert scene.answers.requests == []
    settlement, questions = scene.terminal["settlement"], scene.terminal["questions"]
    assert settlement["kind"] == "ask_user"
    assert questions == [{"question_id": first["question_id"], "tool_call_id": "call-1", "tool_name": "ask_user"}]
    results = stored_messages(stored_entries(scene.store, scene.terminal))[2:]
    assert [(result["toolCallId"], result["isError"]) for result in results] == [("count-1", True), ("call-1", False)]
    assert ran.read_text() == "ran\n"


async def test_an_answer_that_cannot_be_recorded_has_its_calls_not_made_and_ends_the_process(scene: Attempts) -> None:
    ran = scene.folder / "ran"
    scene.store.before = denied_segments
    ending = await scene.attempt(1, counting(ran), answer("never asked for"), agent=TOOLS, **CALL)

    assert (ending.exit_code, ending.reason) == (Exit.INFRASTRUCTURE, "denied")
    assert "could not be recorded" in (ending.message or "")
    assert not ran.exists()
    assert len(scene.answers.requests) == 1
    assert scene.courier.sent == []
    assert scene.head()["state"] == "claimed"
