"""The two asking tools: `ask_user` and `collect_form_input`.

They validate, hand the question to the gate, and report the fact: the JSON text `{"ask_user_sent": true,
...}`. They do not know the agent and stop nothing; what the fact means for the run is the interruption
adapter's business. What they are given goes to the server untouched; what is too large or empty is refused
with a sentence that lets the model try again. An error is raised as `QuestionNotSent`, which the agent
turns into an error result.
"""

import json
from typing import Any, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.text import clean_json
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result
from runner.question_gate import Ask, NotAsked, QuestionGate

MAX_QUESTION_CHARS = 4_000
MAX_CONTEXT_CHARS = 16_000
MIN_OPTIONS, MAX_OPTIONS = 2, 10
MAX_OPTION_CHARS = 500
MAX_STREAM_ID_CHARS = 256
MAX_FORM_CHARS = 64_000
"""Of the form's compact JSON."""
MAX_FORM_DEPTH = 64

ASK_USER_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "question": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUESTION_CHARS,
            "description": "The question, complete in itself.",
        },
        "context": {
            "type": "string",
            "maxLength": MAX_CONTEXT_CHARS,
            "description": "What the user should know to answer: findings, consequences of each choice.",
        },
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_OPTION_CHARS},
            "minItems": MIN_OPTIONS,
            "maxItems": MAX_OPTIONS,
            "uniqueItems": True,
            "description": "Suggested answers, if there are some; the user may still answer freely.",
        },
        "stream_id": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_STREAM_ID_CHARS,
            "description": "The conversation to ask in, if it is not the one of this task.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}

FORM_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "component_dsl_schema": {
            "type": ["object", "array", "string"],
            "description": "The form to show, in the form language of the user interface.",
        },
    },
    "required": ["component_dsl_schema"],
    "additionalProperties": False,
}

SENT_MESSAGE = "The question was sent to the user. The run ends with this turn and goes on with the answer."
FORM_SENT_MESSAGE = "The form was sent to the user. The run ends with this turn and goes on with the answer."


class QuestionNotSent(Exception):
    """The question did not go out, or nobody knows whether it did. The text is for the model."""


def asking_tools(gate: QuestionGate) -> list[AgentTool]:
    """Both tools over one gate. They are always in the model's list, with or without a server."""

    async def ask_user(
        call_id: str, args: JsonObject, signal: AbortSignal | None, _on_update: UpdateCallback
    ) -> ToolResult:
        args = clean_json(args)
        _refuse(question_problem(args))
        options = args.get("options")
        ask = Ask(
            tool_call_id=call_id,
            tool_name="ask_user",
            question=args["question"],
            context=args.get("context"),
            options=None if options is None else tuple(options),
            stream_id=args.get("stream_id"),
        )
        return await _through(gate, ask, signal, SENT_MESSAGE)

    async def collect_form_input(
        call_id: str, args: JsonObject, signal: AbortSignal | None, _on_update: UpdateCallback
    ) -> ToolResult:
        form = clean_json(args.get("component_dsl_schema"))
        _refuse(form_problem(form))
        ask = Ask(tool_call_id=call_id, tool_name="collect_form_input", form=form)
        return await _through(gate, ask, signal, FORM_SENT_MESSAGE)

    return [
        AgentTool(
            name="ask_user",
            description=(
                "Ask the user a question when you cannot go on without their answer: a choice, a "
                "confirmation, or something that no other tool can find out. The run ends after this turn "
                "and goes on with the answer."
            ),
            parameters=ASK_USER_PARAMETERS,
            execute=ask_user,
            label="Ask the user",
            prepare_arguments=_without_nulls,
        ),
        AgentTool(
            name="collect_form_input",
            description=(
                "Show the user a form when you need several values from them at once. The run ends after "
                "this turn and goes on with what they filled in."
            ),
            parameters=FORM_PARAMETERS,
            execute=collect_form_input,
            label="Show a form",
        ),
    ]


async def _through(gate: QuestionGate, ask: Ask, signal: AbortSignal | None, message: str) -> ToolResult:
    answer = await gate.ask(ask, signal)
    if isinstance(answer, NotAsked):
        raise QuestionNotSent(answer.message)
    text = json.dumps({"ask_user_sent": True, "message": message})
    return text_result(text, details={"question_id": answer.question_id})


def _without_nulls(args: Any) -> Any:
    """Models write null for what they leave out. Anything but an object is left to the schema."""
    if not isinstance(args, dict):
        return args
    return {name: value for name, value in cast("JsonObject", args).items() if value is not None}


# --- bounds ---------------------------------------------------------------------------------------------


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise QuestionNotSent(f"The question was not sent: {problem}.")


def question_problem(args: JsonObject) -> str | None:
    """What is wrong with the arguments of `ask_user`, or None. Does not rely on the schema having been
    checked."""
    question = args.get("question")
    if not isinstance(question, str) or not question.strip():
        return "`question` must be a text that is not blank"
    if len(question) > MAX_QUESTION_CHARS:
        return f"`question` has {len(question)} characters, {MAX_QUESTION_CHARS} are allowed; shorten it"
    return (
        _text_problem("context", args.get("context"), MAX_CONTEXT_CHARS)
        or _text_problem("stream_id", args.get("stream_id"), MAX_STREAM_ID_CHARS)
        or _options_problem(args.get("options"))
    )


def _text_problem(name: str, value: Any, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return f"`{name}` must be a text"
    if len(value) > limit:
        return f"`{name}` has {len(value)} characters, {limit} are allowed; shorten it"
    return None


def _options_problem(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, list):
        return "`options` must be a list of texts"
    options = cast("list[Any]", value)
    if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        return (
            f"`options` has {len(options)} entries; give {MIN_OPTIONS} to {MAX_OPTIONS}, or leave it "
            "out to let the user answer freely"
        )
    for option in options:
        if not isinstance(option, str) or not option.strip():
            return "every option must be a text that is not blank"
        if len(option) > MAX_OPTION_CHARS:
            return f"an option has {len(option)} characters, {MAX_OPTION_CHARS} are allowed; shorten it"
    if len(set(options)) < len(options):
        return "two options are the same; give each once"
    return None


def form_problem(form: Any) -> str | None:
    """What is wrong with a form schema, or None. Its language is the server's; only its size is judged
    here."""
    if not isinstance(form, dict | list | str):
        return "`component_dsl_schema` must be the form's schema"
    blank = not form.strip() if isinstance(form, str) else not form
    if blank:
        return "`component_dsl_schema` is empty"
    if _deeper_than(form, MAX_FORM_DEPTH):
        return f"`component_dsl_schema` is nested deeper than {MAX_FORM_DEPTH} levels"
    try:
        size = len(json.dumps(form, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except ValueError:
        return "`component_dsl_schema` holds a number that JSON does not have"
    if size > MAX_FORM_CHARS:
        return f"`component_dsl_schema` has {size} characters, {MAX_FORM_CHARS} are allowed; ask for less"
    return None


def _deeper_than(value: Any, limit: int) -> bool:
    """Level by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(limit + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(cast("JsonObject", item).values())
            elif isinstance(item, list):
                below.extend(cast("list[Any]", item))
        if not below:
            return False
        level = below
    return True
