"""Delivery over real HTTP, and its clockwork on a clock of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx
import pytest

from settlement import callback
from settlement.delivery import MAX_ANSWER_BYTES, Delivery, Surroundings, Try, check_address, deliver
from settlement.errors import AddressInvalid
from settlement.signing import verify
from settlement.verdict import Answer, Delivered, GaveUp, NoAnswer, Refused, Rejected
from tests.fakes.callback_server import TERMINALS_PATH, CallbackServer
from tests.fakes.callback_server import Answer as Scripted
from tests.unit.settlement.samples import SECRETS, a_terminal

TERMINAL = a_terminal()
BODY = callback.to_body(TERMINAL)
ID = "term_p1"

AT_ONCE = Surroundings(chance=lambda: 0.0)
"""The real clock, without waits between tries."""


def delivered_to(
    url: str,
    *,
    budget_s: float = 10.0,
    on_try: Callable[[Try], None] | None = None,
    go_on: Callable[[], bool] | None = None,
) -> Delivery:
    return asyncio.run(deliver(url, ID, BODY, SECRETS, budget_s=budget_s, on_try=on_try, go_on=go_on, around=AT_ONCE))


def delivered(server: CallbackServer, budget_s: float = 10.0) -> Delivery:
    return delivered_to(server.base_url + TERMINALS_PATH, budget_s=budget_s)


# --- real HTTP --------------------------------------------------------------------------------------------


def test_a_callback_arrives_signed_and_byte_for_byte():
    with CallbackServer() as server:
        assert delivered(server) == Delivery(Delivered(), tries=1, may_have_arrived=True)
        [request] = server.terminals
        assert request.body == BODY
        assert request.headers["idempotency-key"] == request.headers["webhook-id"] == ID
        assert request.headers["content-type"] == "application/json"
        assert server.committed == [TERMINAL]


def test_a_failing_server_gets_the_same_bytes_under_the_same_id_until_it_takes_them():
    with CallbackServer() as server:
        server.answer_terminals_with([500, 503, 429, 408, 425])
        assert delivered(server) == Delivery(Delivered(), tries=6, may_have_arrived=True)
        assert {request.body for request in server.terminals} == {BODY}
        assert {request.headers["webhook-id"] for request in server.terminals} == {ID}


def test_an_answer_that_gets_lost_after_the_commit_is_asked_for_again_and_is_the_same():
    with CallbackServer() as server:
        server.answer_terminals_with([Scripted(cut=True, consumed=True)])
        assert delivered(server) == Delivery(Delivered(), tries=2, may_have_arrived=True)
        assert len(server.committed) == 1


@pytest.mark.parametrize(
    "script",
    [
        [Scripted(409, problem="in-flight")],
        [Scripted(cut=True)],
        [Scripted(503, slow_body=True)],
        [Scripted(503, retry_after="0")],
    ],
)
def test_what_is_worth_another_try_gets_it(script: list[Scripted]):
    with CallbackServer() as server:
        server.answer_terminals_with(script)
        assert delivered(server) == Delivery(Delivered(), tries=2, may_have_arrived=True)


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        (
            Scripted(409, problem="superseded"),
            Rejected(409, "https://problems.example/superseded"),
        ),
        (Scripted(409, problem="\x1b[2Jsuperseded or so"), Rejected(409, None)),
        (Scripted(409), Rejected(409, None)),
        (Scripted(410), Rejected(410, None)),
        (Scripted(400), Refused(400)),
        (Scripted(401), Refused(401)),
        (Scripted(404), Refused(404)),
        (Scripted(422), Refused(422)),
        (Scripted(304), Refused(304)),
    ],
)
def test_a_final_answer_is_not_argued_with(answer: Scripted, final: Rejected | Refused):
    with CallbackServer() as server:
        server.answer_terminals_with([answer])
        assert delivered(server) == Delivery(final, tries=1, may_have_arrived=False)
        assert len(server.terminals) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int):
    with CallbackServer() as server:
        server.answer_terminals_with([Scripted(status, location=server.base_url + "/elsewhere")])
        assert delivered(server).verdict == Refused(status)
        assert server.other_requests == []


def test_a_hanging_server_is_given_up_at_the_end_of_the_budget():
    with CallbackServer() as server:
        server.answer_terminals_with([Scripted(hang=True)])
        found = delivered(server, budget_s=0.7)
        assert isinstance(found.verdict, GaveUp)
        assert isinstance(found.verdict.last, NoAnswer)
        assert "no answer within" in found.verdict.last.what
        assert found.may_have_arrived


def test_a_2xx_counts_as_soon_as_its_status_is_there():
    with CallbackServer() as server:
        server.answer_terminals_with([Scripted(200, slow_body=True)])
        assert delivered(server, budget_s=5.0).verdict == Delivered()


def test_a_conflict_whose_problem_does_not_arrive_is_not_guessed_at():
    with CallbackServer() as server:
        server.answer_terminals_with([Scripted(409, slow_body=True)])
        found = delivered(server, budget_s=0.7)
        assert isinstance(found.verdict, GaveUp)
        assert isinstance(found.verdict.last, NoAnswer)


def test_a_server_that_is_down_is_tried_until_the_budget_ends():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        tries: list[Try] = []
        found = delivered_to(f"http://127.0.0.1:{taken.getsockname()[1]}/", budget_s=0.8, on_try=tries.append)
    assert found.verdict == GaveUp(NoAnswer("could not connect", may_have_arrived=False))
    assert found.tries == len(tries) > 1
    assert not found.may_have_arrived


def test_no_further_try_is_made_once_told_so():
    with CallbackServer() as server:
        server.answer_terminals_with([500, 500])
        found = delivered_to(server.base_url + TERMINALS_PATH, go_on=lambda: False)
        assert found == Delivery(GaveUp(Answer(500)), tries=1, may_have_arrived=True)


def test_without_any_time_nothing_is_sent():
    with CallbackServer() as server:
        assert delivered(server, budget_s=0.0) == Delivery(GaveUp(None), tries=0, may_have_arrived=False)
        assert server.terminals == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "/v1/terminals",
        "ftp://host/x",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://[::1/x",
        "http://host:99999/x",
        "http://user:pw@host/x",
        "http://host/x#y",
        "http://host/x y",
        "http://host/\n",
        "http://\u2024\u2024/x",
    ],
)
def test_an_address_that_nothing_can_be_sent_to_is_said_so_at_once(url: str):
    with pytest.raises(AddressInvalid) as caught:
        delivered_to(url)
    assert "pw" not in str(caught.value)


def test_usual_addresses_are_fine():
    check_address("https://host.example:8443/v1/terminals?x=1")
    check_address("http://[::1]:80/")


# --- the clockwork ----------------------------------------------------------------------------------------


@dataclass
class FakeTime:
    """A clock that moves when somebody sleeps, and by `try_s` with every request."""

    now_s: float = 0.0
    try_s: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def around(self) -> Surroundings:
        return Surroundings(
            monotonic=lambda: self.now_s,
            unix_time=lambda: 1_800_000_000 + self.now_s,
            sleep=self.sleep,
            chance=lambda: 0.999,
        )


def played(time: FakeTime, answer: Callable[[httpx.Request], httpx.Response], budget_s: float) -> Delivery:
    def handle(request: httpx.Request) -> httpx.Response:
        time.now_s += time.try_s
        return answer(request)

    return asyncio.run(
        deliver(
            "https://server.example/v1/terminals",
            ID,
            BODY,
            SECRETS,
            budget_s=budget_s,
            transport=httpx.MockTransport(handle),
            around=time.around(),
        )
    )


def conflict(content: bytes) -> httpx.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 4096):
            yield content[start : start + 4096]

    return httpx.Response(409, content=pieces())


def test_ten_minutes_of_errors_take_ten_minutes_and_about_twenty_five_tries():
    time = FakeTime(try_s=0.1)
    found = played(time, lambda _request: httpx.Response(500), budget_s=600)
    assert found.verdict == GaveUp(Answer(500))
    assert 599 <= time.now_s <= 600
    assert 20 <= found.tries <= 30
    assert max(time.slept) < 30


def test_every_try_has_its_own_time_and_a_signature_that_holds():
    time = FakeTime(try_s=10.0)
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200 if len(seen) == 3 else 500)

    assert played(time, answer, budget_s=600).verdict == Delivered()
    times = [verify(SECRETS, request.headers, BODY, 1_800_000_020).timestamp_s for request in seen]
    assert times == sorted(set(times))
    assert {request.headers["webhook-id"] for request in seen} == {ID}


def test_retry_after_is_waited_for():
    time = FakeTime()
    answers = iter([httpx.Response(429, headers={"retry-after": "42"}), httpx.Response(204)])
    assert played(time, lambda _request: next(answers), budget_s=600).verdict == Delivered()
    assert time.slept == [42.0]


def test_the_problem_of_a_conflict_is_read_up_to_a_bound():
    filler = b" " * MAX_ANSWER_BYTES
    answers = iter(
        [
            conflict(b'{"type": "urn:x:in-flight"}'),
            conflict(filler + b'{"type": "in-flight"}'),
        ]
    )
    assert played(FakeTime(), lambda _request: next(answers), budget_s=600).verdict == Rejected(409, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"in-flight", b"[]", b"null", b'{"type": 1}', b"\xff\xfe", b"[" * 60_000, b'{"type": "%s"}' % (b"x" * 600)],
)
def test_a_conflict_without_a_problem_document_is_final(content: bytes):
    found = played(FakeTime(), lambda _request: conflict(content), budget_s=600)
    assert found.verdict == Rejected(409, None)


def test_delivery_can_be_cancelled_while_it_waits():
    async def cancelled() -> bool:
        waiting = asyncio.Event()

        async def sleep(_seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(
            deliver(
                "https://server.example/",
                ID,
                BODY,
                SECRETS,
                budget_s=600,
                transport=httpx.MockTransport(lambda _request: httpx.Response(500)),
                around=Surroundings(sleep=sleep),
            )
        )
        await asyncio.wait_for(waiting.wait(), 5)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert asyncio.run(cancelled())


def test_nothing_that_is_told_about_a_try_is_secret():
    tries: list[Try] = []
    with CallbackServer() as server:
        server.answer_terminals_with([500])
        delivered_to(server.base_url + TERMINALS_PATH, on_try=tries.append)
        signatures = [request.headers["webhook-signature"] for request in server.terminals]
    told = repr(tries)
    assert len(tries) == 2
    assert not any(signature[3:] in told for signature in signatures)
    assert server.secret[6:] not in told
