"""Tools as a request declares them."""

from collections.abc import Sequence
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import AgentTool
from runner.models.shapes import an_object, is_list, is_object


class ConstrainedTool(AgentTool, frozen=True, eq=False):
    """A tool whose arguments the provider should force into a schema or a grammar, where it can.

    `{"type": "json_schema", "strict": "prefer"}` or `{"type": "grammar", "variants": {"openai_lark": text}}`.
    """

    constrained_sampling: JsonObject | None = None


def declarations(tools: Sequence[AgentTool] | None) -> list[JsonObject]:
    """`{name, description, parameters, constrainedSampling?}` of each tool, in order."""
    declared: list[JsonObject] = []
    for tool in tools or ():
        item: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        if isinstance(tool, ConstrainedTool) and tool.constrained_sampling:
            item["constrainedSampling"] = tool.constrained_sampling
        declared.append(item)
    return declared


def wants_strict(tool: JsonObject) -> bool:
    sampling = an_object(tool.get("constrainedSampling"))
    return sampling.get("type") == "json_schema" and sampling.get("strict") in (True, "prefer", "require")


def grammar_of(tool: JsonObject) -> str | None:
    """The Lark grammar of a tool with one, else None."""
    sampling = an_object(tool.get("constrainedSampling"))
    if sampling.get("type") != "grammar":
        return None
    grammar = an_object(sampling.get("variants")).get("openai_lark")
    return grammar if isinstance(grammar, str) else None


def grammar_argument(tool: JsonObject) -> str:
    """The one argument that holds the text a grammar tool is called with."""
    properties = an_object(an_object(tool.get("parameters")).get("properties"))
    return next(iter(properties), "input")


def strict_schema(schema: Any) -> Any:
    """The schema as strict mode wants it: every member required, optional ones nullable, nothing else
    allowed."""
    if is_list(schema):
        return [strict_schema(item) for item in schema]
    if not is_object(schema):
        return schema
    strict = {key: strict_schema(value) for key, value in schema.items() if key != "properties"}
    properties = schema.get("properties")
    if is_object(properties):
        required: list[str] = schema.get("required") or []
        strict["properties"] = {
            name: strict_schema(value) if name in required else _nullable(strict_schema(value))
            for name, value in properties.items()
        }
        strict["required"] = list(properties)
        strict["additionalProperties"] = False
    return strict


def _nullable(schema: Any) -> Any:
    return {"anyOf": [schema, {"type": "null"}]}
