"""The consuming side's door."""

import json
from typing import Any

import pytest

from settlement import callback, question
from settlement.receiving import (
    IN_FLIGHT,
    MAX_RECEIVED_BYTES,
    STATUS_OF,
    Problem,
    ReceivedQuestion,
    ReceivedTerminal,
    receive_question,
    receive_terminal,
)
from settlement.signing import CallbackSecrets, webhook_headers
from settlement.verdict import Answer, Refused, Rejected, Retry, verdict
from tests.unit.settlement.samples import (
    NOW_S,
    SECRETS,
    a_question,
    a_terminal,
    received_question,
    received_terminal,
)

QUESTION = a_question()
TERMINAL = a_terminal()


def taken_question(body: bytes, webhook_id: str = QUESTION.question_id) -> ReceivedQuestion | Problem:
    return receive_question(SECRETS, webhook_headers(SECRETS, webhook_id, NOW_S, body), body, NOW_S)


def taken_terminal(body: bytes, webhook_id: str = "term_p1") -> ReceivedTerminal | Problem:
    return receive_terminal(SECRETS, webhook_headers(SECRETS, webhook_id, NOW_S, body), body, NOW_S)


def refused(found: object) -> Problem:
    assert isinstance(found, Problem)
    return found


def test_a_signed_question_comes_through():
    received = taken_question(question.to_body(QUESTION))
    assert isinstance(received, ReceivedQuestion)
    assert received.question == QUESTION


def test_a_signed_terminal_comes_through():
    received = taken_terminal(callback.to_body(TERMINAL))
    assert isinstance(received, ReceivedTerminal)
    assert received.terminal == TERMINAL


def test_a_newer_sender_with_more_fields_is_understood():
    body = json.loads(callback.to_body(TERMINAL))
    body["later"] = body["checkpoint"]["later"] = body["settlement"]["later"] = {"a": 1}
    received = taken_terminal(json.dumps(body).encode())
    assert isinstance(received, ReceivedTerminal)
    assert received.terminal == TERMINAL


def test_an_unsigned_request_is_not_even_parsed():
    body = b"not json"
    other = CallbackSecrets.parse("whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXI=")
    headers = webhook_headers(other, "term_p1", NOW_S, body)
    problem = refused(receive_terminal(SECRETS, headers, body, NOW_S))
    assert (problem.status, problem.reason) == (401, "unsigned")
    assert refused(receive_question(SECRETS, {}, body, NOW_S)).status == 401


def test_an_old_request_played_again_is_refused():
    body = callback.to_body(TERMINAL)
    headers = webhook_headers(SECRETS, "term_p1", NOW_S, body)
    assert refused(receive_terminal(SECRETS, headers, body, NOW_S + 301)).reason == "unsigned"
    assert isinstance(receive_terminal(SECRETS, headers, body, NOW_S + 301, tolerance_s=600), ReceivedTerminal)


def test_a_body_over_the_bound_is_refused():
    assert refused(taken_terminal(b" " * (MAX_RECEIVED_BYTES + 1))).status == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"{", b"\xff", b'{"type": "terminal"}', b"[" * 100_000, b'{"a": NaN}'],
)
def test_a_body_of_another_shape_is_refused(body: bytes):
    assert refused(taken_terminal(body)).status == 400
    assert refused(taken_question(body)).status == 400


@pytest.mark.parametrize(
    "changes", [{"version": 2}, {"attempt": 0}, {"pipeline_id": "../x"}, {"checkpoint": None}, {"settlement": {}}]
)
def test_a_terminal_outside_the_contract_is_refused_and_the_place_named(changes: dict[str, Any]):
    body = json.dumps({**json.loads(callback.to_body(TERMINAL)), **changes}).encode()
    problem = refused(taken_terminal(body))
    assert problem.status == 400
    assert next(iter(changes)) in problem.detail


def test_what_was_sent_is_not_given_back_in_the_refusal():
    body = json.dumps({**json.loads(callback.to_body(TERMINAL)), "attempt": "hunter2" * 1000}).encode()
    problem = refused(taken_terminal(body))
    assert "hunter2" not in problem.detail
    assert len(problem.to_body()) < 1000


def test_an_id_that_is_not_the_bodys_is_refused():
    assert refused(taken_terminal(callback.to_body(TERMINAL), "term_p2")).reason == "malformed"
    assert refused(taken_question(question.to_body(QUESTION), "ask_x")).reason == "malformed"


# --- what is the same ----------------------------------------------------------------------------------------


def test_a_question_asked_again_by_a_takeover_is_the_same_question():
    first = received_question(QUESTION)
    again = received_question(a_question(attempt=2, asked_at="2026-07-31T11:00:00.000Z", labels={"relaunched": "yes"}))
    assert again.digest == first.digest


@pytest.mark.parametrize(
    "changes",
    [{"question": "Other?"}, {"context": "c"}, {"options": ["a"]}, {"stream_id": "s"}, {"session_id": "s2"}],
)
def test_a_question_with_other_content_is_another(changes: dict[str, Any]):
    assert received_question(a_question(**changes)).digest != received_question(QUESTION).digest


def test_a_terminal_is_the_same_only_byte_for_byte():
    assert received_terminal(TERMINAL).digest == received_terminal(TERMINAL).digest
    assert received_terminal(TERMINAL).digest != received_terminal(a_terminal(warnings=("w",))).digest


# --- how the runner takes the answers ------------------------------------------------------------------------


@pytest.mark.parametrize("reason", STATUS_OF)
def test_every_problem_means_to_the_runner_what_it_means_here(reason: Any):
    problem = Problem(reason, "because")
    document = json.loads(problem.to_body())
    assert document["status"] == problem.status
    found = verdict(Answer(problem.status, document["type"]), tries=1, elapsed_s=0, budget_s=600, chance=0, now_s=0)
    if problem == Problem("in-flight", "because"):
        assert isinstance(found, Retry)
    elif problem.status == 409:
        assert isinstance(found, Rejected)
    else:
        assert isinstance(found, Refused)


def test_in_flight_is_there_for_servers_that_need_it():
    assert IN_FLIGHT.status == 409
    assert IN_FLIGHT.type.endswith("in-flight")
