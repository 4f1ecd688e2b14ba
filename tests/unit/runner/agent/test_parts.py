"""Queues, conversion and the abort signal on their own."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.jsontypes import Message
from runner.agent.abort import AbortController
from runner.agent.conversion import IncrementalConversion, standard_messages
from runner.agent.queues import MessageQueue
from tests.fakes.agent_parts import texts, user


def test_a_queue_gives_one_message_at_a_time_or_all_and_the_mode_may_change() -> None:
    queue = MessageQueue("one-at-a-time")
    for text in ("a", "b", "c"):
        queue.put(user(text))
    assert texts(queue.drain()) == ["a"]
    queue.mode = "all"
    assert texts(list(queue.messages)) == ["b", "c"]
    assert texts(queue.drain()) == ["b", "c"]
    assert queue.drain() == []
    assert not queue


def note(text: str) -> Message:
    return {"role": "note", "content": text}


def test_custom_roles_are_not_for_the_model() -> None:
    assert standard_messages([user("a"), note("b")]) == [user("a")]


class Counting:
    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, messages: list[Message]) -> list[Message]:
        self.seen += len(messages)
        return standard_messages(messages)


def test_a_growing_list_is_converted_once() -> None:
    counting = Counting()
    convert = IncrementalConversion(counting)
    messages: list[Message] = []
    for n in range(100):
        messages.append(user(str(n)) if n % 3 else note(str(n)))
        assert convert(messages) == standard_messages(messages)
    assert counting.seen == 100


@given(st.lists(st.sampled_from(["add", "note", "pop", "replace last", "new list"]), max_size=30))
def test_any_history_of_a_list_is_converted_as_if_anew(steps: list[str]) -> None:
    convert = IncrementalConversion(standard_messages)
    messages: list[Message] = [user("first")]
    for number, step in enumerate(steps):
        match step:
            case "add":
                messages.append(user(str(number)))
            case "note":
                messages.append(note(str(number)))
            case "pop":
                messages[:] = messages[:-1]
            case "replace last":
                messages[-1:] = [user(f"{number}!")]
            case _:
                messages = list(messages)
        assert convert(messages) == standard_messages(messages)


@pytest.mark.anyio
async def test_an_abort_wakes_who_waits_and_calls_back_once() -> None:
    controller = AbortController()
    called: list[str] = []
    controller.signal.on_abort(lambda: called.append("kept"))
    take_back = controller.signal.on_abort(lambda: called.append("taken back"))
    take_back()
    waiting = asyncio.create_task(controller.signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    controller.abort()
    controller.abort()
    await asyncio.wait_for(waiting, 5)
    controller.signal.on_abort(lambda: called.append("late"))
    assert called == ["kept", "late"]
    assert controller.signal.aborted
