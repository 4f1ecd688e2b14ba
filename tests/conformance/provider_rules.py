"""Where our adapters differ from the recordings on purpose: rules, each with its reason, that a case must
fit to count.

A case that differs passes under a rule only if nothing else about it differs.
"""

import json
from collections.abc import Callable
from typing import Any

from runner.models.shapes import is_list, is_object
from tests.conformance.provider_cases import Case, compare

_ID_KEYS = frozenset(("id", "tool_use_id", "call_id", "tool_call_id"))
_CALLS = frozenset(("tool_use", "function_call", "function", "toolCall"))
_RESULTS = ("tool_use_id", "tool_call_id")


def _without_ids(value: Any) -> Any:
    if is_object(value):
        return {
            key: "#" if key in _ID_KEYS and isinstance(item, str) else _without_ids(item) for key, item in value.items()
        }
    return [_without_ids(item) for item in value] if is_list(value) else value


def _objects_in(value: Any) -> list[Case]:
    if is_object(value):
        return [value, *(found for item in value.values() for found in _objects_in(item))]
    return [found for item in value for found in _objects_in(item)] if is_list(value) else []


def _call_ids(value: Any) -> list[str]:
    calls = [
        item for item in _objects_in(value) if (item.get("type") in _CALLS and "name" in item) or "function" in item
    ]
    return [
        str(item["call_id"] if "call_id" in item else item["id"]) for item in calls if "call_id" in item or "id" in item
    ]


def _result_ids(value: Any) -> list[str]:
    items = _objects_in(value)
    ids = [str(item[key]) for item in items for key in _RESULTS if key in item]
    return ids + [str(item["call_id"]) for item in items if item.get("type") == "function_call_output"]


def _unsound(ids: list[str]) -> bool:
    return len(set(ids)) < len(ids) or "" in ids


def made_up_ids(case: Case, got: Case) -> bool:
    """The recording has empty or repeated call ids; ours are unique, and results name the calls they belong
    to."""
    want = case.get("correct") or case["expected"]
    parts = [(body["body"], sent["body"]) for body, sent in zip(want["requests"], got["requests"], strict=False)]
    parts.append((want["message"]["content"], got["message"]["content"]))
    if not any(_unsound(_call_ids(recorded)) for recorded, _ in parts):
        return False
    sound = all(not _unsound(_call_ids(ours)) and set(_result_ids(ours)) <= set(_call_ids(ours)) for _, ours in parts)
    blank: Case = json.loads(json.dumps(case))
    for key in ("expected", "correct"):
        if key in blank:
            blank[key] = {**_without_ids(blank[key]), "message": _blank_message(blank[key]["message"])}
    return sound and not compare(blank, {**_without_ids(got), "message": _blank_message(got["message"])})


def _blank_message(message: Case) -> Case:
    return {**message, "content": _without_ids(message["content"])}


def passing_shortage(case: Case, got: Case) -> bool:
    """DeepSeek documents this finish reason as a shortage that passes; the recording calls it fatal."""
    if got["message"].get("rawStopReason") != "insufficient_system_resource":
        return False
    recorded = (case.get("correct") or case["expected"])["classification"]
    return not compare(case, {**got, "classification": recorded})


def explicit_strict(case: Case, got: Case) -> bool:
    """OpenAI's own Responses service takes a missing `strict` for true; the recording leaves it out."""
    if case["api"] != "openai-responses" or "api.openai.com" not in case["model"]["baseUrl"]:
        return False
    plain: Case = json.loads(json.dumps(got))
    for request in plain["requests"]:
        for tool in request["body"].get("tools", []):
            if tool.get("strict") is False:
                del tool["strict"]
    return not compare(case, plain)


RULES: dict[str, tuple[Callable[[Case, Case], bool], str]] = {
    "made-up-ids": (
        made_up_ids,
        "call ids are never empty and never repeated: every provider refuses that; results follow them",
    ),
    "explicit-strict": (explicit_strict, "strict:false is said aloud, because its absence means true there"),
    "passing-shortage": (
        passing_shortage,
        "insufficient_system_resource passes, so the turn may be repeated",
    ),
}


def rule_for(case: Case, got: Case) -> str | None:
    """The rule that allows all of the case's differences; None if they are failures."""
    if "throws" in (case.get("correct") or case["expected"]):
        return None
    return next((name for name, (fits, _) in RULES.items() if fits(case, got)), None)
