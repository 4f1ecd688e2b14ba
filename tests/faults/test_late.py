"""Answers that come later than anyone waits: adapters with short timeouts against real servers, and a real process
whose callback's answer never comes.
"""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.head import Claimant, Claimed, Terminal, Updated
from checkpoint.head_writer import HeadWriter
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.port import PreconditionFailed
from checkpoint.store.s3_client import S3Settings
from checkpoint.store.s3_store import S3Store
from runner.question_gate import Sent, Unreachable
from runner.tools.question_http import HttpQuestionSender
from settlement.question import build_question
from settlement.signing import CallbackSecrets
from settlement.wire import time_text
from tests.fakes.callback_server import CallbackServer
from tests.fakes.fault_proxy import Call, Fault, FaultProxy, at_call, nothing
from tests.faults.invariants import check_settled, head_of
from tests.faults.world import SCENARIOS, World
from tests.servers import S3Server

SHORT_S = 0.3
CLAIMANT = Claimant(
    pipeline_id="p1",
    session_id="s1",
    attempt=1,
    claim_id="mine",
    claimed_at="2026-01-01T00:00:00.000Z",
    deadline_s=60,
    grace_s=5,
    callback_url=None,
    restore=None,
)
TERMINAL = Terminal(body="{}", webhook_id="term_p1", manifest=None, digest=None)


def impatient_store(server: S3Server, proxy: FaultProxy, attempts: int) -> tuple[S3Settings, S3Store]:
    """A store through the proxy, and the settings of the same one without it."""
    settings = server.settings(server.new_bucket())
    hasty = replace(settings, read_timeout_s=SHORT_S, connect_timeout_s=SHORT_S, attempts=attempts)
    return settings, S3Store(replace(hasty, endpoint_url=proxy.url("store")))


def always_late(_call: Call) -> Fault | None:
    return "late"


@pytest.mark.seaweedfs
def test_a_write_whose_answer_is_late_is_known_as_our_own_when_it_is_tried_again(seaweed_server: S3Server) -> None:
    def first_of_each(call: Call) -> Fault | None:
        """Each write's first try is answered too late."""
        tries = [one for one in proxy.calls if one.method == call.method == "PUT" and one.body == call.body]
        return "late" if len(tries) == 1 else None

    with FaultProxy({"store": seaweed_server.endpoint_url}, first_of_each) as proxy:
        settings, store = impatient_store(seaweed_server, proxy, attempts=2)
        prove_conditions(store)
        writer = HeadWriter(store, "p1")

        assert isinstance(writer.claim(CLAIMANT), Claimed)
        assert isinstance(writer.commit_terminal(TERMINAL), Updated)
        writer.acknowledge()

    late = [call for call in proxy.calls if call.fault == "late"]
    assert len(late) >= 4
    head = head_of(S3Store(settings), "p1")
    assert head is not None
    assert (head.fields.state, head.fields.claim_id, head.fields.revision) == ("acknowledged", "mine", 3)


@pytest.mark.seaweedfs
def test_a_store_that_never_answers_in_time_is_an_error_after_which_the_same_write_may_be_made_again(
    seaweed_server: S3Server,
) -> None:
    with FaultProxy({"store": seaweed_server.endpoint_url}) as proxy:
        _, store = impatient_store(seaweed_server, proxy, attempts=1)
        writer = HeadWriter(store, "p1")
        writer.claim(CLAIMANT)

        proxy.plan = always_late
        with pytest.raises(StoreError, match="no answer") as raised:
            writer.commit_terminal(TERMINAL)
        proxy.plan = nothing

        assert raised.value.reason == "unreachable"
        assert isinstance(writer.commit_terminal(TERMINAL), Updated), "it had taken effect, and is ours"
        assert store.put_if_absent("pipelines/p1/head.json", b"{}") == PreconditionFailed()


def test_a_question_whose_answer_is_late_is_possibly_sent_and_shown_once_when_asked_again() -> None:
    question = build_question(
        pipeline_id="p1",
        attempt=1,
        session_id="s1",
        labels={},
        entry_id="e1",
        tool_call_id="call_1",
        tool_name="ask_user",
        asked_at=time_text(datetime.now(UTC)),
        question="Staging or production?",
        context=None,
        options=None,
        form=None,
        stream_id=None,
    )
    with CallbackServer() as server, FaultProxy({"server": server.base_url}, at_call(1, "late")) as proxy:
        url = f"{proxy.url('server')}/v1/questions"
        sender = HttpQuestionSender(
            url, CallbackSecrets.parse(server.secret), time_left=lambda: 60.0, budget_s=2 * SHORT_S
        )
        first = asyncio.run(sender.send(question, None))
        again = asyncio.run(sender.send(question, None))

    assert isinstance(first, Unreachable)
    assert first.possibly_sent
    assert isinstance(again, Sent)
    assert len(server.questions) == 2
    assert len(server.cards) == 1


def test_a_callback_whose_answer_never_comes_is_delivered_again_by_the_next_attempt(
    world: World, tmp_path: Path
) -> None:
    trial = world.trial(tmp_path / "late", SCENARIOS["success"])
    trial.changes = {"limits": {"callback_s": 1}}

    def never(call: Call) -> Fault | None:
        return "late" if call.where == "server" else None

    first, _ = trial.run(1, never)
    trial.changes = {}  # the next attempt has all the time it wants, as a busy machine may need it
    again, _ = trial.run(2)

    assert [first.exit, again.exit] == [77, 0]
    assert json.dumps(first.terminal) == json.dumps(again.terminal)
    check_settled(trial, again, may_repeat=False)
