"""Thinking levels: which of them a model has, what it calls them, and how many tokens they stand for."""

from collections.abc import Mapping

from runner.models.settings import LEVELS, CallOptions, ModelSettings

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}


def supported_levels(model: ModelSettings) -> list[str]:
    """A model that thinks has off to high unless its map says None; xhigh and max only if its map names
    them."""
    if not model.reasoning:
        return ["off"]
    named = model.thinking_levels
    return [
        level
        for level in LEVELS
        if (named.get(level, "") is not None if level not in ("xhigh", "max") else named.get(level) is not None)
    ]


def clamp_level(model: ModelSettings, level: str | None) -> str | None:
    """The level to ask for: the one wanted, else the next stronger one, else the next weaker one. None is
    off."""
    if level is None or level == "off":
        return None
    have = supported_levels(model)
    wanted = LEVELS.index(level)
    order = (*LEVELS[wanted:], *reversed(LEVELS[:wanted]))
    found = next((name for name in order if name in have), "off")
    return None if found == "off" else found


def provider_word(model: ModelSettings, level: str) -> str:
    return model.thinking_levels.get(level) or level


def budget_for(level: str, *overrides: Mapping[str, int]) -> int:
    """Tokens to think with. Later overrides win; xhigh and max are budgeted as high."""
    name = "high" if level in ("xhigh", "max") else level
    budget = _BUDGETS[name]
    for override in overrides:
        budget = override.get(level, override.get(name, budget))
    return budget


def wants_thinking(options: CallOptions) -> bool:
    return options.reasoning is not None and options.reasoning != "off"
