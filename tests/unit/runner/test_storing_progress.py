"""Progress while a pipeline runs, over fakes: what a slow, failing or lost store does to the run, and to its end."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from runner.exits import Exit
from tests.fakes.answers import answer, call
from tests.fakes.attempts import (
    ECHO,
    TOOLS,
    TURN,
    Attempts,
    denied_segments,
    roles,
    stopped,
    turns,
)
from tests.fakes.pipeline_parts import HEAD
from tests.fakes.stored_session import stored_entries, stored_messages

pytestmark = pytest.mark.anyio


@pytest.fixture
def scene(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


# --- a store that is slow or fails, a claim that is lost ----------------------------------------------------


async def test_a_store_that_takes_no_progress_fails_no_turn_and_is_reported_once(scene: Attempts) -> None:
    failures: list[str] = []

    def down(operation: str, key: str) -> None:
        if operation == "put_if_match" and key == HEAD and len(scene.answers.requests) < 3:
            failures.append(key)
            raise StoreError("unreachable", "The store is down.")

    scene.store.before = down
    scene.before_request = lambda: scene.wait_for(lambda: len(failures) >= len(scene.answers.requests))
    ending = await scene.attempt(1, ECHO, ECHO, answer("Done."), agent=TOOLS, **TURN)

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert scene.terminal["settlement"]["text"] == "Done."
    assert [warning for warning in scene.terminal["warnings"] if "progress" in warning] == [
        "the run's progress could not be stored at times (unreachable): The store is down."
    ]
    assert scene.events.count("progress_not_stored") == 1


async def test_turns_do_not_wait_for_a_slow_store_which_gets_all_that_piled_up_at_once(scene: Attempts) -> None:
    release = threading.Event()
    writes: list[str] = []

    def slow(_operation: str, key: str) -> None:
        if "/segments/" in key:
            writes.append(key)
            if len(writes) == 1:
                assert release.wait(10)

    scene.store.before = slow
    asked = [0]

    def before_request() -> None:
        asked[0] += 1
        if asked[0] == 5:
            release.set()
            scene.until(turns(4))

    scene.before_request = before_request
    await scene.attempt(1, ECHO, ECHO, ECHO, ECHO, answer("Done."), agent=TOOLS, **TURN)

    assert scene.terminal["usage"]["turns"] == 5
    assert len(writes) == 3, "the first turn, the three that piled up behind it, the last"


async def test_a_process_that_finds_its_claim_lost_stops_soon_and_calls_nobody(scene: Attempts) -> None:
    claimed_over: list[int] = []

    def before_request() -> None:
        if not scene.answers.requests:
            head = {**scene.head(), "attempt": 9, "claim_id": "successor", "revision": 9}
            scene.store.objects[HEAD] = json.dumps(head).encode()
            claimed_over.append(1)

    scene.before_request = before_request
    waiting = answer("", call("wait-1", "wait"))
    ending = await asyncio.wait_for(scene.attempt(1, ECHO, waiting, agent=TOOLS, **TURN), 20)

    assert (ending.exit_code, ending.reason) == (Exit.FENCED, "fenced")
    assert "attempt 9" in (ending.message or "")
    assert scene.courier.sent == []
    assert scene.head()["claim_id"] == "successor"
    assert not any("/checkpoints/" in key for key in scene.store.objects)


# --- the end cannot be stored -------------------------------------------------------------------------------


async def test_under_a_signal_the_last_progress_is_what_the_settlement_names(scene: Attempts) -> None:
    release = threading.Event()
    asked = [0]

    def before_request() -> None:
        asked[0] += 1
        if asked[0] == 2:
            scene.until(turns(1))
            scene.store.before = hanging_segments(release)
            scene.stop.request("cancelled", signal_name="SIGTERM")

    scene.before_request = before_request
    try:
        ending = await asyncio.wait_for(
            scene.attempt(1, ECHO, answer("cut off"), agent=TOOLS, limits={"grace_s": 1}, **TURN), 20
        )
    finally:
        release.set()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    terminal = scene.terminal
    assert terminal["settlement"]["kind"] == "failure"
    assert terminal["checkpoint"]["decision"] == "commit"
    assert terminal["checkpoint"]["entries"] == scene.progress["entries"]
    assert terminal["checkpoint"]["leaf_id"] == scene.progress["leaf_id"]
    assert terminal["input_consumed"] is True
    assert "the end of the session could not be stored" in terminal["warnings"][0]
    stored = stored_messages(stored_entries(scene.store, terminal))
    assert roles(stored) == ["user", "assistant", "toolResult"]


def hanging_segments(release: threading.Event) -> Callable[[str, str], None]:
    def hang(_operation: str, key: str) -> None:
        if "/segments/" in key:
            assert release.wait(30)

    return hang


async def test_an_answer_that_cannot_be_stored_is_no_success_even_with_progress(scene: Attempts) -> None:
    asked = [0]

    def before_request() -> None:
        asked[0] += 1
        if asked[0] == 2:
            scene.until(turns(1))
            scene.store.before = denied_segments

    scene.before_request = before_request
    await scene.attempt(1, ECHO, answer("Done."), agent=TOOLS, **TURN)

    assert scene.terminal["settlement"]["reason"] == "checkpoint_failed"
    assert scene.terminal["checkpoint"]["decision"] == "commit"
    assert scene.terminal["checkpoint"]["entries"] == scene.progress["entries"]


async def test_a_manifest_that_fails_once_costs_nothing_where_all_lines_are_stored(scene: Attempts) -> None:
    failed: list[str] = []

    def once(_operation: str, key: str) -> None:
        if "/checkpoints/" in key and not failed:
            scene.until(stopped)
            failed.append(key)
            raise StoreError("unreachable", "The store was away.")

    scene.store.before = once
    await scene.attempt(1, answer("Done."), **TURN)

    assert scene.terminal["settlement"]["text"] == "Done."
    assert scene.terminal["checkpoint"]["decision"] == "commit"
    assert scene.terminal["warnings"] == []


async def test_a_takeover_that_is_stopped_before_it_has_restored_commits_what_it_found(scene: Attempts) -> None:
    scene.kill_at_request(2, turns(1))
    await scene.attempt(1, ECHO, answer("never stored"), agent=TOOLS, **TURN)

    def stop_after_claim(operation: str, key: str) -> None:
        if (operation, key) == ("put_if_match", HEAD) and scene.head()["attempt"] == 2:
            scene.stop.request("cancelled", signal_name="SIGTERM")

    scene.store.after = stop_after_claim
    await scene.attempt(2, agent=TOOLS, **TURN)

    assert scene.terminal["settlement"]["reason"] == "cancelled"
    assert scene.terminal["checkpoint"]["decision"] == "commit"
    assert scene.terminal["checkpoint"]["entries"] == scene.progress["entries"]
    assert scene.terminal["input_consumed"] is True


async def test_many_turns_leave_few_segments_and_a_small_head(scene: Attempts) -> None:
    scene.keep_step()
    await scene.attempt(1, *[ECHO] * 40, answer("Done."), agent=TOOLS, **TURN)

    assert len(scene.progress["segments"]) <= 18
    assert len(scene.store.objects[HEAD]) < 32_000
    assert len(stored_messages(stored_entries(scene.store, scene.terminal))) == 82
