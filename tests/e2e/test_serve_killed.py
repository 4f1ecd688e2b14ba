"""The server, its pipelines, or both are killed at any point: nothing is lost, nothing is done twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.scene import ask, calls, text
from tests.e2e.serving import Json, Serving, waiting_call

DONE = [text("Deployed to staging.")]
ASKS = [calls(ask())]
WORKS = [calls(waiting_call()), text("Built.")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "serve"


@pytest.fixture
def close() -> Iterator[list[Serving]]:
    """What is put here is ended with the test."""
    servings: list[Serving] = []
    yield servings
    for serving in servings:
        serving.close()


def attempts(seen: Json) -> list[int]:
    return [len(pipeline["attempts"]) for pipeline in seen["pipelines"]]


def test_a_pipeline_that_is_killed_is_launched_again(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    descriptor = gate.wait_until_reached()
    for pid in serving.pipeline_pids():
        os.kill(pid, signal.SIGKILL)
    os.close(descriptor)
    serving.wait_for("s1", lambda seen: attempts(seen) == [2])
    gate.open()
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert done["tasks"][0]["state"] == "SUCCEEDED"
    assert attempts(done) == [2]
    assert done["pipelines"][0]["attempts"][0]["exit"] == -signal.SIGKILL


def test_a_restarted_server_takes_up_the_pipeline_that_still_runs(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    descriptor = gate.wait_until_reached()
    (before,) = serving.pipeline_pids()
    serving.kill()
    serving.start()
    serving.process.wait_for_log("process_adopted")
    assert serving.pipeline_pids() == [before]
    os.close(descriptor)
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert (done["tasks"][0]["state"], attempts(done)) == ("SUCCEEDED", [1])


def test_what_settles_while_the_server_is_away_is_committed_when_it_is_back(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS, limits={"deadline_s": 60, "grace_s": 5, "callback_s": 0.5}).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    descriptor = gate.wait_until_reached()
    (pid,) = serving.pipeline_pids()
    serving.kill()
    watched = os.pidfd_open(pid)
    os.close(descriptor)
    with open(watched, closefd=True):  # noqa: PTH123 - a descriptor of a process, not a file
        signal.pidfd_send_signal(watched, 0)
        wait_for_end_of(watched)
    serving.start()
    done = serving.wait_for_end("s1")
    assert (done["tasks"][0]["state"], attempts(done)) == ("SUCCEEDED", [1])
    assert done["restore_point"]["digest"] == done["pipelines"][0]["checkpoint"]["digest"]


def wait_for_end_of(process: int) -> None:
    import select

    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(60_000), "the pipeline did not end"


def test_server_and_pipeline_killed_together_go_on_with_another_attempt(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    descriptor = gate.wait_until_reached()
    serving.kill()
    for pid in serving.pipeline_pids():
        os.kill(pid, signal.SIGKILL)
    os.close(descriptor)
    serving.start()
    serving.wait_for("s1", lambda seen: attempts(seen) == [2])
    gate.open()
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert (done["tasks"][0]["state"], attempts(done)) == ("SUCCEEDED", [2])


def test_a_kept_reply_survives_the_server(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, [calls(ask(), waiting_call())], DONE).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    card = serving.wait_for_card("s1")
    assert serving.reply(card["question_id"], reply_id="r1").json()["outcome"] == "kept"
    serving.kill()
    serving.start()
    assert serving.reply(card["question_id"], reply_id="r1").json()["outcome"] == "kept"
    gate.open()
    done = serving.wait_for_state("s1", "SUCCEEDED", "FAILED")
    assert [found["settlement"]["kind"] for found in done["pipelines"]] == ["ask_user", "success"]


def test_a_cancel_reaches_the_process_after_a_restart(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS).start()
    close.append(serving)
    gate = serving.gate("s1")
    task_id = serving.new_task("s1")
    gate.wait_until_reached()
    serving.cancel(task_id)
    serving.kill()
    serving.start()
    ended = serving.wait_for_end("s1")
    assert (ended["tasks"][0]["state"], attempts(ended)) == ("CANCELLED", [1])
    assert serving.pipeline_pids() == []


POINTS = ("pipeline", "launched", "card", "settled", "replied")


def test_the_story_comes_to_its_end_wherever_the_server_is_killed(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, ASKS, DONE).start()
    close.append(serving)
    for number, point in enumerate(POINTS):
        session_id = f"s{number}"
        serving.new_task(session_id)
        if point == "replied":
            answered(serving, session_id)
        else:
            kill_at(serving, session_id, point)
        serving.start()
    for number in range(len(POINTS)):
        session_id = f"s{number}"
        if serving.state(session_id) != "SUCCEEDED":
            waiting = serving.wait_for_state(session_id, "WAITING_INPUT", "SUCCEEDED", "FAILED")
            if waiting["tasks"][0]["state"] == "WAITING_INPUT":
                (card,) = [card for card in waiting["questions"] if card["waiting"]]
                assert serving.reply(card["question_id"], reply_id=f"r-{session_id}").status_code == 200
        done = serving.wait_for_state(session_id, "SUCCEEDED", "FAILED")
        assert done["tasks"][0]["state"] == "SUCCEEDED", done
        assert [found["settlement"]["kind"] for found in done["pipelines"]] == ["ask_user", "success"]
        assert [card["standing"] for card in done["questions"] if card["reply"]] == ["answered"]


def kill_at(serving: Serving, session_id: str, point: str) -> None:
    """SIGKILL as soon as this was said."""
    with serving.events(session_id, "0~") as events:
        for event in events:
            data = event["data"]
            if point in (event["event"], data.get("standing"), data.get("state")):
                serving.kill()
                return
    raise AssertionError(f"there was no {point}")


def answered(serving: Serving, session_id: str) -> None:
    """Killed while the answer is given: who asked does not know whether it was taken, and gives it again."""
    card = serving.wait_for_state(session_id, "WAITING_INPUT")["questions"][0]
    assert serving.reply(card["question_id"], reply_id=f"r-{session_id}").status_code == 200
    serving.kill()
    serving.start()
    assert serving.reply(card["question_id"], reply_id=f"r-{session_id}").json()["outcome"] == "woken"
    serving.kill()


def test_a_server_that_is_told_to_stop_leaves_in_good_order(folder: Path, close: list[Serving]) -> None:
    serving = Serving(folder, WORKS).start()
    close.append(serving)
    gate = serving.gate("s1")
    serving.new_task("s1")
    gate.wait_until_reached()
    with serving.events("s1", "0~") as events:
        next(events)
        assert serving.stop() == 0
    assert len(serving.pipeline_pids()) == 1
