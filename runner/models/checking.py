"""What is wrong with a model's settings that can be known before it is asked: for `runner check`.

Refuses what would be sent and refused, what cannot be sent, and what would be ignored without a word: a setting that
has no effect is a limit, or a wish, that is not there. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any

from runner.models.calls import wire_protocol
from runner.models.completions_compat import detect
from runner.models.settings import ModelSettings
from runner.models.shapes import is_object

CHOICES: Mapping[str, tuple[str, ...]] = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "cache_control_format": ("", "anthropic"),
    "thinking_format": (
        "openai",
        "deepseek",
        "openrouter",
        "zai",
        "qwen",
        "qwen-chat-template",
        "chat-template",
        "together",
        "string-thinking",
        "ant-ling",
    ),
}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")


def settings_problems(model: ModelSettings, level: str) -> list[str]:
    """`field: sentence` for each problem. `level` is the thinking level that the model will be asked for."""
    problems = _compat_problems(model)
    problems += [f"headers: {name!r} is no header name" for name in model.headers if not _HEADER_NAME.fullmatch(name)]
    if not problems:
        problems += _idle_settings(model, level)
    return problems


def can_be_sent(value: str) -> bool:
    """Whether an HTTP header can carry the text."""
    return _HEADER_VALUE.fullmatch(value) is not None


def _compat_problems(model: ModelSettings) -> list[str]:
    flags = {"needs_api_key": True, **wire_protocol(model.api).flags}
    problems: list[str] = []
    for name, value in sorted(model.compat.items()):
        if name not in flags:
            problems.append(f"compat.{name}: unknown flag: remove it")
        elif (wanted := _wanted(name, value, flags[name])) is not None:
            problems.append(f"compat.{name}: must be {wanted}")
    return problems


def _wanted(name: str, value: Any, default: Any) -> str | None:
    """What the flag's value should be; None if it is."""
    if isinstance(default, str):
        return None if value in CHOICES[name] else f"one of {', '.join(repr(choice) for choice in CHOICES[name])}"
    if isinstance(default, bool) or default is None:
        return None if isinstance(value, bool) else "true or false"
    return None if is_object(value) else "an object"


def _idle_settings(model: ModelSettings, level: str) -> list[str]:
    problems: list[str] = []
    if level != "off" and not model.reasoning:
        problems.append('thinking_level: compat.reasoning says that the model does not think: use "off"')
    if model.thinking_budgets and not _takes_budgets(model):
        problems.append("thinking_budgets: this model takes levels only: remove it")
    if model.temperature is not None and model.api == "anthropic-messages" and level != "off":
        problems.append("temperature: cannot be set while the model thinks: remove it, or do not think")
    return problems


def _takes_budgets(model: ModelSettings) -> bool:
    if model.api == "anthropic-messages":
        return not model.compat.get("force_adaptive_thinking")
    return model.api == "openai-completions" and detect(model).thinking_token_budget
