"""What commands do: to the agent's queues, to the latch, and what is said of messages that reach nobody."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger

from checkpoint.jsontypes import Message
from runner.agent.types import Listener, MessageEnd, TurnEnd
from runner.control import MOST_WAITING, Control
from runner.signals import StopLatch
from settlement.outcome import Undelivered

pytestmark = pytest.mark.anyio


class Agent:
    def __init__(self) -> None:
        self.steered: list[Message] = []
        self.followed: list[Message] = []
        self.listeners: list[Listener] = []

    def steer(self, message: Message) -> None:
        self.steered.append(message)

    def follow_up(self, message: Message) -> None:
        self.followed.append(message)

    def subscribe(self, listener: Listener) -> Callable[[], object]:
        self.listeners.append(listener)
        return lambda: None

    def tell(self, event: Any) -> None:
        for listener in self.listeners:
            listener(event, None)


def control(stop: StopLatch | None = None) -> Control:
    logged = structlog.wrap_logger(
        CapturingLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    return Control("p1", stop or StopLatch(), logged)


def say(ours: Control, kind: str, words: str | None = None) -> Any:
    line = {"type": kind} if words is None else {"type": kind, "text": words}
    answer = ours.obey(json.dumps(line).encode())
    return True if answer["ok"] else answer["error"]["reason"]


def words(messages: list[Message]) -> list[str]:
    return [message["content"][0]["text"] for message in messages]


async def test_messages_that_come_before_the_agent_wait_for_it() -> None:
    ours, agent = control(), Agent()
    assert say(ours, "steer", "one") is True
    assert say(ours, "follow_up", "two") is True
    ours.attach(agent)
    assert (words(agent.steered), words(agent.followed)) == (["one"], ["two"])


async def test_a_message_of_another_thread_is_with_the_agent_before_its_turn_is_over() -> None:
    ours, agent = control(), Agent()
    ours.attach(agent)
    thread = threading.Thread(target=say, args=(ours, "steer", "now"))
    thread.start()
    thread.join(10)
    agent.tell(TurnEnd({}, []))  # although the loop had no time since
    assert words(agent.steered) == ["now"]


async def test_what_the_log_did_not_take_is_undelivered_in_its_order() -> None:
    ours, agent = control(), Agent()
    ours.attach(agent)
    for text in ("one", "two"):
        say(ours, "steer", text)
    say(ours, "follow_up", "three")
    agent.tell(TurnEnd({}, []))
    taken = agent.steered.pop(0)
    agent.tell(MessageEnd(dict(taken)))  # an equal message is another message
    agent.tell(MessageEnd(taken))

    ended = ours.end()

    assert ended.logged == (Undelivered("steering", "one"),)
    assert ended.undelivered == (Undelivered("steering", "two"), Undelivered("follow_up", "three"))


async def test_a_run_that_never_began_gives_back_what_it_was_sent() -> None:
    ours = control()
    say(ours, "steer", "one")
    assert ours.end().undelivered == (Undelivered("steering", "one"),)


async def test_once_the_run_is_over_everything_is_refused() -> None:
    stop = StopLatch()
    ours, agent = control(stop), Agent()
    ours.attach(agent)
    ours.end()
    assert [say(ours, kind, "x") for kind in ("steer", "follow_up")] == ["ending", "ending"]
    assert [say(ours, kind) for kind in ("pause", "cancel")] == ["ending", "ending"]
    assert stop.reason is None
    assert agent.steered == []


async def test_a_pause_takes_no_more_messages_and_may_become_a_cancel_but_not_the_other_way_round() -> None:
    stop = StopLatch()
    ours = control(stop)
    assert say(ours, "pause") is True
    assert say(ours, "pause") is True
    assert stop.reason == "paused"
    assert say(ours, "steer", "x") == "stopping"
    assert say(ours, "cancel") is True
    assert say(ours, "cancel") is True
    assert stop.reason == "cancelled"
    assert say(ours, "pause") == "stopping"


async def test_messages_that_nobody_takes_are_bounded() -> None:
    ours = control()
    for _ in range(MOST_WAITING):
        assert say(ours, "steer", "x") is True
    assert say(ours, "follow_up", "x") == "queue_full"
