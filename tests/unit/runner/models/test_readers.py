"""The three readers fed with anything: they fail only in the ways an answer turns into an error message."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.models.anthropic_stream import AnthropicReader
from runner.models.completions_stream import CompletionsReader
from runner.models.draft import Draft
from runner.models.failure import ModelCallFailed
from runner.models.protocol import AnswerReader
from runner.models.responses_stream import ResponsesReader
from runner.models.settings import ModelSettings

MODEL = ModelSettings(id="m", provider="p", api="openai-completions")
READERS = {"anthropic": AnthropicReader, "completions": CompletionsReader, "responses": ResponsesReader}
_FED_FAILURES = (AttributeError, TypeError, KeyError, IndexError, ValueError)

_WORDS = """
type index delta text content_block content_block_start content_block_delta content_block_stop
tool_use input text_delta input_json_delta partial_json thinking thinking_delta signature
message message_start message_delta message_stop stop_reason end_turn usage input_tokens
choices content tool_calls function name arguments id finish_reason stop reasoning
reasoning_details response response.created response.output_item.added
response.output_item.done response.output_text.delta response.completed item output_index
function_call call_id status completed summary error code
"""
words = st.sampled_from(_WORDS.split())
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | words | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=10,
)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=300)
@given(events=st.lists(st.tuples(words | st.just("message"), values), max_size=8), aborted=st.booleans())
def test_anything_may_come(name: str, events: list[tuple[str, Any]], aborted: bool) -> None:
    reader: AnswerReader = READERS[name](MODEL)
    failed = False
    for event, value in events:
        try:
            list(reader.feed(event, json.dumps(value)))
        except (ModelCallFailed, *_FED_FAILURES):
            failed = True
            break
    if not failed:
        try:
            reader.finish()
        except ModelCallFailed:
            failed = True
    if failed or aborted:
        reader.interrupted(aborted=aborted)
    json.dumps(reader.draft.message)
    for block in reader.draft.content:
        assert block["type"] in ("text", "thinking", "toolCall")
        assert isinstance(block.get("arguments", {}), dict)


def chunk(**delta: Any) -> str:
    return json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def finish(reader: CompletionsReader, reason: str = "tool_calls") -> list[dict[str, Any]]:
    list(reader.feed("message", json.dumps({"choices": [{"delta": {}, "finish_reason": reason}]})))
    reader.finish()
    return reader.draft.content


def test_calls_without_ids_get_different_ones() -> None:
    reader = CompletionsReader(MODEL)
    for index in range(2):
        call = {"index": index, "function": {"name": "t", "arguments": "{}"}}
        list(reader.feed("message", chunk(tool_calls=[call])))
    ids = [block["id"] for block in finish(reader)]
    assert all(ids)
    assert len(set(ids)) == 2


def test_a_fragment_with_nothing_to_tell_it_by_goes_on_with_the_last_call() -> None:
    reader = CompletionsReader(MODEL)
    list(reader.feed("message", chunk(tool_calls=[{"id": "a", "function": {"name": "t", "arguments": '{"x":'}}])))
    list(reader.feed("message", chunk(tool_calls=[{"function": {"arguments": "1}"}}])))
    assert finish(reader) == [{"type": "toolCall", "id": "a", "name": "t", "arguments": {"x": 1}}]


def test_a_message_cut_inside_a_call_never_shows_arguments_that_could_run_in_its_final_form() -> None:
    reader = CompletionsReader(MODEL)
    call = {"index": 0, "id": "a", "function": {"name": "bash", "arguments": '{"command": "rm -r /tmp'}}
    list(reader.feed("message", chunk(tool_calls=[call])))
    (block,) = finish(reader, "length")
    assert block["arguments"] == {}
    assert block["argumentsError"].endswith('{"command": "rm -r /tmp')


def test_a_long_text_is_whole_at_its_end_and_nearly_so_before() -> None:
    draft = Draft(MODEL)
    index, _ = draft.open_text()
    sent = ""
    for number in range(3000):
        sent += (piece := f"word {number} ")
        event = draft.add_text(index, piece)
        assert event.partial is draft.message
        shown = draft.content[index]["text"]
        assert sent.startswith(shown)
        assert len(shown) >= len(sent) * 0.85 or len(sent) < 20
    assert draft.end_text(index).content == sent
    assert draft.content[index]["text"] == sent
