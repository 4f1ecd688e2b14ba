"""The story through the real server: ask, answer, success; replies early and double; cancel; a deadline."""

import os
import signal
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkpoint.head_writer import HeadWriter
from checkpoint.store.file_store import FileStore
from tests.e2e.scene import RUNNING, ask, calls, text
from tests.e2e.serving import Json, Serving, waiting_call

DONE = [text("Deployed to staging.")]
ASKS = [calls(ask())]
ASKS_AND_WORKS = [calls(ask(), waiting_call())]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A session's first pipeline asks, each later one succeeds. Tests use sessions of their own."""
    yield from serving_in(tmp_path_factory.mktemp("asking") / "serve", ASKS, DONE, DONE)


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The same, but the first one goes on working beside its question until its gate is opened."""
    yield from serving_in(tmp_path_factory.mktemp("working") / "serve", ASKS_AND_WORKS, DONE)


def serving_in(folder: Path, *stories: list[Json], arguments: tuple[str, ...] = ()) -> Iterator[Serving]:
    serving = Serving(folder, *stories).start(*arguments)
    RUNNING.discard(serving.process)  # it is not one test's to end
    try:
        yield serving
    finally:
        serving.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "serve"


@contextmanager
def served(folder: Path, *stories: list[Json], arguments: tuple[str, ...] = ()) -> Generator[Serving]:
    yield from serving_in(folder, *stories, arguments=arguments)


def test_a_task_asks_is_answered_and_succeeds(asking: Serving) -> None:
    asking.new_task("story")
    waiting = asking.wait_for_state("story", "WAITING_INPUT")
    (card,) = waiting["questions"]
    assert (card["question"], card["standing"], card["waiting"]) == ("Staging or production?", "open", True)

    assert asking.reply(card["question_id"]).json()["outcome"] == "woken"
    done = asking.wait_for_state("story", "SUCCEEDED")
    first, second = done["pipelines"]
    assert first["settlement"]["kind"] == "ask_user"
    assert second["settlement"] == {"kind": "success", "text": "Deployed to staging.", "structured": None}
    assert second["checkpoint"]["parent"] == first["checkpoint"]["digest"]
    assert done["restore_point"]["digest"] == second["checkpoint"]["digest"]
    assert (done["questions"][0]["standing"], done["questions"][0]["reply"]) == ("answered", "staging")

    seen = asking.get("/api/sessions/story/transcript")
    said = [entry["message"]["role"] for entry in seen["entries"] if entry["type"] == "message"]
    assert said == ["user", "assistant", "toolResult", "user", "assistant"]
    assert seen["live"] == []


def test_a_new_message_goes_on_in_the_same_session(asking: Serving) -> None:
    task_id = asking.new_task("again")
    busy = asking.post("/api/sessions", {"message": "And now?", "session_id": "again"})
    asking.wait_for_state("again", "WAITING_INPUT")
    asking.cancel(task_id)
    asking.new_task("again", "And now?")
    done = asking.wait_for(
        "again", lambda seen: [task["state"] for task in seen["tasks"]] == ["CANCELLED", "SUCCEEDED"]
    )
    assert busy.status_code == 409
    assert done["pipelines"][1]["checkpoint"]["parent"] == done["pipelines"][0]["checkpoint"]["digest"]


def test_a_reply_while_the_pipeline_runs_is_kept_and_launched_when_it_has_asked(working: Serving) -> None:
    gate = working.gate("early")
    working.new_task("early")
    card = working.wait_for_card("early")
    assert (card["waiting"], working.state("early")) == (False, "RUNNING")
    assert working.reply(card["question_id"]).json()["outcome"] == "kept"
    assert working.reply(card["question_id"], reply_id="r2").status_code == 409
    gate.open()
    done = working.wait_for_state("early", "SUCCEEDED", "FAILED")
    assert [found["settlement"]["kind"] for found in done["pipelines"]] == ["ask_user", "success"]
    assert done["questions"][0]["reply"] == "staging"


def test_whoever_replied_is_told_if_the_pipeline_fails_instead(folder: Path) -> None:
    with served(folder, ASKS_AND_WORKS, arguments=("--attempts", "1")) as serving:
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
        (pipeline,) = failed["pipelines"]
        assert pipeline["settlement"]["reason"] == "lost"
        head = HeadWriter(FileStore(folder / "store"), pipeline["pipeline_id"]).read()
        assert head is not None
        assert head.fields.terminal is not None
        assert '"reason":"lost"' in head.fields.terminal.body, "whoever looks only at the store is told the same"


def test_two_workers_at_the_same_time_wake_it_once(asking: Serving) -> None:
    asking.new_task("double")
    card = asking.wait_for_state("double", "WAITING_INPUT")["questions"][0]
    with ThreadPoolExecutor(6) as pool:
        same = [pool.submit(asking.reply, card["question_id"], "staging", "r1") for _ in range(3)]
        other = [pool.submit(asking.reply, card["question_id"], "production", f"r{n}") for n in (2, 3, 4)]
        answers = [future.result() for future in [*same, *other]]
    woken = [answer for answer in answers if answer.status_code == 200]
    assert woken
    assert all(answer.json()["outcome"] == "woken" for answer in woken)
    assert len(woken) in (1, 3)
    assert {answer.status_code for answer in answers} == {200, 409}
    done = asking.wait_for_state("double", "SUCCEEDED", "FAILED")
    assert len(done["pipelines"]) == 2


def test_chat_messages_of_the_owner_wake_the_quoted_or_the_first_asked(asking: Serving) -> None:
    for session_id in ("s1", "s2"):
        asking.new_task(session_id, stream_id="room", owner="chat:ann")
        asking.wait_for_state(session_id, "WAITING_INPUT")
    second = asking.session("s2")["questions"][0]["question_id"]

    def write(**message: str) -> Json:
        answer = asking.post("/api/messages", {"stream_id": "room", "platform": "chat", "user": "ann", **message})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert write(user="bob", text="hi")["reason"] == "nobody_waits"
    assert write(platform="other", text="hi")["reason"] == "nobody_waits"
    assert write(text=" ")["reason"] == "skipped"
    quoted = write(text="production", quote=f"> Staging or production? [{second}]", reply_id="m1")
    assert (quoted["outcome"], quoted["question_id"]) == ("woken", second)
    assert write(text="production", quote=f"> Staging or production? [{second}]", reply_id="m1") == quoted
    assert asking.state("s1") == "WAITING_INPUT"
    asking.wait_for_state("s2", "SUCCEEDED")
    first = asking.post("/api/messages", {"stream_id": "room", "user": "ann", "text": "staging"}).json()
    assert first["outcome"] == "woken"
    asking.wait_for_state("s1", "SUCCEEDED")


def test_cancelling_works_while_it_runs_and_nothing_revives_it(working: Serving) -> None:
    gate = working.gate("cancelled-running")
    task_id = working.new_task("cancelled-running")
    card = working.wait_for_card("cancelled-running")
    gate.wait_until_reached()
    assert working.cancel(task_id).json() == {"task_id": task_id, "state": "CANCELLED"}
    ended = working.wait_for_end("cancelled-running")
    assert ended["tasks"][0]["state"] == "CANCELLED"
    assert len(ended["pipelines"]) == 1
    assert ended["questions"][0]["standing"] == "withdrawn"
    assert working.reply(card["question_id"]).status_code == 409
    assert working.state("cancelled-running") == "CANCELLED"


def test_cancelling_works_while_it_waits_and_a_later_reply_wakes_nothing(asking: Serving) -> None:
    task_id = asking.new_task("cancelled-waiting")
    card = asking.wait_for_state("cancelled-waiting", "WAITING_INPUT")["questions"][0]
    assert asking.cancel(task_id).json()["state"] == "CANCELLED"
    assert asking.cancel(task_id).json()["state"] == "CANCELLED"
    assert asking.reply(card["question_id"]).status_code == 409
    ended = asking.session("cancelled-waiting")
    assert (ended["tasks"][0]["state"], len(ended["pipelines"])) == ("CANCELLED", 1)
    assert ended["questions"][0]["standing"] == "withdrawn"


def test_a_reply_that_does_not_come_in_time_ends_the_task(folder: Path) -> None:
    with served(folder, ASKS, arguments=("--reply-timeout-s", "0.5")) as serving:
        serving.new_task("s1")
        failed = serving.wait_for_state("s1", "FAILED")
        assert failed["tasks"][0]["reason"] == "reply_timeout"
        assert failed["questions"][0]["standing"] == "withdrawn"
        assert serving.reply(failed["questions"][0]["question_id"]).status_code == 409


def test_two_questions_of_one_task_are_both_shown_and_one_answer_closes_the_other(folder: Path) -> None:
    with served(folder, [calls(ask(), ask("call_2", "Which region?"))], DONE) as serving:
        serving.new_task("s1")
        first, second = serving.wait_for_state("s1", "WAITING_INPUT")["questions"]
        assert serving.reply(second["question_id"], "eu").json()["outcome"] == "woken"
        done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
        standing = {card["question_id"]: card["standing"] for card in done["questions"]}
        assert standing == {first["question_id"]: "withdrawn", second["question_id"]: "answered"}
        assert done["tasks"][0]["state"] == "SUCCEEDED"


def test_waiting_tasks_take_no_slot(folder: Path) -> None:
    with served(folder, ASKS, DONE, arguments=("--slots", "1")) as serving:
        for session_id in ("s1", "s2", "s3"):
            serving.new_task(session_id)
        for session_id in ("s1", "s2", "s3"):
            serving.wait_for_state(session_id, "WAITING_INPUT")
