"""The heartbeat's thread, against a real server."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import CapturingLogger

from checkpoint.head import Claimant, WriteClaim, decide_claim
from runner.heartbeat import Heartbeat, next_beat
from runner.logs import is_worth_a_line
from runner.signals import StopLatch
from runner.standing import Standing, StandingUsage
from settlement.signing import CallbackSecrets
from tests.fakes.callback_server import HEARTBEATS_PATH, Answer, CallbackServer

PERIOD_S = 0.05
_ME = Claimant("p1", "s1", 2, "claim-1", "2026-01-01T00:00:00.000Z", 3600, 25, None, None)


@pytest.fixture
def server() -> Iterator[CallbackServer]:
    with CallbackServer() as server:
        yield server


class Beating:
    def __init__(self, url: str, secret: str, period_s: float = PERIOD_S) -> None:
        self.standing = Standing()
        self.stop = StopLatch()
        self.logged = CapturingLogger()
        log = structlog.wrap_logger(self.logged, processors=[], wrapper_class=structlog.make_filtering_bound_logger(0))
        self.heartbeat = Heartbeat(
            url,
            CallbackSecrets.parse(secret),
            period_s=period_s,
            standing=self.standing,
            stop=self.stop,
            log=log,
            traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        )

    @property
    def events(self) -> list[str]:
        return [str(call.kwargs["event"]) for call in self.logged.calls]

    @contextmanager
    def opened(self) -> Generator["Beating"]:
        decision = decide_claim(None, _ME)
        assert isinstance(decision, WriteClaim)
        self.heartbeat.open(decision.head)
        try:
            yield self
        finally:
            self.heartbeat.close()
            assert self.heartbeat.join(10), "the thread ends once it is told to"


def beating(server: CallbackServer, path: str = HEARTBEATS_PATH) -> AbstractContextManager[Beating]:
    return Beating(server.base_url + path, server.secret).opened()


def wait_until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends, "it does not come about"
        threading.Event().wait(0.005)


def test_beats_come_one_after_the_other_each_signed_under_an_id_of_its_own(server: CallbackServer) -> None:
    with beating(server) as ours:
        server.wait_for_heartbeats(1)
        ours.standing.phase, ours.standing.turn = "agent", 3
        ours.standing.usage = StandingUsage(total_tokens=70)
        server.wait_for_heartbeats(4)

    assert {beat.status for beat in server.heartbeats[:3]} == {200}, "signed, and of the right form"
    first, last = server.heartbeats[0].json(), server.heartbeats[3].json()
    assert (first["phase"], first["turn"]) == ("claim", 0)
    assert (last["pipeline_id"], last["attempt"], last["session_id"]) == ("p1", 2, "s1")
    assert (last["phase"], last["turn"], last["usage"]["total_tokens"]) == ("agent", 3, 70)
    ids = [beat.headers["webhook-id"] for beat in server.heartbeats]
    assert len(set(ids)) == len(ids)
    assert server.heartbeats[0].headers["traceparent"].startswith("00-1111")
    assert ours.events == []


def test_nothing_is_sent_before_it_is_opened_nor_after_it_is_closed(server: CallbackServer) -> None:
    ours = Beating(server.base_url + HEARTBEATS_PATH, server.secret)
    ours.heartbeat.close()
    assert server.heartbeats == []
    with ours.opened():
        pass
    assert server.heartbeats == []


@pytest.mark.parametrize(("action", "reason"), [("cancel", "cancelled"), ("pause", "paused")])
def test_the_answer_can_ask_for_a_stop(action: str, reason: str, server: CallbackServer) -> None:
    server.answer_heartbeats_with([None, Answer(200, body=b'{"action":"%s","why":"it is late"}' % action.encode())])
    with beating(server) as ours:
        wait_until(lambda: ours.stop.reason is not None)
    assert ours.stop.reason == reason
    assert ours.events == ["heartbeat_asks"]


def test_once_the_run_is_over_nothing_is_asked_for_any_more(server: CallbackServer) -> None:
    server.answer_heartbeats_with([Answer(200, body=b'{"action":"cancel"}')] * 3)
    ours = Beating(server.base_url + HEARTBEATS_PATH, server.secret)
    ours.standing.phase = "upload"
    with ours.opened():
        server.wait_for_heartbeats(5)
    assert ours.stop.reason is None


WRONG = {
    "a redirect": Answer(302, location="/elsewhere", body=b'{"action":"cancel"}'),
    "fenced": Answer(409, problem="superseded"),
    "gone": Answer(410),
    "a server error that asks": Answer(500, body=b'{"action":"cancel"}'),
    "garbage": Answer(200, body=b"\x00cancel"),
    "a huge body": Answer(200, body=b'{"action":"cancel","more":"' + b"x" * 100_000 + b'"}'),
    "no answer": Answer(cut=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_decides_nothing_and_the_beats_go_on(name: str, server: CallbackServer) -> None:
    server.answer_heartbeats_with([WRONG[name], WRONG[name]])
    with beating(server) as ours:
        server.wait_for_heartbeats(4)
    assert ours.stop.reason is None
    assert server.other_requests == [], "no redirect is followed"
    failed = [event for event in ours.events if event == "heartbeat_failed"]
    assert len(failed) == (0 if WRONG[name].status == 200 and not WRONG[name].cut else 1), (
        "the second is not said again"
    )


def test_a_server_that_stalls_costs_beats_but_neither_the_rhythm_nor_the_end(server: CallbackServer) -> None:
    server.answer_heartbeats_with([Answer(hang=True), Answer(slow_body=True)])
    with beating(server) as ours:
        server.wait_for_heartbeats(3)
        server.answer_heartbeats_with([Answer(hang=True)] * 3)
        wait_until(lambda: ours.events == ["heartbeat_failed", "heartbeat_taken_again"])
        count = len(server.heartbeats)
        server.wait_for_heartbeats(count + 1)
        closing = time.monotonic()
    assert time.monotonic() - closing < 1.0, "a beat on its way is cut off"


def test_a_server_that_is_down_is_said_once(server: CallbackServer) -> None:
    ours = Beating("http://127.0.0.1:1/v1/heartbeats", server.secret, period_s=0.01)
    with ours.opened():
        wait_until(lambda: len(ours.events) >= 2)
    assert [call.kwargs["in_a_row"] for call in ours.logged.calls][:2] == [1, 10]


@given(due=st.floats(0, 1e6), late=st.floats(0, 1e4), period=st.floats(0.01, 1e4))
def test_the_next_beat_keeps_the_rhythm_and_is_never_overdue_by_a_period(
    due: float, late: float, period: float
) -> None:
    following = next_beat(due, due + late, period)
    assert following > due
    assert following == pytest.approx(due + round((following - due) / period) * period)
    assert following >= due + late - 1e-6 * (due + late + 1)


def test_of_failures_in_a_row_every_power_of_ten_is_said() -> None:
    said = [count for count in range(1, 2001) if is_worth_a_line(count)]
    assert said == [1, 10, 100, 1000]
    assert all(later == 10 * earlier for earlier, later in pairwise(said))
