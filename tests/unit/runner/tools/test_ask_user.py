import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject
from runner.agent.agent import Agent
from runner.agent.types import AgentTool, ToolResult
from runner.question_gate import Asker, QuestionGate, Refused
from runner.tools.ask_user import (
    MAX_CONTEXT_CHARS,
    MAX_FORM_CHARS,
    MAX_FORM_DEPTH,
    MAX_OPTION_CHARS,
    MAX_QUESTION_CHARS,
    QuestionNotSent,
    asking_tools,
    form_problem,
    question_problem,
)
from settlement.question import to_body
from tests.fakes.answers import Answers, answer, call
from tests.fakes.questions import FakeQuestionSender

pytestmark = pytest.mark.anyio


def gate_over(sender: FakeQuestionSender | None) -> QuestionGate:
    return QuestionGate(sender=sender, asker=Asker("p1", 1, "s1"), assistant_entry_id=lambda: "e1")


def tool(name: str, gate: QuestionGate) -> AgentTool:
    return next(tool for tool in asking_tools(gate) if tool.name == name)


async def run(name: str, args: JsonObject, sender: FakeQuestionSender | None) -> ToolResult:
    return await tool(name, gate_over(sender)).execute("call-1", args, None, lambda _partial: None)


async def played(name: str, arguments: Any, sender: FakeQuestionSender) -> JsonObject:
    """The call's result message, through the real agent and its validation."""
    model = Answers(answer("", call("call-1", name) | {"arguments": arguments}), answer("Done."))
    agent = Agent(stream_fn=model.stream, tools=asking_tools(gate_over(sender)))
    await agent.prompt("go")
    return agent.state.messages[2]


async def test_a_sent_question_gives_the_json_text_that_says_so() -> None:
    result = await run("ask_user", {"question": "Which one?"}, FakeQuestionSender())
    text = json.loads(result["content"][0]["text"])
    assert text["ask_user_sent"] is True
    assert isinstance(text["message"], str)
    assert set(text) == {"ask_user_sent", "message"}
    assert result["details"]["question_id"].startswith("ask_")


async def test_a_sent_form_gives_the_same_fact() -> None:
    result = await run("collect_form_input", {"component_dsl_schema": {"type": "form"}}, FakeQuestionSender())
    assert json.loads(result["content"][0]["text"])["ask_user_sent"] is True


async def test_the_tools_do_not_end_the_run_by_themselves() -> None:
    result = await run("ask_user", {"question": "Which one?"}, FakeQuestionSender())
    assert "terminate" not in result


async def test_a_refused_question_is_an_error_with_the_reason() -> None:
    with pytest.raises(QuestionNotSent, match="No more cards"):
        await run("ask_user", {"question": "Which one?"}, FakeQuestionSender(Refused("No more cards.")))


@pytest.mark.parametrize(
    ("name", "args"),
    [("ask_user", {"question": "Which one?"}), ("collect_form_input", {"component_dsl_schema": {"a": 1}})],
)
async def test_without_a_server_asking_is_an_error_result_and_no_hang(name: str, args: JsonObject) -> None:
    with pytest.raises(QuestionNotSent):
        await run(name, args, None)


async def test_question_context_options_and_stream_reach_the_server_untouched() -> None:
    sender = FakeQuestionSender()
    args = {
        "question": "  Which\none? \u202e\u00df",
        "context": "a\tb ",
        "options": [" staging", "Produktion \U0001f680"],
        "stream_id": "web:1",
    }
    result = await played("ask_user", args, sender)
    assert result["isError"] is False
    sent = json.loads(to_body(sender.questions[0]))
    assert {key: sent[key] for key in args} == args
    assert sent["form"] is None


FORMS: list[Any] = [
    {"type": "form", "fields": [{"name": "n", "max": 1.5, "on": None, "deep": {"x": [1, "1", True, {}]}}]},
    [{"component": "input", "required": False}],
    "<Form><Input name='n'/></Form>",
]


@pytest.mark.parametrize("form", FORMS)
async def test_a_form_reaches_the_server_untouched_whatever_its_language(form: Any) -> None:
    sender = FakeQuestionSender()
    result = await played("collect_form_input", {"component_dsl_schema": form}, sender)
    assert result["isError"] is False, result
    sent = json.loads(to_body(sender.questions[0]))
    assert sent["form"] == form
    assert sent["question"] is None


async def test_null_for_an_optional_argument_is_as_good_as_leaving_it_out() -> None:
    sender = FakeQuestionSender()
    args = {"question": "Which one?", "context": None, "options": None, "stream_id": None}
    assert (await played("ask_user", args, sender))["isError"] is False
    assert sender.questions[0].options is None
    assert sender.questions[0].context is None


@pytest.mark.parametrize("arguments", [None, [], "text", {"question": None}, {"question": "?", "extra": 1}])
async def test_arguments_of_another_shape_are_an_error_and_nothing_is_sent(arguments: Any) -> None:
    sender = FakeQuestionSender()
    result = await played("ask_user", arguments, sender)
    assert result["isError"] is True
    assert sender.questions == []


async def test_lone_surrogates_are_cleaned_before_they_leave() -> None:
    sender = FakeQuestionSender()
    await run("ask_user", {"question": "Which \ud800 one?", "options": ["a\x00", "b"]}, sender)
    assert b"\\u" not in to_body(sender.questions[0])
    assert sender.questions[0].question == "Which \ufffd one?"


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"question": ""},
        {"question": " \n "},
        {"question": 5},
        {"question": "x" * (MAX_QUESTION_CHARS + 1)},
        {"question": "?", "context": "x" * (MAX_CONTEXT_CHARS + 1)},
        {"question": "?", "context": 5},
        {"question": "?", "stream_id": "x" * 257},
        {"question": "?", "options": "a, b"},
        {"question": "?", "options": []},
        {"question": "?", "options": ["only one"]},
        {"question": "?", "options": [str(number) for number in range(11)]},
        {"question": "?", "options": ["a", " "]},
        {"question": "?", "options": ["a", 2]},
        {"question": "?", "options": ["a", "a"]},
        {"question": "?", "options": ["a", "x" * (MAX_OPTION_CHARS + 1)]},
    ],
)
async def test_a_question_out_of_bounds_is_refused_with_a_sentence_and_not_sent(args: JsonObject) -> None:
    sender = FakeQuestionSender()
    with pytest.raises(QuestionNotSent, match=r"^The question was not sent: .+\.$"):
        await run("ask_user", args, sender)
    assert sender.questions == []


@pytest.mark.parametrize(
    "args",
    [
        {"question": "x" * MAX_QUESTION_CHARS},
        {"question": "?", "context": "x" * MAX_CONTEXT_CHARS},
        {"question": "?", "options": ["a", "b"]},
        {"question": "?", "options": [str(number) for number in range(10)]},
        {"question": "?", "options": ["a", "x" * MAX_OPTION_CHARS]},
    ],
)
def test_a_question_at_its_bounds_is_fine(args: JsonObject) -> None:
    assert question_problem(args) is None


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "form",
    [
        None,
        5,
        True,
        {},
        [],
        " ",
        {"x": "y" * MAX_FORM_CHARS},
        {"x": float("nan")},
        {"x": float("inf")},
        nested(MAX_FORM_DEPTH + 2),
        nested(100_000),
    ],
)
def test_a_form_out_of_bounds_is_refused(form: Any) -> None:
    assert form_problem(form) is not None


@pytest.mark.parametrize("form", [{"x": None}, [0], "x", {"x": "y" * (MAX_FORM_CHARS - 10)}, nested(MAX_FORM_DEPTH)])
def test_a_form_within_bounds_is_not_judged_further(form: Any) -> None:
    assert form_problem(form) is None


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes says nothing here, on a machine that does other things as well."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@unhurried
@given(st.dictionaries(st.sampled_from(["question", "context", "options", "stream_id", "x"]), json_values))
def test_any_arguments_are_judged_without_an_exception(args: JsonObject) -> None:
    problem = question_problem(args)
    assert problem is None or problem


@unhurried
@given(json_values)
def test_any_form_is_judged_without_an_exception(form: Any) -> None:
    problem = form_problem(form)
    assert problem is None or problem


def test_the_schemas_state_the_bounds_that_the_tools_check() -> None:
    ask_user, form = asking_tools(gate_over(None))
    assert ask_user.parameters["required"] == ["question"]
    options = ask_user.parameters["properties"]["options"]
    assert (options["minItems"], options["maxItems"]) == (2, 10)
    assert form.parameters["required"] == ["component_dsl_schema"]
    for one in (ask_user, form):
        assert one.parameters["additionalProperties"] is False
        assert one.description
        assert all(field["description"] for field in one.parameters["properties"].values())
