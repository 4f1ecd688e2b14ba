import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.grace import SHARES, Grace, Phase

PHASES: list[Phase] = [phase for phase, _ in SHARES]
SECONDS = st.floats(min_value=0.001, max_value=1e6)


def test_the_shares_are_the_whole_grace() -> None:
    assert sum(share for _, share in SHARES) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("phase", "ends"), [("agent", 105.0), ("freeze", 107.5), ("upload", 117.5), ("commit", 120.0), ("callback", 125.0)]
)
def test_a_phase_ends_where_the_shares_up_to_it_end(phase: Phase, ends: float) -> None:
    assert Grace(100.0, 25.0).ends(phase) == pytest.approx(ends)


def test_a_phase_also_has_what_the_earlier_ones_left() -> None:
    assert Grace(100.0, 25.0).remaining("upload", 101.0) == pytest.approx(16.5)


@given(st.floats(min_value=0, max_value=1e9), SECONDS, st.floats(min_value=0, max_value=1e9))
def test_phases_end_in_order_within_the_grace_and_nothing_remains_below_zero(
    started: float, grace_s: float, now: float
) -> None:
    grace = Grace(started, grace_s)
    ends = [grace.ends(phase) for phase in PHASES]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(started + grace_s)
    for phase in PHASES:
        assert 0 <= grace.remaining(phase, now) == max(0.0, grace.ends(phase) - now)
