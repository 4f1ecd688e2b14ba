"""Turns the validator's errors into a list of places and complaints, in the order in which Pi lists them.

Within a schema: its type, then the object rules (required before unknown members before the members
themselves), then those of arrays, strings and numbers, then references and alternatives. A failed
alternative is preceded by what each of its branches complains about. The complaints are worded here, because
the engine's own quote the offending value, which can be a whole file.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import is_json_list, is_json_object

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

# fmt: off
_KEYWORDS = (
    "type", "required", "additionalProperties", "dependencies", "dependentRequired", "dependentSchemas",
    "patternProperties", "properties", "propertyNames", "minProperties", "maxProperties",
    "additionalItems", "contains", "items", "maxContains", "maxItems", "minContains", "minItems",
    "prefixItems", "uniqueItems", "maxLength", "minLength", "format", "pattern", "exclusiveMaximum",
    "exclusiveMinimum", "maximum", "minimum", "multipleOf", "$ref", "$recursiveRef", "$dynamicRef",
    "const", "enum", "if", "then", "else", "not", "allOf", "anyOf", "oneOf", "unevaluatedItems",
    "unevaluatedProperties",
)
# fmt: on
_RANK = {keyword: rank for rank, keyword in enumerate(_KEYWORDS)}

Violation = tuple[str, str]
"""(path with dots, or `root`; complaint)"""


def violations(schema: JsonObject, errors: "Iterable[ValidationError]") -> list[Violation]:
    """All complaints about one value, in order, at least one if there is an error."""
    ordered = sorted(errors, key=lambda error: _position(schema, error))
    return list(_merged(schema, ordered))


def _merged(schema: JsonObject, errors: "list[ValidationError]") -> Iterator[Violation]:
    """The errors one by one, with the missing members of an object in one line."""
    missing_told: set[tuple[Any, ...]] = set()
    for error in errors:
        if error.kind.name != "required":
            yield from _told(schema, error)
            continue
        owner = (*error.instance_path, "in", *error.evaluation_path)
        if owner not in missing_told:
            missing_told.add(owner)
            yield _missing(errors, owner)


def _missing(errors: "list[ValidationError]", owner: tuple[Any, ...]) -> Violation:
    same = [
        error
        for error in errors
        if error.kind.name == "required" and (*error.instance_path, "in", *error.evaluation_path) == owner
    ]
    names = [str(error.kind.as_dict()["property"]) for error in same]
    path = _path([*same[0].instance_path, names[0]])
    return path, "is required" if len(names) == 1 else f"is required, like {', '.join(names[1:])}"


def _told(schema: JsonObject, error: "ValidationError") -> Iterator[Violation]:
    for branch in error.kind.as_dict().get("context", ()):
        yield from violations(schema, branch)
    yield _path(error.instance_path), _complaint(error)


def _path(steps: Iterable[Any]) -> str:
    return ".".join(str(step).replace("/", ".") for step in steps) or "root"


def _complaint(error: "ValidationError") -> str:
    facts: JsonObject = error.kind.as_dict()
    match error.kind.name:
        case "type":
            return f"must be {' or '.join(facts['types'])}"
        case "additionalProperties" | "unevaluatedProperties":
            return f"has unknown members: {', '.join(map(str, facts['unexpected']))}"
        case "enum" | "const":
            return "is none of the allowed values"
        case "anyOf" | "oneOfNotValid":
            return "fits none of the alternatives"
        case "oneOfMultipleValid":
            return "fits more than one of the alternatives"
        case "falseSchema":
            return "is not allowed"
        case keyword:
            limit = ", ".join(str(value) for value in facts.values() if isinstance(value, str | int | float))
            return f"breaks the rule {keyword} {limit}".rstrip()


def _position(schema: JsonObject, error: "ValidationError") -> list[int]:
    """Where the rule stands: for each step of its path, the rank of the keyword or the place in its list."""
    position: list[int] = []
    node: Any = schema
    for step in error.evaluation_path:
        if isinstance(step, int):
            position.append(step)
            node = node[step] if is_json_list(node) and step < len(node) else None
        elif is_json_object(node) and step in node:
            position.append(_RANK.get(step, len(_RANK) + list(node).index(step)))
            node = node[step]
        else:
            position.append(_RANK.get(step, len(_RANK)))
            node = None
    return [*position, *(step for step in error.instance_path if isinstance(step, int))]
