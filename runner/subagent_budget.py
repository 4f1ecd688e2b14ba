"""What a subagent may use of the run's budget. Pure."""

from dataclasses import dataclass
from typing import Protocol

from checkpoint.jsontypes import Message
from runner.stop import RunCounters, RunLimits
from runner.usage import UsageTotals

MAX_TURNS = 50
"""Of one subagent, however much the run has left."""
MAX_DEPTH = 2
"""A subagent may have subagents, and these may not."""
MAX_SUBAGENTS = 32
"""Of one run, at all depths together."""
MAX_AT_ONCE = 4
"""Subagents of one depth that run at the same time; further ones wait."""


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What the run has left; None where it has no limit."""

    turns: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    @property
    def is_used_up(self) -> bool:
        return any(amount is not None and amount <= 0 for amount in (self.turns, self.tokens, self.cost_usd))


def left_of_run(limits: RunLimits, counters: RunCounters) -> BudgetLeft:
    """What the run has left. The counters must include what its subagents used."""
    tokens, cost = limits.max_total_tokens, limits.max_cost_usd
    return BudgetLeft(
        None if limits.max_turns is None else limits.max_turns - counters.turns,
        None if tokens is None else tokens - counters.total_tokens,
        None if cost is None else cost - counters.cost_usd,
    )


@dataclass(frozen=True, slots=True)
class Share:
    """The limits of one subagent, with the names of the spec's `limits`."""

    max_turns: int | None
    max_total_tokens: int | None
    max_cost_usd: float | None


def share_of(left: BudgetLeft) -> Share:
    """Half of what is left, so that the one that asked can still do something with the answer; at least one turn."""
    turns = MAX_TURNS if left.turns is None else max(1, min(MAX_TURNS, left.turns // 2))
    return Share(
        max_turns=turns,
        max_total_tokens=None if left.tokens is None else max(1, left.tokens // 2),
        max_cost_usd=None if left.cost_usd is None else left.cost_usd / 2,
    )


def left_of(share: Share, used: UsageTotals, run: BudgetLeft) -> BudgetLeft:
    """What a subagent has left for subagents of its own: of its share, and never more than the run has."""

    def least(limit: float | None, spent: float, of_run: float | None) -> float | None:
        amounts = [amount for amount in (None if limit is None else limit - spent, of_run) if amount is not None]
        return min(amounts) if amounts else None

    turns = least(share.max_turns, used.turns, run.turns)
    tokens = least(share.max_total_tokens, used.total_tokens, run.tokens)
    return BudgetLeft(
        None if turns is None else int(turns),
        None if tokens is None else int(tokens),
        least(share.max_cost_usd, used.cost_usd, run.cost_usd),
    )


class Use(Protocol):
    """Where it is counted what subagents use."""

    def answer(self, message: Message) -> None:
        """One assistant message, failed or not."""
        ...

    def turn(self) -> None:
        """One finished turn."""
        ...


class CountedUse:
    """What a subagent used, its own subagents included; told on to whoever asked for it."""

    def __init__(self, parent: Use) -> None:
        self.totals = UsageTotals()
        self._parent = parent

    def answer(self, message: Message) -> None:
        self.totals.requests += 1
        self.totals.add(message)
        self._parent.answer(message)

    def turn(self) -> None:
        self.totals.turns += 1
        self._parent.turn()


@dataclass(frozen=True, slots=True)
class RunUse:
    """Where a run counts what its subagents use: into its own usage."""

    totals: UsageTotals

    def answer(self, message: Message) -> None:
        self.totals.requests += 1
        self.totals.add(message)

    def turn(self) -> None:
        self.totals.turns += 1
