import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from checkpoint.head import Claimant, HeadFields, HeadState, Terminal, WriteClaim, decide_claim
from runner.reconcile_decision import (
    IsDead,
    IsUntold,
    NothingToDo,
    Result,
    StillRunning,
    exit_code,
    what_is_due,
)

TERMINAL = Terminal(body="{}", webhook_id="term_p1", manifest=None, digest=None)


def head(state: HeadState = "claimed", url: str | None = "https://example.test/v1/terminals") -> HeadFields:
    me = Claimant("p1", "s1", 1, "claim-1", "2026-01-01T00:00:00.000Z", 100.0, 25.0, url, None)
    decision = decide_claim(None, me)
    assert isinstance(decision, WriteClaim)
    fields = decision.head.fields
    return fields if state == "claimed" else replace(fields, state=state, terminal=TERMINAL)


@given(st.floats(-1e6, 1e6))
def test_a_claim_is_dead_once_it_is_older_than_deadline_and_grace_and_not_before(silent_s: float) -> None:
    found = what_is_due(head(), silent_s)
    if silent_s > 125.0:
        assert found == IsDead(silent_s)
    else:
        assert isinstance(found, StillRunning)
        assert found.for_s >= 0


@given(st.floats(-1e6, 1e6))
def test_a_settled_head_is_delivered_whatever_its_age_if_a_server_waits(silent_s: float) -> None:
    assert what_is_due(head("terminal"), silent_s) == IsUntold("https://example.test/v1/terminals")
    assert what_is_due(head("terminal", None), silent_s) == NothingToDo()
    assert what_is_due(head("acknowledged"), silent_s) == NothingToDo()
    assert what_is_due(head("rejected"), silent_s) == NothingToDo()


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (set[Result](), 0),
        ({"settled", "running", "delivered", "rejected", "due"}, 0),
        ({"delivered", "unacknowledged"}, 77),
        ({"unacknowledged", "damaged"}, 78),
        ({"unacknowledged", "damaged", "failed"}, 75),
        ({"failed", "defect"}, 70),
    ],
)
def test_the_worst_result_is_the_exit_code(results: set[Result], code: int) -> None:
    assert exit_code(results) == code
