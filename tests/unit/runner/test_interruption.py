import json
from typing import Any

import pytest

from checkpoint.jsontypes import JsonObject
from runner.agent.types import AfterToolCallContext, AgentContext, text_result
from runner.interruption import MAX_CALL_ID_CHARS, AskedCall, InterruptionAdapter

SENT = json.dumps({"ask_user_sent": True, "message": "Sent."})


def finished(call_id: str, name: str, result: JsonObject, *, is_error: bool = False) -> AfterToolCallContext:
    tool_call: JsonObject = {"type": "toolCall", "id": call_id, "name": name, "arguments": {}}
    message: JsonObject = {"role": "assistant", "content": [tool_call]}
    return AfterToolCallContext(message, tool_call, {}, result, is_error, AgentContext("", [message]))


def adapter(*ask_tools: str, noted: list[AskedCall] | None = None) -> InterruptionAdapter:
    calls: list[AskedCall] = [] if noted is None else noted
    return InterruptionAdapter(calls.append, ask_tools)


def test_a_successful_ask_is_recorded_as_what_the_run_waits_for() -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", text_result(SENT)), None)
    found = interruption.interruption
    assert found is not None
    assert (found.kind, found.tool_call_id, found.tool_name, found.result_text) == (
        "user_input_required",
        "call-1",
        "ask_user",
        SENT,
    )


def test_the_form_tool_may_ask_as_well() -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "collect_form_input", text_result(SENT)), None)
    assert interruption.interruption is not None


def test_the_first_success_wins_and_every_success_is_noted() -> None:
    noted: list[AskedCall] = []
    interruption = adapter(noted=noted)
    interruption.after_tool_call(finished("call-2", "ask_user", text_result(SENT)), None)
    interruption.after_tool_call(finished("call-1", "collect_form_input", text_result(SENT)), None)
    assert interruption.interruption is not None
    assert interruption.interruption.tool_call_id == "call-2"
    assert noted == [AskedCall("call-2", "ask_user"), AskedCall("call-1", "collect_form_input")]


def test_an_error_result_is_no_question_and_a_later_success_is() -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", text_result(SENT), is_error=True), None)
    assert interruption.interruption is None
    interruption.after_tool_call(finished("call-2", "ask_user", text_result(SENT)), None)
    assert interruption.interruption is not None


@pytest.mark.parametrize("name", ["bash", "read", "Ask_User", "ask_user ", ""])
def test_another_tool_that_prints_the_same_text_is_no_question(name: str) -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", name, text_result(SENT)), None)
    assert interruption.interruption is None


def test_a_call_whose_id_no_callback_could_carry_is_no_question() -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("x" * (MAX_CALL_ID_CHARS + 1), "ask_user", text_result(SENT)), None)
    assert interruption.interruption is None


def test_a_tool_that_the_spec_lets_ask_may_ask() -> None:
    interruption = adapter("jira__ask")
    interruption.after_tool_call(finished("call-1", "jira__ask", text_result(SENT)), None)
    assert interruption.interruption is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The question was sent.",
        '{"ask_user_sent": "true"}',
        '{"ask_user_sent": 1}',
        '{"ask_user_sent": false}',
        '{"ask_user_sent": null}',
        '{"result": {"ask_user_sent": true}}',
        '[{"ask_user_sent": true}]',
        '"ask_user_sent"',
        'ok {"ask_user_sent": true}',
        '{"ask_user_sent": true',
        '{"ask_user_sent": true} {"ask_user_sent": true}',
        '{"ask_user_sent": true, "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_a_text_that_is_not_a_json_object_with_the_flag_exactly_true_is_no_question(text: str) -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", text_result(text)), None)
    assert interruption.interruption is None


@pytest.mark.parametrize(
    "content",
    [None, [], "text", [None], [{"type": "text"}], [{"type": "text", "text": 1}], [{"type": "image", "text": SENT}]],
)
def test_a_result_of_any_other_shape_is_no_question_and_does_no_harm(content: Any) -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", {"content": content}), None)
    assert interruption.interruption is None


def test_the_first_text_block_is_the_results_text() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    sent, other = {"type": "text", "text": SENT}, {"type": "text", "text": "and more"}
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", {"content": [image, other, sent]}), None)
    assert interruption.interruption is None
    interruption.after_tool_call(finished("call-1", "ask_user", {"content": [image, sent, other]}), None)
    assert interruption.interruption is not None


def test_it_neither_terminates_nor_changes_the_result() -> None:
    result = text_result(SENT)
    assert adapter().after_tool_call(finished("call-1", "ask_user", result), None) is None
    assert result == text_result(SENT)


def test_reset_forgets_the_run_before() -> None:
    interruption = adapter()
    interruption.after_tool_call(finished("call-1", "ask_user", text_result(SENT)), None)
    interruption.reset()
    assert interruption.interruption is None
