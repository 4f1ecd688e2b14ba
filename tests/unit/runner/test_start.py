import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject, Message
from runner.spec import ImageBlock, InputSpec, Reply, TextBlock
from runner.start import Begin, CannotBegin, drop_failed_tail, pending_questions, plan_start
from tests.fakes.answers import answer, call

NOW = 1_700_000_000_000
USER: Message = {"role": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": 0}
SENT = '{"ask_user_sent": true, "message": "wait"}'
ASK_TOOLS = ("ask_user", "approve")


def result(call_id: str, tool: str = "ask_user", text: str = SENT, *, error: bool = False) -> Message:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": tool,
        "content": [{"type": "text", "text": text}],
        "isError": error,
        "timestamp": 0,
    }


CALLED = answer("", call("c1", "ask_user"))
ENDED = answer("Done.")
MESSAGE = InputSpec(message="Go on.")


def reply(call_id: str) -> InputSpec:
    return InputSpec(reply=Reply(tool_call_id=call_id, message="yes"))


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": NOW}


@pytest.mark.parametrize(
    ("messages", "pending", "given_input", "expected"),
    [
        # a message always begins
        ([], (), MESSAGE, Begin(user("Go on."))),
        ([USER, ENDED], (), MESSAGE, Begin(user("Go on."))),
        ([USER, CALLED, result("c1")], ("c1",), MESSAGE, Begin(user("Go on."))),
        # a reply needs its question
        ([USER, CALLED, result("c1")], ("c1", "c2"), reply("c2"), Begin(user("yes"), "c2")),
        ([USER, CALLED, result("c1")], ("c1",), reply("c9"), "stale_reply"),
        ([USER, ENDED], (), reply("c1"), "stale_reply"),
        ([], (), reply("c1"), "stale_reply"),
        # nothing goes on where Pi's `continue()` may, and never past a question
        ([], (), None, "nothing_to_do"),
        ([USER, ENDED], (), None, "nothing_to_do"),
        ([USER, CALLED, result("c1")], ("c1",), None, "nothing_to_do"),
        ([USER], (), None, Begin(None)),
        ([USER, CALLED, result("c1", text="no question")], (), None, Begin(None)),
    ],
)
def test_what_an_input_means_for_a_session(
    messages: list[Message], pending: tuple[str, ...], given_input: InputSpec | None, expected: Begin | str
) -> None:
    begun = plan_start(messages, pending, given_input, NOW)
    if isinstance(expected, str):
        assert isinstance(begun, CannotBegin)
        assert begun.reason == expected
        assert ": launch with" in begun.message
    else:
        assert begun == expected


def test_what_a_stale_reply_is_told_names_the_questions_that_wait() -> None:
    begun = plan_start([USER], ("c2", "c1"), reply("c9"), NOW)
    assert isinstance(begun, CannotBegin)
    assert "'c9'" in begun.message
    assert "c1, c2" in begun.message


def test_blocks_become_the_content_of_the_user_message_as_they_are() -> None:
    blocks: list[TextBlock | ImageBlock] = [
        TextBlock(type="text", text="What is this?"),
        ImageBlock(type="image", data="iVBORw0KGgo=", mimeType="image/png"),
    ]
    begun = plan_start([], (), InputSpec(message=blocks), NOW)
    assert isinstance(begun, Begin)
    assert begun.prompt is not None
    assert begun.prompt["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]


@pytest.mark.parametrize(
    ("tail", "pending"),
    [
        ([result("c1")], ["c1"]),
        ([result("c1"), result("c2", "approve"), result("c3", "bash")], ["c1", "c2"]),
        ([result("c1", error=True)], []),
        ([result("c1", text="it said ask_user_sent")], []),
        ([result("c1", "bash")], []),
        ([result("c1"), USER], []),
        ([result("c1"), ENDED], []),
    ],
)
def test_a_session_waits_for_the_successful_questions_it_ends_with(tail: list[Message], pending: list[str]) -> None:
    assert pending_questions([USER, CALLED, *tail], ASK_TOOLS) == pending


FAILED = answer("Half", stop_reason="error", error="reset")
ABORTED = answer("Half", stop_reason="aborted", error="aborted")


@given(st.lists(st.sampled_from([USER, ENDED, CALLED, FAILED, ABORTED, result("c1")])))
def test_the_failed_answers_at_the_end_are_left_out_and_nothing_else(messages: list[Message]) -> None:
    keep = drop_failed_tail(messages)
    failed: list[JsonObject] = [FAILED, ABORTED]
    assert all(message in failed for message in messages[keep:])
    assert keep == 0 or messages[keep - 1] not in failed
