"""The story of one pipeline over fakes: what each failure along it comes to."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoint.errors import StoreError, StoreReason
from checkpoint.head import Claimant, Claimed
from checkpoint.head_writer import HeadWriter
from checkpoint.keys import head_key
from checkpoint.store.port import PutResult
from runner.ending import Ending
from runner.exits import Exit
from runner.parts import Parts
from runner.pipeline import run_pipeline
from settlement.question import question_id
from settlement.verdict import GaveUp, Refused, Rejected
from tests.fakes.answers import Answers, Hang, answer, call
from tests.fakes.memory_store import MemoryStore
from tests.fakes.pipeline_parts import Backstage, FakeCourier
from tests.fakes.questions import FakeQuestionSender

pytestmark = pytest.mark.anyio

HEAD = head_key("p1")
ASKED = answer("", call("call-1", "ask_user", question="Which one?"))
QUICK = {"limits": {"grace_s": 0.5}}


@pytest.fixture
def stage(tmp_path: Path) -> Backstage:
    return Backstage(tmp_path)


def failing(
    where: Callable[[str, str], bool], reason: StoreReason = "unreachable", after: int = 0
) -> Callable[[str, str], None]:
    """A hook for the store: calls that match fail, once `after` of them went well."""
    left = [after]

    def hook(operation: str, key: str) -> None:
        if where(operation, key):
            if left[0] == 0:
                raise StoreError(reason, "The store is down.")
            left[0] -= 1

    return hook


def head_writes(operation: str, key: str) -> bool:
    return operation == "put_if_match" and key == HEAD


# --- the claim ----------------------------------------------------------------------------------------------


async def test_a_run_is_stored_before_it_is_delivered_and_acknowledged_after(stage: Backstage) -> None:
    states: list[str] = []
    stage.courier.on_delivery = lambda: states.append(stage.head()["state"])

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert states == ["terminal"]
    assert stage.head()["state"] == "acknowledged"
    url, webhook_id, body, _ = stage.courier.sent[0]
    assert (url, webhook_id) == ("http://127.0.0.1:9/v1/terminals", "term_p1")
    assert body.decode() == stage.head()["terminal"]["body"] == ending.terminal


@pytest.mark.parametrize(
    ("reason", "exit_code"),
    [("unreachable", Exit.INFRASTRUCTURE), ("denied", Exit.INFRASTRUCTURE), ("misconfigured", Exit.REFUSED)],
)
async def test_a_store_that_fails_the_claim_ends_the_process(
    stage: Backstage, reason: StoreReason, exit_code: Exit
) -> None:
    stage.store.before = failing(lambda _operation, _key: True, reason)

    ending = await stage.run()

    assert (ending.exit_code, ending.reason, ending.terminal) == (exit_code, reason, None)
    assert stage.courier.sent == []


async def test_a_head_that_cannot_be_read_is_left_as_it_is(stage: Backstage) -> None:
    stage.store.objects[HEAD] = b"{"

    ending = await stage.run(attempt=2)

    assert (ending.exit_code, ending.reason) == (Exit.INFRASTRUCTURE, "damaged_record")
    assert stage.store.objects[HEAD] == b"{"


async def test_a_stop_before_the_claim_claims_nothing(stage: Backstage) -> None:
    stage.stop.request("cancelled", signal_name="SIGTERM")

    ending = await stage.run()

    assert (ending.exit_code, ending.reason) == (Exit.STOPPED, "stopped_before_commit")
    assert stage.store.objects == {}


async def test_a_stop_between_claim_and_restore_settles_as_cancelled_and_keeps_what_was(stage: Backstage) -> None:
    def stop_after_claim(operation: str, key: str) -> None:
        if (operation, key) == ("put_if_absent", HEAD):
            stage.stop.request("cancelled")

    stage.store.after = stop_after_claim

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "cancelled"
    assert stage.terminal["checkpoint"]["decision"] == "keep_previous"
    assert stage.answers.requests == []


# --- restore ------------------------------------------------------------------------------------------------


async def test_a_store_that_fails_while_restoring_leaves_the_claim_to_a_relaunch(stage: Backstage) -> None:
    stage.store.before = failing(lambda operation, _key: operation == "stream")

    ending = await stage.run(session={"id": "s1", "restore": {"jsonl": "old.jsonl"}})

    assert (ending.exit_code, ending.reason) == (Exit.INFRASTRUCTURE, "unreachable")
    assert stage.head()["state"] == "claimed"


@pytest.mark.parametrize("reason", ["misconfigured", "missing_bucket", "too_large"])
async def test_a_restore_object_that_no_relaunch_could_read_is_settled_and_not_refused(
    stage: Backstage, reason: StoreReason
) -> None:
    stage.store.before = failing(lambda operation, _key: operation == "stream", reason)

    ending = await stage.run(session={"id": "s1", "restore": {"jsonl": "s3://elsewhere/old.jsonl"}})

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "restore_failed"
    assert stage.terminal["input_consumed"] is False


async def test_a_local_disk_that_takes_no_log_is_persistence_failed(stage: Backstage) -> None:
    parts = stage.build()
    (parts.folder / "session.jsonl").mkdir()

    ending = await run_pipeline(parts)

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "persistence_failed"
    assert stage.terminal["checkpoint"]["decision"] == "keep_previous"


# --- the run ------------------------------------------------------------------------------------------------


async def test_a_defect_in_the_run_settles_as_internal_with_the_log_as_a_diagnostic(stage: Backstage) -> None:
    def broken(_message: object) -> None:
        raise ZeroDivisionError("a secret may be in here")

    stage.answers = Answers(answer("", stop_reason="error", error="overloaded"))
    stage.classify = broken

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "internal"
    assert "ZeroDivisionError" in stage.terminal["settlement"]["message"]
    assert "secret" not in stage.terminal["settlement"]["message"]
    assert stage.terminal["checkpoint"]["decision"] == "keep_previous"
    assert stage.terminal["checkpoint"]["diagnostic"] in stage.store.objects
    assert "defect" in stage.events


async def test_the_spec_prompt_wins_over_that_of_the_session_and_stands_in_no_log(stage: Backstage) -> None:
    system = {"role": "system", "content": [{"type": "text", "text": "You are kind."}], "timestamp": 0}
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    entry = {"type": "message", "id": "a1", "parentId": None, "timestamp": header["timestamp"], "message": system}
    stage.store.objects["old.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in (header, entry))
    session = {"id": "s1", "restore": {"jsonl": "old.jsonl"}}
    agent = {"model": {"api": "scripted", "script": "script.json"}}
    stage.answers = answers = Answers(answer("One."), answer("Two."))

    await stage.run(session=session)
    await stage.run(session=session, pipeline_id="p2", agent={**agent, "system_prompt": "You are terse."})

    assert [request.system_prompt for request in answers.requests] == ["You are kind.", "You are terse."]


async def test_a_deadline_during_the_answer_settles_with_what_had_come(stage: Backstage) -> None:
    stage.answers = Answers(Hang())
    running = asyncio.ensure_future(stage.run(**QUICK))
    await asyncio.wait_for(stage.answers.asked.wait(), 10)

    stage.stop.request("deadline_exceeded")
    ending = await asyncio.wait_for(running, 10)

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "deadline_exceeded"
    assert stage.terminal["checkpoint"]["decision"] == "commit"


# --- upload and commit --------------------------------------------------------------------------------------


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


# --- callback -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "exit_code", "state"),
    [
        (Rejected(409, "urn:superseded"), Exit.FENCED, "rejected"),
        (Refused(404), Exit.UNACKNOWLEDGED, "terminal"),
        (GaveUp(None), Exit.UNACKNOWLEDGED, "terminal"),
    ],
)
async def test_the_servers_verdict_is_noted_and_decides_the_exit(
    stage: Backstage, verdict: Rejected | Refused | GaveUp, exit_code: Exit, state: str
) -> None:
    stage.courier = FakeCourier(verdict)

    ending = await stage.run()

    assert ending.exit_code == exit_code
    assert ending.terminal == stage.head()["terminal"]["body"]
    assert stage.head()["state"] == state


async def test_an_acknowledgement_that_cannot_be_noted_is_an_acknowledgement(stage: Backstage) -> None:
    stage.store.before = failing(head_writes, after=1)

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.head()["state"] == "terminal"
    assert "verdict_not_noted" in stage.events


async def test_a_signal_cuts_a_callback_that_hangs_at_the_end_of_the_grace(stage: Backstage) -> None:
    stage.courier = FakeCourier(None)
    running = asyncio.ensure_future(stage.run(limits={"grace_s": 0.2}))
    await asyncio.wait_for(stage.courier.came.wait(), 10)

    stage.stop.request("cancelled", signal_name="SIGTERM")
    ending = await asyncio.wait_for(running, 10)

    assert (ending.exit_code, ending.reason) == (Exit.UNACKNOWLEDGED, "unacknowledged")
    assert stage.head()["state"] == "terminal"


async def test_without_a_server_the_stored_record_is_the_end(stage: Backstage) -> None:
    ending = await stage.run(server=None)

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.courier.sent == []
    assert stage.head()["state"] == "terminal"


async def test_a_pipeline_that_has_settled_runs_nothing_again(stage: Backstage) -> None:
    stage.courier = FakeCourier(GaveUp(None))
    first = await stage.run()
    stage.courier = FakeCourier()

    again = await stage.run(attempt=7)
    quiet = await stage.run(attempt=8)

    assert [first.exit_code, again.exit_code, quiet.exit_code] == [77, 0, 0]
    assert first.terminal == again.terminal == quiet.terminal
    assert len(stage.answers.requests) == len(stage.courier.sent) == 1


def test_a_failed_store_never_refuses_a_claimed_pipeline(stage: Backstage) -> None:
    parts = stage.build()
    unclaimed = parts.failed("misconfigured", "Correct it.")
    claimed_parts: Parts = replace(parts, head=HeadWriter(stage.store, "p1"))
    claimed_parts.head.claim(
        Claimant(
            pipeline_id="p1",
            session_id="s1",
            attempt=1,
            claim_id="c1",
            claimed_at=parts.started_at,
            deadline_s=1.0,
            grace_s=1.0,
            callback_url=None,
            restore=None,
        )
    )

    assert Ending.of(unclaimed).exit_code == Exit.REFUSED
    assert Ending.of(claimed_parts.failed("misconfigured", "Correct it.")).exit_code == Exit.INFRASTRUCTURE
