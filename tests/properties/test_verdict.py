"""Whatever servers answer, delivery ends within its budget."""

from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.verdict import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    Answer,
    Delivered,
    GaveUp,
    NoAnswer,
    Refused,
    Rejected,
    Retry,
    parse_retry_after,
    verdict,
)

retry_after = st.one_of(st.none(), st.integers(0, 10_000).map(str), st.text(max_size=30))
problem_types = st.one_of(st.none(), st.sampled_from(["in-flight", "superseded", "x/in-flight"]))
answers = st.one_of(
    st.builds(Answer, st.integers(100, 999), problem_types, retry_after),
    st.builds(NoAnswer, st.just("x"), st.booleans()),
)


@settings(deadline=None)
@given(
    answer=answers,
    tries=st.integers(1, 10_000),
    elapsed_s=st.floats(0, 10_000),
    budget_s=st.floats(0, 1_000),
    chance=st.floats(0, 1, exclude_max=True),
    now_s=st.floats(0, 4e9),
)
def test_a_wait_never_outlasts_the_budget(
    answer: Answer | NoAnswer, tries: int, elapsed_s: float, budget_s: float, chance: float, now_s: float
):
    found = verdict(answer, tries=tries, elapsed_s=elapsed_s, budget_s=budget_s, chance=chance, now_s=now_s)
    assert isinstance(found, Delivered | Retry | Rejected | Refused | GaveUp)
    if isinstance(found, Retry):
        assert 0 <= found.delay_s < budget_s - elapsed_s
        named_s = parse_retry_after(answer.retry_after, now_s) if isinstance(answer, Answer) else None
        assert found.delay_s >= (named_s or 0)
        assert found.delay_s <= max(named_s or 0, min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(tries, 9)))


@settings(deadline=None)
@given(
    answers=st.lists(answers, min_size=1, max_size=5),
    budget_s=st.floats(0, 700),
    chance=st.floats(0, 1, exclude_max=True),
    try_s=st.floats(0.5, 15),
)
def test_any_sequence_of_answers_comes_to_an_end(
    answers: list[Answer | NoAnswer], budget_s: float, chance: float, try_s: float
):
    elapsed_s, tries = 0.0, 0
    while True:
        tries += 1
        elapsed_s += min(try_s, max(budget_s - elapsed_s, 0.0))
        found = verdict(
            answers[tries % len(answers)],
            tries=tries,
            elapsed_s=elapsed_s,
            budget_s=budget_s,
            chance=chance,
            now_s=0.0,
        )
        if not isinstance(found, Retry):
            break
        elapsed_s += found.delay_s
        assert elapsed_s <= budget_s
    assert elapsed_s <= budget_s


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_retry_after_is_read_or_ignored(header: str):
    seconds = parse_retry_after(header, 1e9)
    assert seconds is None or seconds >= 0
