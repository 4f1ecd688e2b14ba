"""The literal texts a model sees (tests/corpus/session/FORMAT.md §5)."""

from typing import Any

import pytest

from checkpoint.session.llm import convert_to_llm


def text_of(message: dict[str, Any]) -> str:
    (converted,) = convert_to_llm([message])
    assert converted["role"] == "user"
    (block,) = converted["content"]
    assert block["type"] == "text"
    return block["text"]


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult", "system"])
def test_messages_a_model_knows_pass_as_they_are(role: str) -> None:
    message = {"role": role, "content": 5, "unknown": {"x": 1}}
    assert convert_to_llm([message])[0] is message


@pytest.mark.parametrize("message", [{"role": "hookMessage"}, {"role": 5}, {}, "text", None, 5, ["user"]])
def test_everything_else_is_left_out(message: Any) -> None:
    assert convert_to_llm([message]) == []


def test_a_custom_message_speaks_as_the_user() -> None:
    assert convert_to_llm([{"role": "custom", "content": "hi", "display": True, "timestamp": 7}]) == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 7}
    ]
    blocks = [{"type": "image", "data": "", "mimeType": "image/png"}]
    assert convert_to_llm([{"role": "custom", "content": blocks}]) == [{"role": "user", "content": blocks}]


def test_summaries_have_their_literal_frames() -> None:
    assert text_of({"role": "compactionSummary", "summary": "S"}) == (
        "The conversation history before this point was compacted into the following summary:\n\n"
        "<summary>\nS\n</summary>"
    )
    assert text_of({"role": "branchSummary", "summary": "S"}) == (
        "The following is a summary of a branch that this conversation came back from:\n\n<summary>\nS</summary>"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"output": "a\nb", "exitCode": 0}, "Ran `ls`\n```\na\nb\n```"),
        ({"output": ""}, "Ran `ls`\n(no output)"),
        ({"output": "x", "exitCode": 2}, "Ran `ls`\n```\nx\n```\n\nCommand exited with code 2"),
        ({"output": "x", "exitCode": 2, "cancelled": True}, "Ran `ls`\n```\nx\n```\n\n(command cancelled)"),
        (
            {"output": "x", "truncated": True, "fullOutputPath": "/tmp/o"},
            "Ran `ls`\n```\nx\n```\n\n[Output truncated. Full output: /tmp/o]",
        ),
        ({"output": "x", "truncated": True}, "Ran `ls`\n```\nx\n```"),
    ],
)
def test_a_command_run_by_the_user_is_told(fields: dict[str, Any], text: str) -> None:
    assert text_of({"role": "bashExecution", "command": "ls", **fields}) == text


def test_a_command_can_be_kept_from_the_model() -> None:
    assert convert_to_llm([{"role": "bashExecution", "command": "x", "excludeFromContext": True}]) == []
