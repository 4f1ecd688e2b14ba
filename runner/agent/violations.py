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
_ITEM_RULES = ("items", "additionalItems")
_NAMED_RULES = ("properties", "patternProperties", "dependentSchemas")
_RANK = {keyword: rank for rank, keyword in enumerate(_KEYWORDS)}

Violation = tuple[str, str]
"""(path with dots, or `root`; complaint)"""


def violations(schema: JsonObject, errors: "Iterable[ValidationError]") -> list[Violation]:
    """All complaints about one value, in order."""
    ordered = sorted(filter(_is_true, errors), key=lambda error: _position(schema, error))
    return list(_merged(schema, ordered))


def _merged(schema: JsonObject, errors: "list[ValidationError]") -> Iterator[Violation]:
    """The errors one by one, with the missing members of an object in one line."""
    told: set[tuple[Any, ...]] = set()
    for error in errors:
        if error.kind.name != "required":
            yield from _told(schema, error)
        elif (owner := _owner(error)) not in told:
            told.add(owner)
            names = [_missing(same) for same in errors if same.kind.name == "required" and _owner(same) == owner]
            others = f", like {', '.join(names[1:])}" if names[1:] else ""
            yield _path([*error.instance_path, names[0]]), f"is required{others}"


def _owner(error: "ValidationError") -> tuple[Any, ...]:
    """Which object lacks something, and by which rule."""
    return (*error.instance_path, None, *error.evaluation_path)


def _missing(error: "ValidationError") -> str:
    return str(error.kind.as_dict()["property"])


def _is_true(error: "ValidationError") -> bool:
    """The engine also calls a member missing that is there but not among the `properties` of a closed
    object.
    """
    instance: Any = error.instance
    return error.kind.name != "required" or _missing(error) not in instance


def _told(schema: JsonObject, error: "ValidationError") -> Iterator[Violation]:
    branches: list[list[ValidationError]] = error.kind.as_dict().get("context", [])
    fits_some = not all(branches)
    for branch in [] if fits_some else branches:
        yield from violations(schema, branch)
    yield _path(error.instance_path), _complaint(error, fits_some=fits_some)


def _path(steps: Iterable[Any]) -> str:
    return ".".join(str(step).replace("/", ".") for step in steps) or "root"


def _complaint(error: "ValidationError", *, fits_some: bool) -> str:
    facts: JsonObject = error.kind.as_dict()
    match error.kind.name:
        case "type":
            return f"must be {' or '.join(facts['types'])}"
        case "additionalProperties" | "unevaluatedProperties":
            return f"has unknown members: {', '.join(map(str, facts['unexpected']))}"
        case "enum" | "const":
            return "is none of the allowed values"
        case "anyOf" | "oneOf":
            return "fits more than one of the alternatives" if fits_some else "fits none of the alternatives"
        case "falseSchema":
            return "is not allowed"
        case keyword:
            limit = ", ".join(str(value) for value in facts.values() if isinstance(value, str | int | float))
            return f"breaks the rule {keyword} {limit}".rstrip()


def _position(schema: JsonObject, error: "ValidationError") -> list[int]:
    """Where the rule stands: for each step of its path, the rank of the keyword or the place in its list.

    A rule for items counts once per item, so the item's index follows it.
    """
    position: list[int] = []
    indexes = iter(step for step in error.instance_path if isinstance(step, int))
    node: Any = schema
    is_name = False
    for step in error.evaluation_path:
        members = list(node) if is_json_object(node) else []
        if isinstance(step, int):
            position.append(step)
            node = node[step] if is_json_list(node) and step < len(node) else None
            continue
        position.append(members.index(step) if is_name and step in members else _RANK.get(step, len(_RANK)))
        if step in _ITEM_RULES and not is_name:
            position.append(next(indexes, 0))
        is_name = step in _NAMED_RULES and not is_name
        node = node[step] if is_json_object(node) and step in node else None
    return position
