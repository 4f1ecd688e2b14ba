from hypothesis import given
from hypothesis import strategies as st

from runner.subagent_budget import MAX_TURNS, BudgetLeft, CountedUse, RunUse, Share, left_of, left_of_run, share_of
from runner.usage import UsageTotals

AMOUNTS = st.none() | st.integers(0, 10_000)
BUDGETS = st.builds(BudgetLeft, AMOUNTS, AMOUNTS, st.none() | st.floats(0, 100))


@given(BUDGETS)
def test_a_share_is_at_most_half_of_what_is_left_and_at_least_one_turn(left: BudgetLeft) -> None:
    share = share_of(left)
    assert share.max_turns is not None
    assert 1 <= share.max_turns <= MAX_TURNS
    assert left.turns is None or share.max_turns <= max(1, left.turns // 2)
    assert (share.max_total_tokens is None) == (left.tokens is None)
    assert (share.max_cost_usd is None) == (left.cost_usd is None)


@given(BUDGETS, BUDGETS, st.integers(0, 100))
def test_a_subagent_can_give_away_no_more_than_it_has_and_the_run_has(
    left: BudgetLeft, run: BudgetLeft, used: int
) -> None:
    share = share_of(left)
    given_away = left_of(share, UsageTotals(turns=used, total_tokens=used, cost_usd=used), run)
    assert given_away.turns is not None
    assert share.max_turns is not None
    assert given_away.turns <= share.max_turns - used
    assert run.turns is None or given_away.turns <= run.turns
    assert given_away.tokens is None or run.tokens is None or given_away.tokens <= run.tokens


def test_a_budget_without_limits_is_never_used_up() -> None:
    assert not BudgetLeft().is_used_up
    assert BudgetLeft(tokens=0).is_used_up
    assert BudgetLeft(turns=1, cost_usd=0.0).is_used_up


def test_the_run_has_left_what_its_limits_allow_beyond_what_was_used() -> None:
    used = UsageTotals(turns=3, total_tokens=40, cost_usd=0.25)
    assert left_of_run(Share(10, 100, 1.0), used) == BudgetLeft(7, 60, 0.75)
    assert left_of_run(Share(None, None, None), used) == BudgetLeft()


def test_use_is_counted_at_every_level() -> None:
    run = UsageTotals()
    outer = CountedUse(RunUse(run))
    inner = CountedUse(outer)
    inner.answer({"role": "assistant", "usage": {"totalTokens": 7}})
    inner.turn()
    for totals in (run, outer.totals, inner.totals):
        assert (totals.requests, totals.turns, totals.total_tokens) == (1, 1, 7)
