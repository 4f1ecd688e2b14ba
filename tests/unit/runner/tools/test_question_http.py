"""The HTTP sender against a real server on the loopback, and its clockwork against a scripted transport."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from runner.agent.abort import AbortController
from runner.question_gate import Refused, Sent, Unreachable
from runner.tools.question_http import MAX_TRIES, HttpQuestionSender
from settlement.delivery import Surroundings
from settlement.question import Question, build_question, to_body
from settlement.signing import CallbackSecrets, verify
from settlement.wire import time_text
from tests.fakes.callback_server import QUESTIONS_PATH, SECRET, Answer, CallbackServer

pytestmark = pytest.mark.anyio

SECRETS = CallbackSecrets.parse(SECRET)
ASKED_AT = time_text(datetime(2026, 1, 2, tzinfo=UTC))


def question(call_id: str = "call-1") -> Question:
    return build_question(
        pipeline_id="p1",
        attempt=1,
        session_id="s1",
        entry_id="e1",
        tool_call_id=call_id,
        tool_name="ask_user",
        asked_at=ASKED_AT,
        question="Which one?",
    )


@pytest.fixture
def server() -> Iterator[CallbackServer]:
    with CallbackServer() as running:
        yield running


async def no_pause(_seconds: float) -> None:
    """Retries follow at once."""


def sender_to(server: CallbackServer, **options: Any) -> HttpQuestionSender:
    options = {"time_left": lambda: 60.0, "around": Surroundings(sleep=no_pause), **options}
    return HttpQuestionSender(server.base_url + QUESTIONS_PATH, SECRETS, **options)


async def test_a_2xx_is_sent_and_the_card_is_there(server: CallbackServer) -> None:
    assert await sender_to(server).send(question(), None) == Sent()
    assert [card.question_id for card in server.cards] == [question().question_id]


async def test_the_request_is_signed_and_idempotent(server: CallbackServer) -> None:
    await sender_to(server).send(question(), None)
    request = server.questions[0]
    assert request.body == to_body(question())
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == question().question_id
    now_s = float(request.headers["webhook-timestamp"])
    assert verify(SECRETS, request.headers, request.body, now_s).webhook_id == question().question_id


async def test_a_2xx_counts_as_soon_as_its_status_is_there(server: CallbackServer) -> None:
    server.answer_questions_with([Answer(200, slow_body=True)])
    assert await sender_to(server).send(question(), None) == Sent()


@pytest.mark.parametrize("wrong", [500, 503, 429, 408, 425, Answer(cut=True), Answer(409, problem="in-flight")])
async def test_what_may_pass_is_tried_again_with_the_same_id_and_the_same_bytes(
    server: CallbackServer, wrong: int | Answer
) -> None:
    server.answer_questions_with([wrong, wrong])
    assert await sender_to(server).send(question(), None) == Sent()
    assert len(server.questions) == 3
    assert {request.body for request in server.questions} == {to_body(question())}
    assert {request.headers["webhook-id"] for request in server.questions} == {question().question_id}


async def test_a_taken_question_whose_answer_was_lost_is_sent_by_asking_again(server: CallbackServer) -> None:
    server.answer_questions_with([Answer(cut=True, consumed=True)])
    assert await sender_to(server).send(question(), None) == Sent()
    assert len(server.cards) == 1


@pytest.mark.parametrize("status", [300, 400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_final_and_surely_not_sent(server: CallbackServer, status: int) -> None:
    server.answer_questions_with([status])
    result = await sender_to(server).send(question(), None)
    assert isinstance(result, Refused)
    assert not result.possibly_sent
    assert not result.may_not_ask
    assert str(status) in result.message
    assert len(server.questions) == 1


@pytest.mark.parametrize("answer", [410, 409, Answer(409, problem="superseded")])
async def test_superseded_or_gone_means_that_this_pipeline_may_not_ask_any_more(
    server: CallbackServer, answer: int | Answer
) -> None:
    server.answer_questions_with([answer])
    result = await sender_to(server).send(question(), None)
    assert isinstance(result, Refused)
    assert result.may_not_ask


async def test_a_redirect_is_not_followed(server: CallbackServer) -> None:
    server.answer_questions_with([Answer(307, location=server.base_url + "/elsewhere")])
    assert isinstance(await sender_to(server).send(question(), None), Refused)
    assert server.other_requests == []


async def test_a_server_that_never_answers_ends_within_the_budget_as_possibly_sent(server: CallbackServer) -> None:
    server.answer_questions_with([Answer(hang=True)] * 20)
    result = await sender_to(server, budget_s=0.6).send(question(), None)
    assert isinstance(result, Unreachable)
    assert result.possibly_sent


async def test_the_tries_are_bounded_also_if_the_server_is_quick_to_fail(server: CallbackServer) -> None:
    server.answer_questions_with([500] * 50)
    result = await sender_to(server).send(question(), None)
    assert isinstance(result, Unreachable)
    assert result.possibly_sent
    assert len(server.questions) == MAX_TRIES


async def test_a_server_that_is_not_there_is_unreachable_and_nothing_can_have_been_sent() -> None:
    with CallbackServer() as gone:
        sender = sender_to(gone, budget_s=1.0)
    result = await sender.send(question(), None)
    assert isinstance(result, Unreachable)
    assert not result.possibly_sent
    assert "could not connect" in result.message


async def test_a_refusal_after_a_try_that_may_have_arrived_stays_possibly_sent(server: CallbackServer) -> None:
    server.answer_questions_with([502, 400])
    result = await sender_to(server).send(question(), None)
    assert isinstance(result, Refused)
    assert result.possibly_sent


async def test_nothing_is_tried_when_no_time_is_left(server: CallbackServer) -> None:
    result = await sender_to(server, time_left=lambda: 0.0).send(question(), None)
    assert isinstance(result, Unreachable)
    assert not result.possibly_sent
    assert server.questions == []


# --- abort ---


class Network(httpx.AsyncBaseTransport):
    """Answers as the test says; `came` is set by each request."""

    def __init__(self, answer: Callable[[], Awaitable[int]]) -> None:
        self._answer = answer
        self.requests = 0
        self.came = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        self.came.set()
        return httpx.Response(await self._answer())


def sender_over(network: Network, **options: Any) -> HttpQuestionSender:
    return HttpQuestionSender("https://server.test/q", SECRETS, time_left=lambda: 60.0, transport=network, **options)


async def test_an_abort_during_a_try_does_not_end_the_try() -> None:
    controller, answered = AbortController(), asyncio.Event()

    async def late() -> int:
        await answered.wait()
        return 201

    network = Network(late)
    sending = asyncio.ensure_future(sender_over(network).send(question(), controller.signal))
    await network.came.wait()
    controller.abort()
    answered.set()
    assert await sending == Sent()


async def test_an_abort_ends_the_pause_between_tries_and_no_further_try_is_made() -> None:
    controller, pausing = AbortController(), asyncio.Event()

    async def busy() -> int:
        return 503

    async def endless_pause(_seconds: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    network = Network(busy)
    around = Surroundings(sleep=endless_pause)
    sending = asyncio.ensure_future(sender_over(network, around=around).send(question(), controller.signal))
    await pausing.wait()
    controller.abort()
    result = await asyncio.wait_for(sending, 5)
    assert isinstance(result, Unreachable)
    assert network.requests == 1


# --- words ---


async def test_no_text_holds_the_secret_the_address_or_what_the_server_said(server: CallbackServer) -> None:
    texts: list[str] = []
    for script in ([401], [Answer(409, problem="superseded")], [500] * 20, [Answer(cut=True)] * 20):
        server.answer_questions_with(script)
        result = await sender_to(server).send(question(), None)
        assert isinstance(result, Refused | Unreachable)
        texts.append(result.message)

    async def unusable() -> int:
        raise httpx.ConnectError("cannot reach https://user:password@server.test")

    result = await sender_over(Network(unusable), budget_s=0.6).send(question(), None)
    assert isinstance(result, Unreachable)
    texts.append(result.message)
    for text in texts:
        assert "whsec_" not in text
        assert SECRET.removeprefix("whsec_") not in text
        assert "127.0.0.1" not in text
        assert "server.test" not in text
        assert "problems.example" not in text
        assert "password" not in text


async def test_an_address_that_cannot_be_used_is_refused_without_repeating_it() -> None:
    sender = HttpQuestionSender("ftp://user:password@server.test", SECRETS, time_left=lambda: 60.0)
    result = await sender.send(question(), None)
    assert isinstance(result, Refused)
    assert not result.possibly_sent
    assert "password" not in result.message
