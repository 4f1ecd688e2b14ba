"""What a takeover makes of transcript and progress: the decision table, and what holds for any turn."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.head import Progress, ProgressStop
from checkpoint.jsontypes import JsonObject, Message
from checkpoint.manifest import chain_of
from runner.stop import progress_stop
from runner.takeover import LastTurn, doubtful_text, last_turn, settled_before
from settlement.outcome import Outcome, Stop
from settlement.settle import AskUser, Failure, Success, settle
from tests.fakes.answers import answer, call

USER: Message = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
ASK_TOOLS = frozenset({"ask_user"})
SENT = '{"ask_user_sent": true, "message": "sent"}'


def result(call_id: str, name: str = "bash", text: str = "done", *, is_error: bool = False) -> Message:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": content, "isError": is_error}


def progress(stop: ProgressStop | None = None, **more: Any) -> Progress:
    return Progress(
        segments=(),
        entries=1,
        leaf_id="e9",
        chain=chain_of(()),
        input_consumed=True,
        usage={},
        stop=stop,
        **more,
    )


def turn_of(*messages: Message) -> LastTurn | None:
    return last_turn(messages, [f"e{number}" for number in range(len(messages))])


CALLING = answer("", call("c1", "bash"), call("c2", "ask_user", question="Which?"))
ASKED = (USER, CALLING, result("c1"), result("c2", "ask_user", SENT))


@pytest.mark.parametrize(
    ("messages", "doubtful"),
    [
        ((), None),
        ((USER,), None),
        ((USER, CALLING, result("c1"), result("c2"), USER), None),
        ((USER, answer("Done.")), []),
        ((USER, CALLING), ["c1", "c2"]),
        ((USER, CALLING, result("c2")), ["c1"]),
        ((USER, CALLING, result("c2"), result("c1")), []),
        ((USER, answer("", call("c1", "bash"), call("c1", "bash")), result("c1")), ["c1"]),
        ((USER, CALLING, result("c1"), answer("", call("c3", "bash"))), ["c3"]),
    ],
)
def test_calls_of_the_last_turn_without_a_result_are_in_doubt(
    messages: tuple[Message, ...], doubtful: list[str] | None
) -> None:
    turn = turn_of(*messages)
    found = None if turn is None else [each["id"] for each in turn.doubtful]
    assert found == doubtful


def test_a_call_of_an_answer_that_was_cut_off_was_surely_not_made() -> None:
    cut = LastTurn(answer("", call("c1", "bash"), stop_reason="length"), "e1", ())
    whole = LastTurn(CALLING, "e1", ())
    assert "was not carried out" in doubtful_text(cut, cut.doubtful[0])
    assert "not known whether" in doubtful_text(whole, whole.doubtful[0])


IDS = {"c1": "ask_1", "c2": "ask_2"}


def settled(messages: tuple[Message, ...], found: Progress) -> Outcome | None:
    return settled_before(turn_of(*messages), found, ASK_TOOLS, IDS)


def test_a_turn_whose_question_is_out_waits_whatever_the_progress_says() -> None:
    stops: tuple[ProgressStop | None, ...] = (None, "ask_user", "natural", "limit")
    for stop in stops:
        outcome = settled(ASKED, progress(stop, limit="turn_limit"))
        assert outcome is not None
        settlement = settle(outcome)
        assert isinstance(settlement, AskUser)
        assert settlement.interruption.result_text == SENT
        assert [question.question_id for question in settlement.questions] == ["ask_2"]


@pytest.mark.parametrize(
    ("messages", "found", "kind"),
    [
        ((USER, answer("Done.")), progress("natural"), "success"),
        ((USER, answer("Done.")), progress(), "success"),
        ((USER, CALLING, result("c1", text="the end"), result("c2")), progress("natural"), "success"),
        ((USER, answer("")), progress("natural"), "empty_answer"),
        ((USER, answer("cut", stop_reason="length")), progress("natural"), "output_truncated"),
        ((USER, CALLING, result("c1"), result("c2")), progress("limit", limit="cost_limit"), "cost_limit"),
        ((USER, CALLING, result("c1"), result("c2")), progress("limit", limit="a new one"), None),
        ((USER, CALLING, result("c1"), result("c2")), progress("limit"), None),
        ((USER, CALLING, result("c1"), result("c2")), progress(), None),
        ((USER, CALLING, result("c1"), result("c2", "ask_user", SENT, is_error=True)), progress(), None),
        ((USER, CALLING, result("c1", "bash", SENT), result("c2")), progress("ask_user"), None),
        ((USER,), progress(), None),
        ((), progress("limit", limit="turn_limit"), "turn_limit"),
    ],
)
def test_a_run_that_was_over_is_settled_and_any_other_goes_on(
    messages: tuple[Message, ...], found: Progress, kind: str | None
) -> None:
    outcome = settled(messages, found)
    settlement = None if outcome is None else settle(outcome)
    assert (settlement.reason if isinstance(settlement, Failure) else settlement and settlement.kind) == kind
    if isinstance(settlement, Success):
        assert settlement.text in ("Done.", "the end\ndone")


def test_the_question_that_was_sent_first_is_the_interruption() -> None:
    both = answer("", call("c1", "ask_user", question="One?"), call("c2", "ask_user", question="Two?"))
    messages = (USER, both, result("c1", "ask_user", SENT), result("c2", "ask_user", SENT))
    for first in ("c1", "c2"):
        outcome = settled(messages, progress("ask_user", interrupted_by=first))
        assert outcome is not None
        assert outcome.interruption is not None
        assert outcome.interruption.tool_call_id == first


blocks = st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=5)


@given(blocks, blocks)
def test_every_call_is_answered_once_the_doubts_are_cleared(called: list[str], answered: list[str]) -> None:
    messages = [answer("", *(call(each, "bash") for each in called)), *(result(each) for each in answered)]
    turn = turn_of(USER, *messages)
    assert turn is not None
    doubtful = [each["id"] for each in turn.doubtful]
    cleared = turn_of(USER, *messages, *(result(each) for each in doubtful))
    assert cleared is not None
    assert cleared.doubtful == ()
    for call_id in set(called):
        assert doubtful.count(call_id) == max(0, called.count(call_id) - answered.count(call_id))


contents: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)


@given(contents, st.lists(contents, max_size=3))
def test_a_transcript_of_any_shape_is_read(content: Any, results: list[Any]) -> None:
    said: JsonObject = {"role": "assistant", "content": content}
    turn = turn_of(said, *({"role": "toolResult", "content": each, "toolCallId": each} for each in results))
    assert turn is not None
    assert turn.doubtful == ()
    settled_before(turn, progress("natural"), ASK_TOOLS, {})


@pytest.mark.parametrize(
    ("stop", "another_turn", "expected"),
    [
        (None, True, (None, None)),
        (None, False, ("natural", None)),
        (Stop("interruption", another_turn=True), True, ("ask_user", None)),
        (Stop("interruption", another_turn=False), False, ("ask_user", None)),
        (Stop("turn_limit", another_turn=True), True, ("limit", "turn_limit")),
        (Stop("turn_limit", another_turn=False), False, ("natural", None)),
        (Stop("cost_limit", another_turn=True), True, ("limit", "cost_limit")),
        (Stop("deadline_exceeded", another_turn=True), True, (None, None)),
        (Stop("cancelled", another_turn=True), True, (None, None)),
        (Stop("paused", another_turn=True), True, (None, None)),
        (Stop("paused", another_turn=False), False, ("natural", None)),
    ],
)
def test_what_a_takeover_is_told_of_a_stop(stop: Stop | None, another_turn: bool, expected: tuple[Any, Any]) -> None:
    assert progress_stop(stop, another_turn=another_turn) == expected
