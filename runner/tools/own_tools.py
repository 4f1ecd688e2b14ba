"""Own tools: a typed Python function becomes a tool (docs/tools.md).

Its parameters become the schema, its docstring the description, what it returns the result, what it raises the error
result. It is trusted code: it runs in this process and can do what this process can do. Refused when it is set up:
parameters without a type, positional-only ones, `*args` and `**kwargs`.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, is_json_list, is_json_object, text_result
from runner.blocking import call_blocking
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed, ToolSetupError

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes for a name."""
LONGEST_S = 30 * 86_400.0
"""A plain function cannot be stopped; it is left behind when the run is aborted, or after so long."""


class Progress:
    """A parameter of this type gets a way to tell how far the tool is: call it with a text, from any thread."""

    def __init__(self, on_update: UpdateCallback) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_update = on_update

    def __call__(self, text: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_update, text_result(text))


def function_tool(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> AgentTool:
    """The tool of a function. `name` and `description` default to the function's name and docstring.

    A parameter of type `AbortSignal` gets the run's signal, one of type `Progress` a way to report; they are not part
    of the schema. A plain function runs in a thread. Raises ToolSetupError.
    """
    tool_name = name or getattr(function, "__name__", "")
    if not TOOL_NAME.fullmatch(tool_name):
        raise ToolSetupError(f"the function tool name {tool_name!r} must be 1 to 64 letters, digits, `_` or `-`")
    text = description or inspect.getdoc(function)
    if not text:
        raise ToolSetupError(f"the function tool {tool_name!r} has no docstring: the model needs a description")
    arguments = _Arguments(function, tool_name)

    async def execute(
        _call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
    ) -> ToolResult:
        values = arguments.values(args, signal, Progress(on_update))

        async def run() -> Any:
            try:
                if inspect.iscoroutinefunction(function):
                    return await function(**values)
                return await call_blocking(lambda: function(**values), timeout_s=LONGEST_S)
            except (SystemExit, KeyboardInterrupt) as error:  # beyond this task they would end the event loop
                raise ToolFailed("failed", f"The tool {tool_name} raised {type(error).__name__}") from error

        return result_of(await unless_aborted(run(), signal, f"The tool {tool_name}"), tool_name)

    return AgentTool(tool_name, text, arguments.schema, execute, label=tool_name)


class _Arguments:
    """The parameters of a function: their schema, and the values for a call."""

    def __init__(self, function: Callable[..., Any], tool: str) -> None:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        self._fields: dict[str, str] = {}
        self._signals: list[str] = []
        self._reports: list[str] = []
        defaults: JsonObject = {}
        fields: dict[str, Any] = {}
        for parameter in _parameters(function, tool):
            if _is(parameter.annotation, AbortSignal):
                self._signals.append(parameter.name)
            elif _is(parameter.annotation, Progress):
                self._reports.append(parameter.name)
            else:
                # Under a field name of ours, since a model has attributes of its own (`copy`, `json`).
                field = f"p{len(fields)}"
                self._fields[field] = parameter.name
                default = ... if parameter.default is inspect.Parameter.empty else parameter.default
                fields[field] = (parameter.annotation, Field(default, alias=parameter.name))
                if default is not ...:
                    defaults[parameter.name] = default
        try:
            self._model = create_model(f"{tool}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
            schema: JsonObject = self._model.model_json_schema(by_alias=True)
        except (PydanticUserError, NameError, TypeError) as error:
            raise ToolSetupError(f"the parameters of the function tool {tool!r} have no schema ({error})") from error
        self.schema = {key: value for key, value in _untitled(schema).items() if key != "description"}
        self._tool = tool

    def values(self, args: JsonObject, signal: AbortSignal | None, report: Progress) -> dict[str, Any]:
        """What the function is called with. Raises ToolFailed for arguments that the types refuse."""
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(args)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
                for problem in error.errors()[:8]
            )
            raise ToolFailed("refused", f"The arguments of {self._tool} are not right: {problems}") from None
        values = {
            name: getattr(model, field) for field, name in self._fields.items() if field in model.model_fields_set
        }
        # A function that asks for the signal gets one, whoever calls it.
        values.update(dict.fromkeys(self._signals, signal or AbortSignal()))
        values.update(dict.fromkeys(self._reports, report))
        return values


def _parameters(function: Callable[..., Any], tool: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise ToolSetupError(f"the function tool {tool!r} has no readable signature ({error})") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolSetupError(f"the function tool {tool!r} has a parameter {parameter.name!r} that cannot be named")
        if parameter.annotation is parameter.empty:
            raise ToolSetupError(f"the parameter {parameter.name!r} of the function tool {tool!r} has no type")
    return parameters


def _is(annotation: Any, wanted: type) -> bool:
    """Whether a parameter is of the wanted type, or of that or None."""
    return annotation is wanted or annotation == wanted | None


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names, which tell a model nothing."""
    if is_json_list(schema):
        return [_untitled(item) for item in schema]
    if not is_json_object(schema):
        return schema
    return {
        key: {name: _untitled(item) for name, item in value.items()}
        if key in ("properties", "$defs") and is_json_object(value)
        else _untitled(value)
        for key, value in schema.items()
        if key != "title"
    }


def result_of(value: Any, tool: str) -> ToolResult:
    """What a function returned, as a result: a text; a whole result; anything else as JSON. Raises ToolFailed."""
    if isinstance(value, str):
        return text_result(value)
    if value is None:
        return text_result("(done)")
    if is_json_object(value) and is_json_list(value.get("content")):
        return value
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return text_result(json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolFailed("failed", f"The tool {tool} returned what cannot be written as JSON ({error})") from error
