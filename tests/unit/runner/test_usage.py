from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from runner.usage import UsageTotals

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["total", "input"]), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost", "other"])


def test_usage_is_added_up_message_by_message() -> None:
    totals = UsageTotals()
    usage = {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 6, "totalTokens": 18, "cost": {"total": 0.25}}
    totals.add({"role": "assistant", "usage": usage})
    totals.add({"role": "assistant", "usage": usage})
    assert totals == UsageTotals(6, 8, 10, 12, 36, 0.5)


@given(st.dictionaries(NAMES, ANYTHING) | ANYTHING)
def test_whatever_stands_in_a_message_counts_as_nothing_or_as_a_finite_amount(usage: object) -> None:
    totals = UsageTotals()
    totals.add({"role": "assistant", "usage": usage})
    for name, amount in asdict(totals).items():
        assert 0 <= amount < 1e15
        assert isinstance(amount, float if name == "cost_usd" else int)
