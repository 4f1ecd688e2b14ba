"""What a recorded branch says about its runs, row by row."""

from typing import Any

import pytest

from checkpoint.jsontypes import JsonObject
from runner.interruption import ASK_TOOLS
from runner.replay.segments import Run, Unasked, segment

SENT = '{"ask_user_sent": true}'


def branch(*words: str) -> list[JsonObject]:
    """Entries from short words: `u`, `a` (final answer), `a:c1,c2` (calls), `a!` error, `a?` aborted, `r:c1` (result),
    `ask:c1` (a sent question's result), `m` (model_change), `x` (custom), `b` (a person's command), `s` (compaction).
    """
    return [_entry(word) for word in words]


def _entry(word: str) -> JsonObject:
    kind, _, rest = word.partition(":")
    match kind:
        case "u":
            return _message({"role": "user", "content": []})
        case "a" | "a!" | "a?":
            calls = [{"type": "toolCall", "id": name, "name": "bash"} for name in rest.split(",") if name]
            reason = {"a!": "error", "a?": "aborted"}.get(kind, "toolUse" if calls else "stop")
            return _message({"role": "assistant", "content": calls, "stopReason": reason})
        case "r":
            return _message({"role": "toolResult", "toolCallId": rest, "toolName": "bash", "content": []})
        case "ask":
            content = [{"type": "text", "text": SENT}]
            return _message({"role": "toolResult", "toolCallId": rest, "toolName": "ask_user", "content": content})
        case "b":
            return _message({"role": "bashExecution", "command": "ls"})
        case _:
            return {"type": {"m": "model_change", "x": "custom", "s": "compaction"}[kind]}


def _message(message: JsonObject) -> JsonObject:
    return {"type": "message", "message": message}


def shape(*words: str, **options: Any) -> list[str]:
    """The pieces, as `prompts>after,after` with `+n` for queued messages; `!n` for an entry that nothing asks for."""
    shown: list[str] = []
    for piece in segment(branch(*words), may_ask=ASK_TOOLS, **options):
        match piece:
            case Unasked(position):
                shown.append(f"!{position}")
            case Run():
                turns = [("+" * len(turn.taken)) + turn.after for turn in piece.turns]
                end = [] if piece.turns and not piece.untaken else ["+" * len(piece.untaken) + piece.end]
                shown.append(f"{len(piece.prompts)}>{','.join([*turns, *end])}")
    return shown


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", []),
        ("m x", []),
        ("u a", ["1>ended"]),
        ("m u x a", ["1>ended"]),
        ("u u a", ["2>ended"]),
        ("u a u a", ["1>ended", "1>ended"]),
        ("u a:c r:c a", ["1>asked_again,ended"]),
        ("u a:c,d r:d r:c a", ["1>asked_again,ended"]),
        ("u a:c,c r:c x r:c a", ["1>asked_again,ended"]),
        ("u a:c r:c u a", ["1>asked_again,+ended"]),
        ("u a:c r:c s a", ["1>asked_again,ended"]),
        ("u a:c r:c s u a", ["1>left", "1>ended"]),
        ("u a:c ask:c m u a", ["1>interrupted", "1>ended"]),
        ("u a! a", ["1>retried,ended"]),
        ("u a! m a", ["1>next_model,ended"]),
        ("u a! a!", ["1>retried,failed"]),
        ("u a! u a", ["1>failed", "1>ended"]),
        ("u a! s a", ["1>failed", "0>ended"]),
        ("u a?", ["1>failed"]),
        ("u a:c,d r:c a?", ["1>asked_again,failed"]),
        ("u a b a", ["1>ended", "0>ended"]),
        # what a person left
        ("u a:c u a", ["1>left", "1>ended"]),
        ("u s u a", ["1>left", "1>ended"]),
        # where something is missing
        ("u", ["1>unanswered"]),
        ("u a:c", ["1>unanswered"]),
        ("u a:c,d r:d", ["1>unanswered"]),
        ("u a:c r:c", ["1>open"]),
        ("u a:c r:c u", ["1>asked_again,+unanswered"]),
        ("u a:c a", ["1>unanswered", "!2"]),
        # what no run asks for
        ("a", ["!0"]),
        ("u a a", ["1>ended", "!2"]),
        ("u r:c a", ["1>unanswered", "!1", "0>ended"]),
        ("u a:c r:c r:c a", ["1>unanswered", "!3", "0>ended"]),
    ],
)
def test_the_runs_of_a_branch(words: str, wanted: list[str]) -> None:
    assert shape(*words.split()) == wanted


def test_messages_after_a_finished_answer_of_one_pipeline_were_queued() -> None:
    assert shape("u", "a", "u", "u", "a", one_pipeline=True) == ["1>asked_again,++ended"]


def test_a_run_that_continues_a_session_needs_something_to_answer() -> None:
    assert shape("a", continues=True) == ["0>ended"]
    assert shape("a", continues=False) == ["!0"]


def test_entries_that_are_not_all_there_are_leave_their_end_open() -> None:
    assert shape("u", "a:c", "r:c", cut=True) == ["1>left"]
    assert shape("u", "a:c", cut=True) == ["1>left"]
    assert shape("u", cut=True) == ["1>left"]


def test_the_call_in_which_a_run_was_aborted_is_the_last_one_with_a_result() -> None:
    (run,) = segment(branch("u", "a:c,d,e", "r:c", "r:d", "a?"), may_ask=ASK_TOOLS)
    assert isinstance(run, Run)
    assert (run.turns[0].aborted_call, run.turns[0].results) == (1, (2, 3, None))
