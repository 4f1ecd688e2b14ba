"""The story through the real server: ask, answer, success; replies early and double; cancel; a deadline."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.scene import ask, calls, text
from tests.e2e.serving import Json, Serving, waiting_call

DONE = [text("Deployed to staging.")]
ASKS = [calls(ask())]
ASKS_AND_WORKS = [calls(ask(), waiting_call())]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "serve"


def served(folder: Path, *stories: list[Json], arguments: tuple[str, ...] = ()) -> Serving:
    return Serving(folder, *stories).start(*arguments)


@pytest.fixture
def close() -> Iterator[list[Serving]]:
    """What is put here is ended with the test."""
    servings: list[Serving] = []
    yield servings
    for serving in servings:
        serving.close()


def test_a_task_asks_is_answered_and_succeeds(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, DONE)
    close.append(serving)
    serving.new_task("s1")
    waiting = serving.wait_for_state("s1", "WAITING_INPUT")
    (card,) = waiting["questions"]
    assert (card["question"], card["standing"], card["waiting"]) == ("Staging or production?", "open", True)

    assert serving.reply(card["question_id"]).json()["outcome"] == "woken"
    done = serving.wait_for_state("s1", "SUCCEEDED")
    first, second = done["pipelines"]
    assert first["settlement"]["kind"] == "ask_user"
    assert second["settlement"] == {"kind": "success", "text": "Deployed to staging.", "structured": None}
    assert second["checkpoint"]["parent"] == first["checkpoint"]["digest"]
    assert done["restore_point"]["digest"] == second["checkpoint"]["digest"]
    assert (done["questions"][0]["standing"], done["questions"][0]["reply"]) == ("answered", "staging")

    seen = serving.get("/api/sessions/s1/transcript")
    said = [entry["message"]["role"] for entry in seen["entries"] if entry["type"] == "message"]
    assert said == ["user", "assistant", "toolResult", "user", "assistant"]
    assert seen["live"] == []


def test_a_new_message_goes_on_in_the_same_session(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, DONE, DONE)
    close.append(serving)
    serving.new_task("s1")
    busy = serving.post("/api/sessions", {"message": "And now?", "session_id": "s1"})
    serving.wait_for_state("s1", "SUCCEEDED")
    serving.new_task("s1", "And now?")
    done = serving.wait_for("s1", lambda seen: [task["state"] for task in seen["tasks"]] == ["SUCCEEDED", "SUCCEEDED"])
    assert busy.status_code == 409
    assert done["pipelines"][1]["checkpoint"]["parent"] == done["pipelines"][0]["checkpoint"]["digest"]


def test_a_reply_while_the_pipeline_runs_is_kept_and_launched_when_it_has_asked(
    folder: Path, close: list[Serving]
) -> None:
    serving = served(folder, ASKS_AND_WORKS, DONE)
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    card = serving.wait_for_card("s1")
    assert (card["waiting"], serving.state("s1")) == (False, "RUNNING")
    assert serving.reply(card["question_id"]).json()["outcome"] == "kept"
    assert serving.reply(card["question_id"], reply_id="r2").status_code == 409
    gate.open()
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert [found["settlement"]["kind"] for found in done["pipelines"]] == ["ask_user", "success"]
    assert done["questions"][0]["reply"] == "staging"


def test_whoever_replied_is_told_if_the_pipeline_fails_instead(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS_AND_WORKS, arguments=("--attempts", "1"))
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    card = serving.wait_for_card("s1")
    assert serving.reply(card["question_id"]).json()["outcome"] == "kept"
    gate.wait_until_reached()
    for pid in serving.pipeline_pids():
        os.kill(pid, signal.SIGKILL)
    failed = serving.wait_for_state("s1", "FAILED")
    assert failed["tasks"][0]["reason"] == "lost"
    assert [notice["message"] for notice in failed["notices"]] == ["staging"]
    assert failed["questions"][0]["standing"] == "withdrawn"
    assert len(failed["pipelines"]) == 1


def test_two_workers_at_the_same_time_wake_it_once(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, DONE)
    close.append(serving)
    serving.new_task("s1")
    card = serving.wait_for_state("s1", "WAITING_INPUT")["questions"][0]
    with ThreadPoolExecutor(6) as pool:
        same = [pool.submit(serving.reply, card["question_id"], "staging", "r1") for _ in range(3)]
        other = [pool.submit(serving.reply, card["question_id"], "production", f"r{n}") for n in (2, 3, 4)]
        answers = [future.result() for future in [*same, *other]]
    woken = [answer for answer in answers if answer.status_code == 200]
    assert woken
    assert all(answer.json()["outcome"] == "woken" for answer in woken)
    assert len(woken) in (1, 3)
    assert {answer.status_code for answer in answers} == {200, 409}
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert len(done["pipelines"]) == 2


def test_chat_messages_of_the_owner_wake_the_quoted_or_the_first_asked(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, DONE)
    close.append(serving)
    for session_id in ("s1", "s2"):
        serving.new_task(session_id, stream_id="room", owner="chat:ann")
        serving.wait_for_state(session_id, "WAITING_INPUT")
    second = serving.session("s2")["questions"][0]["question_id"]

    def write(**message: str) -> Json:
        answer = serving.post("/api/messages", {"stream_id": "room", "platform": "chat", "user": "ann", **message})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert write(user="bob", text="hi")["reason"] == "nobody_waits"
    assert write(platform="other", text="hi")["reason"] == "nobody_waits"
    assert write(text=" ")["reason"] == "skipped"
    quoted = write(text="production", quote=f"> Staging or production? [{second}]", reply_id="m1")
    assert (quoted["outcome"], quoted["question_id"]) == ("woken", second)
    assert write(text="production", quote=f"> Staging or production? [{second}]", reply_id="m1") == quoted
    assert serving.state("s1") == "WAITING_INPUT"
    serving.wait_for_state("s2", "SUCCEEDED")
    first = serving.post("/api/messages", {"stream_id": "room", "user": "ann", "text": "staging"}).json()
    assert first["outcome"] == "woken"
    serving.wait_for_state("s1", "SUCCEEDED")


def test_cancelling_works_while_it_runs_and_nothing_revives_it(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS_AND_WORKS, DONE)
    close.append(serving)
    gate = serving.gate("s1")
    task_id = serving.new_task("s1")
    card = serving.wait_for_card("s1")
    gate.wait_until_reached()
    assert serving.cancel(task_id).json() == {"task_id": task_id, "state": "CANCELLED"}
    ended = serving.wait_for_end("s1")
    assert ended["tasks"][0]["state"] == "CANCELLED"
    assert len(ended["pipelines"]) == 1
    assert ended["questions"][0]["standing"] == "withdrawn"
    assert serving.reply(card["question_id"]).status_code == 409
    assert serving.state("s1") == "CANCELLED"


def test_cancelling_works_while_it_waits_and_a_later_reply_wakes_nothing(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, DONE)
    close.append(serving)
    task_id = serving.new_task("s1")
    card = serving.wait_for_state("s1", "WAITING_INPUT")["questions"][0]
    assert serving.cancel(task_id).json()["state"] == "CANCELLED"
    assert serving.cancel(task_id).json()["state"] == "CANCELLED"
    assert serving.reply(card["question_id"]).status_code == 409
    ended = serving.session("s1")
    assert (ended["tasks"][0]["state"], len(ended["pipelines"])) == ("CANCELLED", 1)
    assert ended["questions"][0]["standing"] == "withdrawn"


def test_a_reply_that_does_not_come_in_time_ends_the_task(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, arguments=("--reply-timeout-s", "0.5"))
    close.append(serving)
    serving.new_task("s1")
    failed = serving.wait_for_state("s1", "FAILED")
    assert failed["tasks"][0]["reason"] == "reply_timeout"
    assert failed["questions"][0]["standing"] == "withdrawn"
    assert serving.reply(failed["questions"][0]["question_id"]).status_code == 409


def test_two_questions_of_one_task_are_both_shown_and_one_answer_closes_the_other(
    folder: Path, close: list[Serving]
) -> None:
    serving = served(folder, [calls(ask(), ask("call_2", "Which region?"))], DONE)
    close.append(serving)
    serving.new_task("s1")
    first, second = serving.wait_for_state("s1", "WAITING_INPUT")["questions"]
    assert serving.reply(second["question_id"], "eu").json()["outcome"] == "woken"
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    standing = {card["question_id"]: card["standing"] for card in done["questions"]}
    assert standing == {first["question_id"]: "withdrawn", second["question_id"]: "answered"}
    assert done["tasks"][0]["state"] == "SUCCEEDED"


def test_waiting_tasks_take_no_slot(folder: Path, close: list[Serving]) -> None:
    serving = served(folder, ASKS, DONE, arguments=("--slots", "1"))
    close.append(serving)
    for session_id in ("s1", "s2", "s3"):
        serving.new_task(session_id)
    for session_id in ("s1", "s2", "s3"):
        serving.wait_for_state(session_id, "WAITING_INPUT")
