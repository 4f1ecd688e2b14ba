"""The story of one pipeline over fakes: what each failure along it comes to."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpoint.errors import StoreReason
from checkpoint.head import Claimant
from checkpoint.head_writer import HeadWriter
from runner.ending import Ending
from runner.exits import Exit
from runner.models.failure import Failure
from runner.parts import Parts
from runner.pipeline import claim_pipeline, run_pipeline
from settlement.verdict import GaveUp, Refused, Rejected
from tests.fakes.answers import Answers, Hang, answer, call
from tests.fakes.pipeline_parts import HEAD, Backstage, FakeCourier, failing, head_writes

pytestmark = pytest.mark.anyio

ASKED = answer("", call("call-1", "ask_user", question="Which one?"))
QUICK = {"limits": {"grace_s": 0.5}}


@pytest.fixture
def stage(tmp_path: Path) -> Backstage:
    return Backstage(tmp_path)


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


async def test_a_record_for_a_server_is_not_acknowledged_by_a_relaunch_that_names_none(stage: Backstage) -> None:
    stage.courier.verdict = GaveUp(None)
    await stage.run()

    ending = await stage.run(attempt=2, server=None)

    assert (ending.exit_code, ending.reason) == (Exit.UNACKNOWLEDGED, "unacknowledged")
    assert "is for http://127.0.0.1:9/v1/terminals" in (ending.message or "")
    assert stage.head()["state"] == "terminal"


async def test_a_takeover_says_that_the_restore_point_of_the_claim_counts(stage: Backstage) -> None:
    await claim_pipeline(stage.build())

    await stage.run(attempt=2, session={"id": "s1", "restore": {"jsonl": "old.jsonl"}})

    assert stage.terminal["settlement"]["kind"] == "success", "the first attempt named no restore point"
    assert stage.terminal["checkpoint"]["parent"] is None
    assert "whose restore point counts" in stage.terminal["warnings"][0]


async def test_a_head_that_is_damaged_after_the_delivery_does_not_undo_it(stage: Backstage) -> None:
    stage.courier.on_delivery = lambda: stage.store.objects.update({HEAD: b"damaged"})

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert "verdict_not_noted" in stage.events


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
    stage.failure_of = broken

    ending = await stage.run()

    assert ending.exit_code == Exit.ACKNOWLEDGED
    assert stage.terminal["settlement"]["reason"] == "internal"
    assert "ZeroDivisionError" in stage.terminal["settlement"]["message"]
    assert "secret" not in stage.terminal["settlement"]["message"]
    assert stage.terminal["checkpoint"]["decision"] == "keep_previous"
    assert stage.terminal["checkpoint"]["diagnostic"] in stage.store.objects
    assert "defect" in stage.events


async def test_a_cancel_that_comes_just_when_a_failed_answer_is_judged_settles_as_cancelled(stage: Backstage) -> None:
    """The model was to be asked again; that there is no more time for it is the cancel's doing, not the model's."""

    def cancelled_meanwhile(_message: object) -> Failure:
        stage.stop.request("cancelled")
        return Failure("model_overloaded", "busy", transient=True)

    stage.answers = Answers(answer("", stop_reason="error", error="overloaded"))
    stage.failure_of = cancelled_meanwhile

    await stage.run(**QUICK)

    assert stage.terminal["settlement"]["reason"] == "cancelled"
    assert len(stage.answers.requests) == 1
    assert "model_failed" not in stage.events


async def test_a_cancel_after_the_last_attempt_leaves_the_models_failure_what_it_is(stage: Backstage) -> None:
    def cancelled_meanwhile(_message: object) -> Failure:
        stage.stop.request("cancelled")
        return Failure("model_invalid_request", "bad")

    stage.answers = Answers(answer("", stop_reason="error", error="bad"))
    stage.failure_of = cancelled_meanwhile

    await stage.run(**QUICK)

    assert stage.terminal["settlement"]["reason"] == "model_invalid_request"


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
