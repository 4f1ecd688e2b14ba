"""Bends tool arguments towards their JSON Schema, as Pi does before it validates them.

Models send `"3"` for 3 and `"true"` for true. What can be read without doubt is converted; the rest is left
for the validation to complain about. The rules (and the limits: no look into `$ref`, nor into schemas
without a `type`) are those of Pi 0.83.0's `validateToolArguments` for plain JSON Schemas.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.javascript import number_text
from runner.agent.types import is_json_list, is_json_object

Accepts = Callable[[Any, JsonObject], bool]
"""(value, sub-schema) -> whether the value is valid under it."""

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_RADIX = re.compile(r"0(?:x[0-9a-f]+|o[0-7]+|b[01]+)", re.ASCII | re.IGNORECASE)
_LONGEST_NUMBER = 400
"""Characters. A double has at most some 340; Python refuses to read integers of more than 4300 digits."""
_EXACT = 2**53


def coerce(value: Any, schema: Any, accepts: Accepts) -> Any:
    """`value` (JSON; changed in place) as close to `schema` as the rules get it."""
    if not is_json_object(schema):
        return value
    for part in _list(schema.get("allOf")):
        value = coerce(value, part, accepts)
    for keyword in ("anyOf", "oneOf"):
        value = _coerce_to_one(value, _list(schema.get(keyword)), accepts)
    types = _types(schema)
    if not (len(types) > 1 and any(_is(value, name) for name in types)):
        value = _coerce_scalar(value, types)
    if "object" in types and is_json_object(value):
        _coerce_members(value, schema, accepts)
    if "array" in types and is_json_list(value):
        _coerce_items(value, schema.get("items"), accepts)
    return value


def copied(value: Any) -> Any:
    """A deep copy of JSON."""
    if is_json_object(value):
        return {key: copied(member) for key, member in value.items()}
    if is_json_list(value):
        return [copied(item) for item in value]
    return value


def _list(value: Any) -> list[Any]:
    return value if is_json_list(value) else []


def _types(schema: JsonObject) -> list[str]:
    named = schema.get("type")
    return [named] if isinstance(named, str) else [name for name in _list(named) if isinstance(name, str)]


def _coerce_to_one(value: Any, schemas: list[Any], accepts: Accepts) -> Any:
    """The value as the first alternative that accepts it once it is coerced."""
    for schema in schemas:
        candidate = coerce(copied(value), schema, accepts)
        if accepts(candidate, schema):
            return candidate
    return value


def _coerce_members(value: JsonObject, schema: JsonObject, accepts: Accepts) -> None:
    properties = schema.get("properties")
    named = properties if is_json_object(properties) else {}
    for key, rule in named.items():
        if key in value:
            value[key] = coerce(value[key], rule, accepts)
    others = schema.get("additionalProperties")
    if is_json_object(others):
        for key in value.keys() - named.keys():
            value[key] = coerce(value[key], others, accepts)


def _coerce_items(value: list[Any], items: Any, accepts: Accepts) -> None:
    rules = items if is_json_list(items) else [items] * len(value)
    for index, rule in enumerate(rules[: len(value)]):
        value[index] = coerce(value[index], rule, accepts)


# --- single values ------------------------------------------------------------------------------------------


def _is(value: Any, name: str) -> bool:
    match name:
        case "number":
            return _is_number(value)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or _is_whole(value)
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return False


def _coerce_scalar(value: Any, types: list[str]) -> Any:
    """The first of `types` for which the value can be read otherwise than it is."""
    for name in types:
        conversion = _CONVERSIONS.get(name)
        if conversion is not None:
            candidate = conversion(value)
            if candidate is not value:
                return candidate
    return value


def _to_number(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        number = _parsed(value)
        return value if number is None else number
    return value


def _to_integer(value: Any) -> Any:
    if isinstance(value, str):
        number = _parsed(value)
        return number if isinstance(number, int) or _is_whole(number) else value
    if _is_whole(value):
        return int(value)
    return _to_number(value)


def _to_boolean(value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value, value)
    if _is_number(value) and value in (0, 1):
        return value == 1
    return value


def _to_string(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_number(value):
        return number_text(value)
    return value


def _to_null(value: Any) -> Any:
    if value == "" or value is False or (_is_number(value) and value == 0):
        return None
    return value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
    "string": _to_string,
    "null": _to_null,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _parsed(text: str) -> int | float | None:
    """The number that a JavaScript `Number(text)` reads, if it is finite and the text is not blank."""
    text = text.strip()
    if len(text) > _LONGEST_NUMBER:
        return None
    if _RADIX.fullmatch(text):
        return int(text, 0)
    if not _DECIMAL.fullmatch(text):
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number
