"""Upload and commit over fakes: what is stored, and what is said when it cannot be."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from checkpoint.head import Claimant, Claimed
from checkpoint.head_writer import HeadWriter
from checkpoint.store.port import PutResult
from runner.exits import Exit
from settlement.question import question_id
from tests.fakes.answers import Answers, answer, call
from tests.fakes.memory_store import MemoryStore
from tests.fakes.pipeline_parts import HEAD, Backstage, failing, head_writes
from tests.fakes.questions import FakeQuestionSender

pytestmark = pytest.mark.anyio

ASKED = answer("", call("call-1", "ask_user", question="Which one?"))
QUICK = {"limits": {"grace_s": 0.5}}


@pytest.fixture
def stage(tmp_path: Path) -> Backstage:
    return Backstage(tmp_path)


async def test_a_failed_upload_is_a_failure_that_withdraws_what_was_asked(stage: Backstage) -> None:
    stage.answers, stage.sender = Answers(ASKED), FakeQuestionSender()
    stage.store.before = failing(lambda _operation, key: key.startswith("sessions/"))

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    settlement = stage.terminal["settlement"]
    assert settlement["reason"] == "checkpoint_failed"
    assert settlement["retryable"]
    assert "The store is down" in settlement["message"]
    assert settlement["withdrawn_questions"] == [stage.sender.questions[0].question_id]
    assert stage.terminal["questions"] == []
    assert stage.terminal["input_consumed"] is False
    assert stage.terminal["checkpoint"] == {
        "decision": "keep_previous",
        "manifest": None,
        "digest": None,
        "parent": None,
        "entries": 0,
        "bytes": 0,
        "leaf_id": None,
        "resumable": True,
    }


async def test_an_asked_question_is_pending_in_the_manifest(stage: Backstage) -> None:
    stage.answers, stage.sender = Answers(ASKED), FakeQuestionSender()

    await stage.run()

    manifest = json.loads(stage.store.objects[stage.terminal["checkpoint"]["manifest"]])
    (pending,) = manifest["pending_questions"]
    assert pending["tool_call_id"] == "call-1"
    assert pending["question_id"] == question_id("p1", pending["entry_id"], "call-1")
    assert manifest["counters"]["turns"] == 1


async def test_a_store_that_is_down_at_the_commit_leaves_the_claim_and_calls_nobody(stage: Backstage) -> None:
    stage.store.before = failing(head_writes)

    ending = await stage.run()

    assert (ending.exit_code, ending.reason) == (Exit.INFRASTRUCTURE, "unreachable")
    assert stage.courier.sent == []
    assert stage.head()["state"] == "claimed"


async def test_the_same_under_a_signal_is_a_stop_before_the_commit(stage: Backstage) -> None:
    stage.store.before = failing(head_writes)
    stage.before_request = lambda: stage.stop.request("cancelled", signal_name="SIGTERM")

    ending = await stage.run()

    assert ending.exit_code == Exit.STOPPED
    assert ending.message is not None
    assert "SIGTERM" in ending.message
    assert stage.courier.sent == []


async def test_a_process_that_was_taken_over_is_fenced_at_the_commit_and_calls_nobody(stage: Backstage) -> None:
    def take_over() -> None:
        mine = stage.head()
        successor = Claimant(
            pipeline_id="p1",
            session_id="s1",
            attempt=2,
            claim_id="successor",
            claimed_at=mine["claimed_at"],
            deadline_s=10.0,
            grace_s=1.0,
            callback_url=None,
            restore=None,
        )
        assert isinstance(HeadWriter(stage.store, "p1").claim(successor), Claimed)

    stage.before_request = take_over
    ending = await stage.run()

    assert (ending.exit_code, ending.reason) == (Exit.FENCED, "fenced")
    assert ending.message is not None
    assert "attempt 2" in ending.message
    assert stage.courier.sent == []
    assert (stage.head()["claim_id"], stage.head()["state"]) == ("successor", "claimed")


class RepeatingStore(MemoryStore):
    """Its client repeats every head write whose answer was lost, and gets the answer to the repetition."""

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        first = super().put_if_absent(key, body)
        return super().put_if_absent(key, body) if key == HEAD else first

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        first = super().put_if_match(key, body, etag)
        return super().put_if_match(key, body, etag) if key == HEAD else first


async def test_a_412_that_our_own_write_caused_is_no_fence_at_claim_commit_and_acknowledgement(
    stage: Backstage,
) -> None:
    stage.store = RepeatingStore()

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert len(stage.courier.sent) == 1
    assert stage.head()["state"] == "acknowledged"
    assert stage.head()["revision"] == 3


async def test_an_upload_that_hangs_under_a_signal_is_given_up_and_the_record_still_stored(stage: Backstage) -> None:
    release = threading.Event()

    def hang(_operation: str, key: str) -> None:
        if key.startswith("sessions/"):
            release.wait(10)

    stage.store.before = hang
    stage.before_request = lambda: stage.stop.request("cancelled", signal_name="SIGTERM")

    try:
        ending = await asyncio.wait_for(stage.run(**QUICK), 10)
    finally:
        release.set()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "checkpoint_failed"
    assert stage.terminal["checkpoint"]["decision"] == "keep_previous"
