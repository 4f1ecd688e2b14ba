"""Whether two recordings say the same, and a readable account of where they do not.

The complaints of a validation may be worded as the implementation likes: their first line, the places they
name and the arguments they quote are compared.
"""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import is_json_list, is_json_object

_VALIDATION = 'Validation failed for tool "'
_COMPLAINT = re.compile(r"^(  - [^:\n]+):.*$", re.MULTILINE)
_MOST_LINES = 40


def differences(expected: JsonObject, actual: JsonObject) -> Iterator[str]:
    """One readable text per field that differs."""
    for field in [*expected, *(key for key in actual if key not in expected)]:
        want, got = _comparable(expected.get(field)), _comparable(actual.get(field))
        if want != got:
            yield "\n".join([f"{field}:", *_diff(want, got)])


def _comparable(value: Any) -> Any:
    """JSON in one form: validation wording left out."""
    if is_json_object(value):
        return {key: _comparable(member) for key, member in value.items()}
    if is_json_list(value):
        return [_comparable(item) for item in value]
    if isinstance(value, str) and value.startswith(_VALIDATION):
        complaints, separator, received = value.partition("\n\nReceived arguments:")
        return _COMPLAINT.sub(r"\1: …", complaints) + separator + received
    return value


def _diff(want: Any, got: Any) -> list[str]:
    lines = list(unified_diff(_lines(want), _lines(got), "expected", "got", n=2, lineterm=""))
    left_off = len(lines) - _MOST_LINES
    return lines if left_off <= 0 else [*lines[:_MOST_LINES], f"… {left_off} more lines"]


def _lines(value: Any) -> list[str]:
    if is_json_list(value):
        return [json.dumps(item, ensure_ascii=False, sort_keys=True) for item in value]
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).splitlines()
