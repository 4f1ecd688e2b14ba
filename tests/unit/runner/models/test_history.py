"""The transcript made fit for a model: pairs of calls and results hold whatever the log looks like."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runner.models.history import NO_RESULT, fold_system, prepare
from runner.models.settings import ModelSettings
from runner.models.tool_ids import anthropic_id, completions_id

MODEL = ModelSettings(id="m", provider="p", api="openai-completions")
Item = dict[str, Any]


def assistant(*calls: str, foreign: bool = False, stop: str = "toolUse", text: str = "") -> Item:
    content: list[Item] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "toolCall", "id": call, "name": "t", "arguments": {}} for call in calls]
    where = {"provider": "other" if foreign else "p", "api": "openai-completions", "model": "m"}
    return {"role": "assistant", "content": content, "stopReason": stop, **where}


def result(call: str, text: str = "A") -> Item:
    return {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "t",
        "content": [{"type": "text", "text": text}],
    }


def user(text: str = "u") -> Item:
    return {"role": "user", "content": text}


def fit(*messages: Item, model: ModelSettings = MODEL) -> list[Item]:
    return prepare(messages, model, lambda given, _: anthropic_id(given))


def shape(messages: list[Item]) -> list[str]:
    return [message.get("toolCallId") or message["role"] for message in messages]


def test_a_late_result_moves_up_to_its_call() -> None:
    assert shape(fit(user(), assistant("c"), user("hurry"), result("c"))) == [
        "user",
        "assistant",
        "c",
        "user",
    ]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    messages = fit(user(), assistant("a", "b"), result("b"), user())
    assert shape(messages) == ["user", "assistant", "b", "a", "user"]
    assert messages[3]["content"][0]["text"] == NO_RESULT
    assert messages[3]["isError"] is True


def test_results_of_nobody_and_of_dropped_answers_are_left_out() -> None:
    failed = assistant("x", stop="aborted")
    assert shape(fit(user(), result("stray"), failed, result("x"), user())) == ["user", "user"]


def test_a_second_result_of_the_same_call_is_left_out() -> None:
    messages = fit(assistant("c"), result("c", "first"), result("c", "second"))
    assert [m["content"][0]["text"] for m in messages if m["role"] == "toolResult"] == ["first"]


def test_an_id_used_again_in_a_later_turn_belongs_to_that_turn() -> None:
    messages = fit(assistant("c"), result("c", "1"), assistant("c"), result("c", "2"))
    assert shape(messages) == ["assistant", "c", "assistant", "c"]
    assert messages[3]["content"][0]["text"] == "2"


def test_another_models_thinking_and_signatures_are_left_out() -> None:
    message = assistant(foreign=True, text="t")
    message["content"][0]["textSignature"] = "s"
    message["content"].insert(0, {"type": "thinking", "thinking": "why", "thinkingSignature": "S"})
    assert fit(message)[0]["content"] == [{"type": "text", "text": "t"}]


def test_the_same_models_thinking_stays_if_it_is_signed_or_says_something() -> None:
    message = assistant()
    message["content"] = [
        {"type": "thinking", "thinking": "", "thinkingSignature": "S"},
        {"type": "thinking", "thinking": "  "},
        {"type": "thinking", "thinking": "why"},
    ]
    assert [block["thinking"] for block in fit(message)[0]["content"]] == ["", "why"]


def test_images_become_one_placeholder_for_a_model_without_eyes() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    seen = fit({"role": "user", "content": [image, image, {"type": "text", "text": "and"}, image]})
    texts = [block["text"] for block in seen[0]["content"]]
    assert texts == ["(image omitted: model does not support images)", "and", texts[0]]


def test_missing_content_counts_as_none() -> None:
    messages = fit(assistant("c"), {**result("c"), "content": None}, {**assistant(), "content": None})
    assert [message["content"] for message in messages[1:]] == [[], []]


def test_later_system_messages_join_the_first() -> None:
    system, rest = fold_system("Base", [user(), {"role": "system", "content": "More"}])
    assert (system, shape(rest)) == ("Base\n\nMore", ["user"])


def _answer(ids: list[str], foreign: bool, stop: str) -> Item:
    return assistant(*ids, foreign=foreign, stop=stop)


def _for_openai(given: str, source: Item) -> str:
    del source
    return completions_id(given, "openai")


def _for_anthropic(given: str, source: Item) -> str:
    del source
    return anthropic_id(given)


calls = st.sampled_from(["a", "b", "c|d", "", "call:" + "x" * 80 + "1", "call:" + "x" * 80 + "2"])
transcripts = st.lists(
    st.one_of(
        st.just(user()),
        calls.map(result),
        st.builds(
            _answer,
            st.lists(calls, max_size=3, unique=True),
            st.booleans(),
            st.sampled_from(["toolUse", "stop", "error", "aborted"]),
        ),
    ),
    max_size=12,
)


@given(transcripts, st.booleans())
def test_every_call_is_followed_by_exactly_its_results(transcript: list[Item], openai: bool) -> None:
    normalise = _for_openai if openai else _for_anthropic
    waiting: list[str] = []
    for message in prepare(transcript, MODEL, normalise, longest_id=40 if openai else 64):
        if message["role"] == "toolResult":
            waiting.remove(message["toolCallId"])
            continue
        assert waiting == [], "a call has no result before the conversation goes on"
        if message["role"] == "assistant":
            waiting = [block["id"] for block in message["content"]]
            assert all(waiting)
            assert len(set(waiting)) == len(waiting)
    assert waiting == []


@given(transcripts)
def test_the_transcript_itself_is_never_changed(transcript: list[Item]) -> None:
    import copy

    before = copy.deepcopy(transcript)
    fit(*transcript)
    assert transcript == before
