"""Whether a tool call's arguments fit the tool's parameter schema, and what the model is told if they do not.

The JSON Schema engine is imported at the first call with arguments to check (start-up is budgeted), and a
tool's schema is compiled once. References to other documents are not followed: a schema may come from an MCP
server.
"""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.agent.coercion import coerce, copied
from runner.agent.javascript import indented_json
from runner.agent.types import AgentTool
from runner.agent.violations import violations

if TYPE_CHECKING:
    from jsonschema_rs import Validator


MOST_COMPLAINTS = 8
"""More than a model can use at once (and Pi's limit)."""


class ValidArguments(Struct, frozen=True):
    args: Any
    """A copy, coerced."""


class InvalidArguments(Struct, frozen=True):
    text: str
    """For the model: a first line, a line `  - path: complaint` each, and the arguments as they were
    received.
    """


_compiled: WeakKeyDictionary[AgentTool, "_Schema"] = WeakKeyDictionary()


def validate_arguments(tool: AgentTool, arguments: Any) -> ValidArguments | InvalidArguments:
    """Coerce and check a call's arguments. They are not changed."""
    schema = _compiled.get(tool)
    if schema is None:
        schema = _compiled[tool] = _Schema(tool.parameters)
    args = coerce(copied(arguments), tool.parameters, schema.accepts)
    complaints = schema.complaints(args)
    if not complaints:
        return ValidArguments(args)
    lines = [f"  - {path}: {complaint}" for path, complaint in complaints[:MOST_COMPLAINTS]]
    listed = "\n".join(lines)
    return InvalidArguments(
        f'Validation failed for tool "{tool.name}":\n{listed}\n\nReceived arguments:\n{indented_json(arguments)}'
    )


class _Schema:
    """A tool's parameter schema and the validators of its alternatives."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._parts: dict[int, Validator | None] = {}
        self._whole = _compile(schema)

    def complaints(self, args: Any) -> list[tuple[str, str]]:
        if isinstance(self._whole, str):
            return [("root", f"the tool's own parameter schema is not valid: {self._whole}")]
        if self._whole.is_valid(args):
            return []
        return violations(self._schema, self._whole.iter_errors(args))

    def accepts(self, value: Any, part: Any) -> bool:
        """Whether `value` is valid under a sub-schema. One that only means something in its document accepts
        nothing.
        """
        key = id(part)  # sub-schemas live as long as the tool, and so do their ids
        if key not in self._parts:
            compiled = _compile(part)
            self._parts[key] = None if isinstance(compiled, str) else compiled
        validator = self._parts[key]
        return validator is not None and validator.is_valid(value)


def _compile(schema: Any) -> "Validator | str":
    """The compiled schema, or what is wrong with it."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse)
    except ValueError as error:
        return str(error).partition("\n")[0]


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")
