"""`runner replay` on what the runner itself has recorded: the same again, or the place that differs."""

import hashlib
import json
import signal
from collections.abc import Callable

import pytest

from tests.e2e.replaying import SCRIPTED, Recorded, echo, is_same, replay, report
from tests.e2e.scene import (
    OWN_TOOLS,
    Json,
    Run,
    Scene,
    Started,
    ask,
    at_once,
    call,
    calls,
    restoring,
    stored_lines,
    text,
)
from tests.fakes.callback_server import Answer, CallbackServer

OVERLOADED = {"stopReason": "error", "errorMessage": "overloaded"}


def used(response: Json, tokens: int, cost: float = 0.0) -> Json:
    return {**response, "usage": {"input": tokens, "cost": cost}}


LOOPING = [used(calls(echo()), 10, 0.1)] * 4
OTHER_MODEL = {"api": "scripted", "provider": "other", "id": "second", "script": "other.json"}
SETTLEMENTS: dict[str, tuple[list[Json], Json, str]] = {
    "success": ([calls(echo()), used(text("3"), 5)], {"agent": OWN_TOOLS}, "success"),
    "no_text": ([text("")], {}, "empty_answer"),
    "cut": ([text("half", stopReason="length")], {}, "output_truncated"),
    "retried": ([OVERLOADED, OVERLOADED, text("fine")], {}, "success"),
    "given_up": ([OVERLOADED] * 2, {"agent": {"model": {**SCRIPTED, "max_retries": 1}}}, "model_overloaded"),
    "refused": ([{"stopReason": "error", "errorMessage": "no such thing"}], {}, "model_unavailable"),
    "turn_limit": (LOOPING, {"agent": OWN_TOOLS, "limits": {"max_turns": 2}}, "turn_limit"),
    "token_limit": (LOOPING, {"agent": OWN_TOOLS, "limits": {"max_total_tokens": 15}}, "token_limit"),
    "cost_limit": (LOOPING, {"agent": OWN_TOOLS, "limits": {"max_cost_usd": 0.25}}, "cost_limit"),
    "unknown_tool": ([calls(call("nothing")), text("oh")], {}, "success"),
    "bad_arguments": ([calls(call("large", bytes="many")), text("oh")], {"agent": OWN_TOOLS}, "success"),
    "cut_call": ([{**calls(echo()), "stopReason": "length"}, text("oh")], {"agent": OWN_TOOLS}, "success"),
    "nobody_to_ask": ([calls(ask()), text("I guess.")], {}, "success"),
    "subagent": ([calls(call("subagent", task="Look.")), used(text("done"), 7, 0.3)], {}, "success"),
    "hostile": ([text("\x1b[2J<script>\u202e\u0000 \ud800")], {}, "success"),
    "one_id_twice": (
        [calls(echo("c1", "a"), echo("c2", "b"), echo("c1", "c")), text("ok")],
        {"agent": OWN_TOOLS},
        "success",
    ),
    "long": ([text("word " * 8000)], {"labels": {"stream_id": "s"}}, "success"),
}


def test_whatever_a_local_pipeline_settles_as_is_the_same_when_it_is_replayed(local_scene: Scene) -> None:
    def one(name: str) -> Run:
        responses, changes, wanted = SETTLEMENTS[name]
        scene = local_scene.at(name)
        ended = scene.run(scene.spec(responses, **changes))
        settlement = ended.settlement
        assert wanted in (settlement["kind"], settlement.get("reason")), (name, settlement)
        found = is_same(scene, scene.head_address())
        assert found["settlement"]["kind"] == settlement["kind"], name
        return ended

    assert len(at_once([lambda name=name: one(name) for name in SETTLEMENTS])) == len(SETTLEMENTS)


def test_a_turn_that_another_model_answered_is_the_same(local_scene: Scene) -> None:
    scene = local_scene
    (scene.folder / "other.json").write_text(json.dumps({"responses": [text("from the second")]}))
    model = {**SCRIPTED, "max_retries": 0}
    scene.run(scene.spec([OVERLOADED], agent={"model": model, "fallback_models": [OTHER_MODEL]}))

    found = is_same(scene, scene.head_address())

    assert (found["turns"], found["settlement"]["text"]) == (2, "from the second")


# --- questions ----------------------------------------------------------------------------------------------


def test_a_question_and_the_pipeline_that_got_its_answer_are_each_the_same(scene: Scene) -> None:
    first = scene.run(scene.spec([calls(echo("c0"), ask("c1"), ask("c2", "And why?")), text("no")], agent=OWN_TOOLS))
    assert first.settlement["kind"] == "ask_user"
    reply = {"reply": {"tool_call_id": "c1", "message": "Staging."}}
    session = restoring(first.terminal)
    second = scene.run(scene.spec([text("Deployed.")], pipeline_id="p2", session=session, input=reply))
    assert second.settlement["kind"] == "success"

    asked = is_same(scene, scene.head_address())
    answered = is_same(scene, scene.head_address("p2"))
    by_manifest = is_same(scene, f"{scene.store.as_uri()}/{second.checkpoint['manifest']}")
    plain = scene.folder / "plain.jsonl"
    plain.write_bytes(stored_lines(scene.store, second.terminal))
    whole = report(replay(scene, str(plain)))

    assert asked["settlement"]["questions"][1]["tool_call_id"] == "c2"
    assert (answered["runs"], answered["turns"], by_manifest["turns"]) == (1, 1, 1)
    assert (whole["same"], whole["runs"], whole["turns"]) == (True, 2, 2)
    assert whole["settlement_changes"] is None


def test_a_pipeline_that_began_with_a_plain_session_is_replayed_from_there(local_scene: Scene) -> None:
    scene = local_scene
    first = scene.run(scene.spec([text("Hello.")]))
    (scene.folder / "old.jsonl").write_bytes(stored_lines(scene.store, first.terminal))
    session = {"id": "s2", "restore": {"jsonl": (scene.folder / "old.jsonl").as_uri()}}
    scene.run(scene.spec([text("Hello again.")], pipeline_id="p2", session=session))

    found = is_same(scene, scene.head_address("p2"))

    assert (found["runs"], found["turns"]) == (1, 1)


def test_a_question_that_nobody_took_and_may_have_arrived_is_still_withdrawn(
    scene: Scene, server: CallbackServer
) -> None:
    server.answer_questions_with([Answer(cut=True, consumed=True), 400])
    run = scene.run(scene.spec([calls(ask()), {"stopReason": "error", "errorMessage": "no such thing"}]))
    assert run.settlement["kind"] == "failure"
    assert len(run.settlement["withdrawn_questions"]) == 1

    is_same(scene, scene.head_address())


# --- stops --------------------------------------------------------------------------------------------------


Wait = Callable[[Started], object]


def tool_started(process: Started) -> None:
    process.wait_for(lambda line: line["type"] == "tool_execution_start")


def streaming(process: Started) -> None:
    process.wait_for(lambda line: line.get("assistantMessageEvent", {}).get("delta") == "half")


def waiting_to_retry(process: Started) -> None:
    process.wait_for_log("model_retry")


SLOW = {"content": [{"type": "text", "text": "half"}, {"type": "text", "text": "rest", "delay_ms": 60_000}]}
STOPS: dict[str, tuple[list[Json], Wait]] = {
    "in_an_answer": ([SLOW], streaming),
    "in_a_later_answer": ([calls(echo()), SLOW], streaming),
    "in_a_tool": ([calls(echo(), call("wait", "c2")), text("never")], tool_started),
    "cut_off": ([calls(echo(), call("stubborn", "c2")), text("never")], tool_started),
    "between_retries": ([OVERLOADED] * 5, waiting_to_retry),
}


def test_a_run_that_was_stopped_is_stopped_again_in_the_same_place(local_scene: Scene) -> None:
    def one(name: str) -> Run:
        responses, until_there = STOPS[name]
        scene = local_scene.at(name)
        process = scene.start(scene.spec(responses, limits={"grace_s": 3}, agent=OWN_TOOLS), "--events")
        until_there(process)
        process.signal(signal.SIGTERM)
        run = process.finish()
        assert run.settlement["reason"] == "cancelled", run.settlement
        is_same(scene, scene.head_address())
        return run

    assert len(at_once([lambda name=name: one(name) for name in STOPS])) == len(STOPS)


# --- what differs -------------------------------------------------------------------------------------------


def test_a_changed_final_answer_contradicts_the_terminal_record(recorded: Recorded) -> None:
    scene, terminal, entries = recorded
    entries[-1]["message"]["content"][0]["text"] = "Nothing done."
    store_again(scene, terminal, entries)

    run = replay(scene, scene.head_address())
    found = report(run)

    assert run.exit == 1
    (size, said) = sorted(found["settlement_changes"], key=lambda change: change["path"])
    assert size["path"] == "/checkpoint/bytes"
    assert said == {"path": "/settlement/text", "recorded": "All done.", "replayed": "Nothing done."}


def test_a_changed_result_is_shown_as_a_diff_with_its_entry(recorded: Recorded) -> None:
    scene, _, entries = recorded
    result = next(entry for entry in entries if entry.get("message", {}).get("role") == "toolResult")
    result["message"]["toolName"] = "\x1b[31mother\u202e"

    run = scene.command("replay", plain_file(scene, entries)).finish()

    assert run.exit == 1
    lines = run.output.splitlines()
    assert f"different at entry {result['id']} (toolResult): the replay makes another message" in lines
    at = lines.index("  /toolName")
    assert lines[at + 1 : at + 3] == ['  - recorded: "\\u001b[31mother⟦U+202E⟧"', '  + replayed: "echo"']
    assert lines[-1] == "different"


def test_a_request_that_the_recording_cannot_answer_names_the_entry_and_what_was_asked(
    recorded: Recorded,
) -> None:
    scene, _, entries = recorded

    run = replay(scene, plain_file(scene, entries[:-1]))
    difference = report(run)["difference"]

    assert run.exit == 1
    assert difference["entry_id"] == entries[-2]["id"]
    assert difference["cause"] == "unanswered"
    assert "the model was asked again" in difference["what"]


def test_a_call_without_a_result_names_the_call(recorded: Recorded) -> None:
    scene, _, entries = recorded
    kept = [entry for entry in entries if entry.get("message", {}).get("role") != "toolResult"]

    difference = report(replay(scene, plain_file(scene, chained(kept))))["difference"]

    assert difference["cause"] == "unanswered"
    assert "calls 'echo' (call 'call_1')" in difference["what"]


def test_an_answer_that_nothing_asks_for_is_a_difference(recorded: Recorded) -> None:
    scene, _, entries = recorded
    again = {**entries[-1], "id": "aaaaaaaa"}

    difference = report(replay(scene, plain_file(scene, chained([*entries, again]))))["difference"]

    assert (difference["entry_id"], difference["cause"]) == ("aaaaaaaa", "only_recorded")


def plain_file(scene: Scene, entries: list[Json]) -> str:
    path = scene.folder / "changed.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return str(path)


def chained(entries: list[Json]) -> list[Json]:
    """Each entry the child of the one before it."""
    parent = None
    for entry in entries[1:]:
        entry["parentId"], parent = parent, entry["id"]
    return entries


def store_again(scene: Scene, terminal: Json, entries: list[Json]) -> None:
    """The checkpoint and its head, rewritten without a seam around other lines."""
    import zstandard

    lines = "".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n" for entry in entries).encode()
    stored = zstandard.ZstdCompressor().compress(lines)
    key = f"sessions/s1/segments/{hashlib.sha256(stored).hexdigest()}.zst"
    (scene.store / key).write_bytes(stored)
    digest = f"sha256:{hashlib.sha256(lines).hexdigest()}"
    path = scene.store / terminal["checkpoint"]["manifest"]
    manifest = json.loads(path.read_text())
    count = len(entries)
    segment = {"key": key, "bytes": len(lines), "digest": digest, "stored_bytes": len(stored), "lines": count}
    chain = "sha256:" + hashlib.sha256(digest.encode() + b"\n").hexdigest()
    path.chmod(0o600)
    path.write_text(json.dumps({**manifest, "segments": [segment], "bytes": len(lines), "chain": chain}))
    head = scene.head()
    head["terminal"]["digest"] = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    body = json.loads(head["terminal"]["body"])
    body["checkpoint"]["digest"] = head["terminal"]["digest"]
    head["terminal"]["body"] = json.dumps(body)
    (scene.store / "pipelines" / "p1" / "head.json").write_text(json.dumps(head))


# --- the command --------------------------------------------------------------------------------------------


def test_until_stops_at_an_entry_and_compares_no_settlement(recorded: Recorded) -> None:
    scene, _, entries = recorded
    result = next(entry for entry in entries if entry.get("message", {}).get("role") == "toolResult")

    found = report(replay(scene, scene.head_address(), "--until", result["id"]))

    assert found["same"]
    assert (found["last_entry_id"], found["turns"], found["settlement"]) == (result["id"], 1, None)


def test_until_an_entry_that_is_not_there_is_a_wrong_command_line(recorded: Recorded) -> None:
    scene, _, _ = recorded

    run = replay(scene, scene.head_address(), "--until", "nowhere")

    assert run.exit == 64
    assert "there is no entry 'nowhere'" in run.stderr


@pytest.mark.parametrize(
    ("typed", "turns", "ending"),
    [(b"", 1, "where you ended it"), (b"\nq\n", 2, "where you ended it"), (b"\n\n", 2, "messages: same\n")],
)
def test_step_shows_a_turn_at_a_time_and_waits_for_a_line(
    typed: bytes, turns: int, ending: str, recorded: Recorded
) -> None:
    scene, _, _ = recorded
    (scene.folder / "typed").write_bytes(typed)

    with (scene.folder / "typed").open("rb") as lines:
        run = scene.command("replay", scene.head_address(), "--step", stdin=lines).finish()

    assert run.exit == 0, run.stderr
    assert run.output.count("--- turn") == turns
    assert "toolCall" not in run.output
    assert "echo -> result: hello" in run.output
    assert ending in run.output


def test_a_pipeline_that_stored_nothing_of_its_run_cannot_be_replayed_and_the_answer_says_why(
    local_scene: Scene,
) -> None:
    local_scene.run(local_scene.spec([text("x")], input=None))

    run = replay(local_scene, local_scene.head_address())

    assert run.exit == 78
    assert "nothing_to_do" in run.stderr
    assert "without a checkpoint of its own" in run.stderr


def test_a_damaged_segment_is_named_with_how_much_was_read(recorded: Recorded) -> None:
    scene, _, _ = recorded
    (segment,) = (scene.store / "sessions" / "s1" / "segments").glob("*.zst")
    segment.chmod(0o600)
    segment.write_bytes(segment.read_bytes()[:-9])

    run = replay(scene, scene.head_address())

    assert run.exit == 78
    assert segment.name in run.stderr
    assert "nothing was read before it" in run.stderr


def test_the_source_is_never_touched(recorded: Recorded) -> None:
    scene, _, _ = recorded

    def state() -> dict[str, tuple[int, bytes]]:
        files = sorted(path for path in scene.store.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    is_same(scene, scene.head_address())
    assert state() == before
