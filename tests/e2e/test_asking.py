"""The four acceptance cases of asking, through the real process, a real store and a real server."""

import json
import resource
from pathlib import Path

from tests.e2e.scene import OWN_TOOLS, Json, Scene, ask, call, calls, messages, stored_entries, text
from tests.fakes.callback_server import CallbackServer


def test_one_ask_is_logged_stops_after_one_request_and_settles_as_ask_user(
    scene: Scene, server: CallbackServer
) -> None:
    run = scene.run(scene.spec([calls(ask()), text("never said")]))

    assert run.exit == 0
    terminal = run.terminal
    assert terminal["settlement"]["kind"] == "ask_user"
    assert terminal["settlement"]["interruption"]["tool_call_id"] == "call_1"
    assert terminal["usage"]["requests"] == 1
    (result,) = messages(stored_entries(scene.store, terminal), "toolResult")
    assert json.loads(result["content"][0]["text"])["ask_user_sent"] is True
    (card,) = server.cards
    assert card.question == "Staging or production?"
    assert [question["question_id"] for question in terminal["questions"]] == [card.question_id]
    assert [json.loads(received.body) for received in server.terminals] == [terminal]


def test_ask_beside_an_ordinary_tool_lets_both_finish_and_asks_the_model_no_more(
    scene: Scene, server: CallbackServer
) -> None:
    echo = {"type": "toolCall", "id": "call_2", "name": "echo", "arguments": {"text": "hello"}}
    run = scene.run(scene.spec([calls(ask(), echo), text("never said")], agent=OWN_TOOLS))

    assert run.settlement["kind"] == "ask_user"
    assert run.terminal["usage"]["requests"] == 1
    results = messages(stored_entries(scene.store, run.terminal), "toolResult")
    assert [(result["toolCallId"], result["isError"]) for result in results] == [("call_1", False), ("call_2", False)]
    assert len(server.committed) == 1


def test_a_sent_question_whose_result_cannot_be_appended_is_a_failure_and_withdrawn(
    scene: Scene, server: CallbackServer
) -> None:
    """The disk is really full: the log's file may not grow beyond the assistant message."""
    options = ["x" * 400 + str(number) for number in range(5)]
    spec = scene.spec([calls({"type": "text", "text": "y" * 3000}, ask(options=options))])
    probe = scene.run({**spec, "pipeline_id": "probe"})
    entries = stored_entries(scene.store, probe.terminal)
    before_result = sum(
        len(json.dumps(entry, separators=(",", ":"), ensure_ascii=False)) + 1
        for entry in entries
        if entry.get("message", {}).get("role") != "toolResult"
    )
    limit = before_result + 20

    run = scene.run(spec, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))

    assert run.settlement["kind"] == "failure"
    assert run.settlement["reason"] == "persistence_failed"
    assert run.terminal["checkpoint"]["decision"] == "keep_previous"
    assert run.terminal["questions"] == []
    card = server.cards[-1]
    assert run.settlement["withdrawn_questions"] == [card.question_id]
    assert run.exit == 0


def test_a_run_that_asks_nothing_ends_as_it_always_did(scene: Scene, server: CallbackServer) -> None:
    echo = {"type": "toolCall", "id": "call_1", "name": "echo", "arguments": {"text": "hello"}}
    run = scene.run(scene.spec([calls(echo), text("All done.")], agent=OWN_TOOLS))

    assert run.settlement == {"kind": "success", "text": "All done.", "structured": None}
    assert run.terminal["usage"]["requests"] == 2
    assert run.terminal["questions"] == []
    assert server.cards == []


def test_a_tool_that_may_not_ask_cannot_fake_a_question(scene: Scene, server: CallbackServer) -> None:
    run = scene.run(scene.spec([calls(call("pretend")), text("Went on.")], agent=OWN_TOOLS))

    assert run.settlement["kind"] == "success"
    assert run.terminal["usage"]["requests"] == 2


def test_a_question_out_of_bounds_is_an_error_result_and_nobody_is_asked(scene: Scene, server: CallbackServer) -> None:
    eleven = [f"option {number}" for number in range(11)]
    wrong: list[Json] = [
        {"options": ["only one"]},
        {"options": eleven},
        {"options": ["a", "a"]},
        {"question": "x" * 100_000},
        {"context": "x" * 1_000_000},
    ]
    asks = [ask(f"c{index}", **arguments) for index, arguments in enumerate(wrong)]
    form = call("collect_form_input", "form", component_dsl_schema={})
    run = scene.run(scene.spec([calls(*asks, form), text("Then I decide myself.")]))

    assert run.settlement == {"kind": "success", "text": "Then I decide myself.", "structured": None}
    assert server.cards == []
    results = messages(stored_entries(scene.store, run.terminal), "toolResult")
    assert [result["isError"] for result in results] == [True] * 6


def test_a_question_at_its_bounds_reaches_the_server_untouched(scene: Scene, server: CallbackServer) -> None:
    options = [f"{number}: " + "ö" * 100 for number in range(10)]
    question, context = "Which one?\n" * 100, "\u2028 long \x1b[31m " * 500
    run = scene.run(scene.spec([calls(ask(question=question, context=context, options=options))]))

    assert run.settlement["kind"] == "ask_user"
    (card,) = server.cards
    assert (card.question, card.context, card.options) == (question, context, tuple(options))


def test_a_reply_starts_a_second_process_that_restores_and_succeeds(scene: Scene, server: CallbackServer) -> None:
    asked = scene.run(scene.spec([calls(ask())])).terminal
    checkpoint = asked["checkpoint"]

    run = scene.run(
        scene.spec(
            [text("Deployed to staging.")],
            pipeline_id="p2",
            session={"id": "s1", "restore": {"manifest": checkpoint["manifest"], "digest": checkpoint["digest"]}},
            input={"reply": {"tool_call_id": "call_1", "message": "staging"}},
        )
    )

    assert run.settlement == {"kind": "success", "text": "Deployed to staging.", "structured": None}
    assert run.terminal["checkpoint"]["parent"] == checkpoint["digest"]
    entries = stored_entries(scene.store, run.terminal)
    assert [message["role"] for message in (e["message"] for e in entries if e["type"] == "message")] == [
        "user",
        "assistant",
        "toolResult",
        "user",
        "assistant",
    ]
    (reply,) = [entry for entry in entries if entry.get("customType") == "runner.reply"]
    assert reply["data"]["tool_call_id"] == "call_1"
    assert len(server.committed) == 2


def test_without_a_server_a_question_is_an_error_result_and_the_record_is_printed(local_scene: Scene) -> None:
    run = local_scene.run(local_scene.spec([calls(ask()), text("Then I decide myself.")]))

    assert run.exit == 0
    assert run.settlement["kind"] == "success"
    (result,) = messages(stored_entries(local_scene.store, run.terminal), "toolResult")
    assert result["isError"] is True
    assert local_scene.head()["state"] == "terminal"
    assert Path(local_scene.store).exists()
