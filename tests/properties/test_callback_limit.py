"""Whatever a run leaves behind, its callback is small, readable, and complete in what decides something."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.callback import (
    MAX_BODY_BYTES,
    AskUserSettlement,
    FailureSettlement,
    InterruptionRef,
    SuccessSettlement,
    Terminal,
    UndeliveredMessage,
    to_body,
)
from settlement.callback_limit import cut_text, within
from settlement.wire import json_bytes, read
from tests.unit.settlement.samples import a_terminal, asked

characters: st.SearchStrategy[str] = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from('"\\\n\x00\x1f\ud800é👍')), max_size=12
)
texts = st.tuples(characters, st.sampled_from([0, 1, 3, 500, 4000])).map(lambda pair: pair[0] * pair[1])
question_lists = st.integers(0, 40).map(lambda count: asked(*(f"call-{number}" for number in range(count))))
settlements = st.one_of(
    st.builds(SuccessSettlement, text=texts, structured=st.one_of(st.none(), texts)),
    st.builds(
        AskUserSettlement,
        interruption=st.builds(
            InterruptionRef, tool_call_id=characters, tool_name=st.just("ask_user"), result_text=texts
        ),
    ),
    st.builds(
        FailureSettlement,
        reason=st.just("internal"),
        message=texts,
        retryable=st.booleans(),
        resumable=st.booleans(),
        withdrawn_questions=question_lists.map(lambda asked: tuple(one.question_id for one in asked)),
    ),
)
terminals = st.builds(
    a_terminal,
    settlement=settlements,
    questions=question_lists,
    warnings=st.lists(texts, max_size=6).map(tuple),
    undelivered=st.lists(
        st.builds(UndeliveredMessage, queue=st.sampled_from(["steering", "follow_up"]), text=texts), max_size=6
    ).map(tuple),
    labels=st.dictionaries(characters, characters, max_size=3),
)


@settings(max_examples=150, deadline=None)
@given(terminals)
def test_a_callback_is_never_larger_than_the_limit_and_always_readable(terminal: Terminal):
    body = to_body(terminal)
    assert len(body) <= MAX_BODY_BYTES
    assert to_body(terminal) == body
    received = read(Terminal, body)
    assert received.questions == read(Terminal, to_body(a_terminal(questions=terminal.questions))).questions
    if isinstance(terminal.settlement, FailureSettlement):
        assert isinstance(received.settlement, FailureSettlement)
        assert received.settlement.withdrawn_questions == terminal.settlement.withdrawn_questions


@settings(max_examples=150, deadline=None)
@given(terminals, st.integers(500, 25_000))
def test_what_comes_later_in_the_order_is_cut_only_when_the_earlier_is_used_up(terminal: Terminal, limit: int):
    whole: dict[str, Any] = json.loads(to_body(terminal))
    cut = within(whole, limit)
    if len(json_bytes(whole)) <= limit:
        assert cut == whole
    if cut["undelivered"] != whole["undelivered"]:
        assert cut["warnings"] == [] or cut["warnings"][0].endswith("to keep the callback small")
    if cut["settlement"] != whole["settlement"]:
        assert all(message["text"] == "" for message in cut["undelivered"])
    assert cut["questions"] == whole["questions"]


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(-5, 400))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, room: int):
    kept = cut_text(text, room)
    assert text.startswith(kept)
    assert len(json_bytes(kept)) - 2 <= max(room, 0)
    if kept != text:
        assert len(json_bytes(text[: len(kept) + 1])) - 2 > room
