"""Narrowing of parsed JSON whose senders may have sent anything: what has the wrong type counts as absent."""

from typing import Any, TypeGuard

from checkpoint.jsontypes import JsonObject


def is_object(value: Any) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def an_object(value: Any) -> JsonObject:
    """The object, or an empty one."""
    return value if is_object(value) else {}


def objects(value: Any) -> list[JsonObject]:
    """The objects of a list; none if it is no list."""
    return [item for item in value if is_object(item)] if is_list(value) else []


def a_string(value: Any) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""
