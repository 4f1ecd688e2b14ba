"""What the process promises about its output, its files and its secrets."""

import json
from pathlib import Path

from checkpoint.session.indexer import SessionIndexer
from tests.e2e.scene import (
    OWN_TOOLS,
    SECRET,
    Json,
    Run,
    Scene,
    ask,
    at_once,
    call,
    calls,
    messages,
    restoring,
    stored_lines,
    text,
    texts,
)
from tests.fakes.callback_server import Answer, CallbackServer

CORPUS = Path(__file__).parents[1] / "corpus" / "session"


def test_the_last_line_is_the_settled_line_and_without_events_the_only_one(
    scene: Scene, server: CallbackServer
) -> None:
    run = scene.run(scene.spec([text("Done.")], labels={"owner": "web:7", "stream_id": "chat-é"}))

    (line,) = run.lines
    assert list(line) == ["type", "exit", "terminal", "error"]
    assert line["error"] is None
    terminal = run.terminal
    assert list(terminal) == [
        *("version", "type", "pipeline_id", "attempt", "session_id", "labels", "settlement", "questions", "checkpoint"),
        *("input_consumed", "undelivered", "warnings", "usage", "timings", "runner"),
    ]
    assert terminal["labels"] == {"owner": "web:7", "stream_id": "chat-é"}
    assert server.terminals[0].json() == terminal
    assert scene.head()["terminal"]["body"].encode() == server.terminals[0].body
    assert scene.head()["state"] == "acknowledged"


def test_events_are_json_lines_whose_deltas_add_up_to_the_messages(local_scene: Scene) -> None:
    said = {
        "type": "text",
        "text": "Let me look, “now” \N{PARTY POPPER}.",
        "deltas": ["Let me ", "look, “now” ", "\N{PARTY POPPER}."],
    }
    thought = {"type": "thinking", "thinking": "Hm. Well.", "deltas": ["Hm. ", "Well."]}
    spec = local_scene.spec([calls(thought, said, call("echo", text="hi")), text("Done.")], agent=OWN_TOOLS)

    run = local_scene.run(spec, "--events")

    kinds = [line["type"] for line in run.lines]
    assert [kind for kind in kinds if kind != "message_update"] == [
        *("agent_start", "turn_start"),
        *("message_start", "message_end") * 2,
        *("tool_execution_start", "tool_execution_end", "message_start", "message_end", "turn_end"),
        *("turn_start", "message_start", "message_end", "turn_end", "agent_end", "settled"),
    ]
    updates = [line["assistantMessageEvent"] for line in run.lines if line["type"] == "message_update"]
    first_answer = updates[: next(n for n, update in enumerate(updates) if update["type"] == "toolcall_end") + 1]

    def added_up(kind: str) -> str:
        return "".join(update["delta"] for update in first_answer if update["type"] == f"{kind}_delta")

    assert added_up("text") == said["text"]
    assert added_up("thinking") == thought["thinking"]
    assert json.loads(added_up("toolcall")) == {"text": "hi"}
    ended = [line["message"] for line in run.lines if line["type"] == "message_end"]
    whole = next(message for message in ended if message["role"] == "assistant")
    assert texts(whole) == said["text"]
    assert all("partial" not in update for update in updates)


def test_logs_are_json_lines_that_name_the_pipeline(local_scene: Scene) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    run = local_scene.run(local_scene.spec([text("Done.")], attempt=3, traceparent=trace))

    assert [log["event"] for log in run.logs] == ["claiming", "claim", "restored", "agent_ended", "uploaded", "settled"]
    for log in run.logs:
        assert (log["pipeline_id"], log["attempt"], log["session_id"]) == ("p1", 3, "s1")
        assert log["level"] == "info"
        assert log["timestamp"].endswith("Z")


def test_no_secret_is_in_the_output_the_store_or_the_callback_nor_left_in_the_environment(
    scene: Scene, server: CallbackServer
) -> None:
    values = {
        "CALLBACK_SECRET": server.secret,
        "AWS_ACCESS_KEY_ID": "AKIATHISISNOTREAL",
        "AWS_SECRET_ACCESS_KEY": "not-a-real-secret-key-0123456789",
        "AWS_SESSION_TOKEN": "not-a-real-session-token-0123456789",
    }
    by_env = scene.at("env", secret=None, environ=values)
    both = scene.at("both", environ={"CALLBACK_SECRET": SECRET})
    responses = [calls(call("secrets")), calls(ask())]

    def play(used: Scene) -> Run:
        name = used.folder.name
        return used.run(used.spec(responses, pipeline_id=name, session={"id": name}, agent=OWN_TOOLS), "--events")

    runs = at_once([lambda: play(by_env), lambda: play(both)])

    for used, run in zip((by_env, both), runs, strict=True):
        assert run.exit == 0, "of a file and a variable the file wins"
        result = next(line["result"] for line in run.lines if line["type"] == "tool_execution_end")
        assert texts(result) == "found: []"
        said = json.dumps(run.lines) + run.stderr
        requests = (*server.terminals, *server.questions)
        said += "".join(str(request.headers) + request.body.decode() for request in requests)
        said += "".join(path.read_bytes().decode("latin-1") for path in used.store.rglob("*") if path.is_file())
        said += stored_lines(used.store, run.terminal).decode()
        for value in values.values():
            assert value not in said
            assert value.removeprefix("whsec_") not in said
    assert "callback_try" in runs[0].stderr


def test_a_secret_that_a_server_sends_back_is_not_said_again(scene: Scene, server: CallbackServer) -> None:
    server.answer_terminals_with([Answer(409, problem=server.secret)])
    run = scene.run(scene.spec([text("Done.")]))
    assert run.exit == 76
    assert "problems.example/[secret callback_secret]" in run.error["message"]
    assert server.secret not in run.output + run.stderr


def test_the_written_session_is_read_strictly_and_goes_on_where_it_was(local_scene: Scene) -> None:
    png = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    blocks = [{"type": "text", "text": "What is this? \N{SNOWMAN}"}, png]
    responses = [calls(call("large", bytes=30_000)), text("A picture.")]
    first = local_scene.run(local_scene.spec(responses, agent=OWN_TOOLS, input={"message": blocks})).terminal

    run = local_scene.run(local_scene.spec([text("Again.")], pipeline_id="p2", session=restoring(first)))

    before, after = stored_lines(local_scene.store, first), stored_lines(local_scene.store, run.terminal)
    assert after.startswith(before), "a session line is never rewritten"
    indexer = SessionIndexer("fail")
    indexer.feed(after)
    index = indexer.finish()
    assert index.warnings == []
    assert (index.entries, index.keep_bytes, index.leaf_id) == (
        run.checkpoint["entries"],
        run.checkpoint["bytes"],
        run.checkpoint["leaf_id"],
    )
    user = messages(local_scene.entries(run.terminal), "user")[0]
    assert user["content"] == blocks
    assert run.checkpoint["parent"] == first["checkpoint"]["digest"]
    header = json.loads(after.splitlines()[0])
    assert (header["type"], header["version"]) == ("session", 3)


RESTORED = [
    "linear-chat-1",
    "system-messages-1",
    "system-compaction-1",
    "compaction-multi-1",
    "tool-images-1",
    "unicode-1",
]
OLD = ["v1-linear-1", "v1-compaction-1", "v2-hook-1", "v2-hook-2"]
TORN = "v2-hook-2"


def source_of(name: str) -> bytes:
    content = (CORPUS / f"{name}.jsonl").read_bytes()
    return content + b'{"type":"message","id":"torn' if name == TORN else content


def test_sessions_that_pi_wrote_are_restored_and_go_on(tmp_path: Path) -> None:
    """Of both Pi versions; those of format 1 and 2 are migrated, and their source is left as it was."""
    scenes = {name: Scene(tmp_path).at(name) for name in (*RESTORED, *OLD)}
    for name, scene in scenes.items():
        scene.store.mkdir()
        (scene.store / "old.jsonl").write_bytes(source_of(name))
    session = {"id": "s1", "restore": {"jsonl": "old.jsonl"}}
    runs = at_once([lambda s=scene: s.run(s.spec([text("Going on.")], session=session)) for scene in scenes.values()])

    for (name, scene), run in zip(scenes.items(), runs, strict=True):
        assert run.exit == 0, (name, run.stderr)
        assert run.settlement["text"] == "Going on.", name
        source = source_of(name)
        assert (scene.store / "old.jsonl").read_bytes() == source, "the source is untouched"
        lines = stored_lines(scene.store, run.terminal)
        assert json.loads(lines.splitlines()[0])["version"] == 3
        assert texts(messages(scene.entries(run.terminal), "assistant")[-1]) == "Going on."
        if name in RESTORED:
            assert lines.startswith(source), "what Pi wrote is stored as it was"
    torn = dict(zip(scenes, runs, strict=True))[TORN]
    assert any("cut" in warning for warning in torn.terminal["warnings"])

    # A migrated session is stored whole once: the next checkpoint adds its own lines only.
    old = scenes["v1-compaction-1"]
    first = dict(zip(scenes, runs, strict=True))["v1-compaction-1"].terminal
    second = old.run(old.spec([text("And on.")], pipeline_id="p2", session=restoring(first))).terminal

    def segments(terminal: Json) -> list[str]:
        manifest = json.loads((old.store / terminal["checkpoint"]["manifest"]).read_text())
        return [segment["key"] for segment in manifest["segments"]]

    assert segments(second)[:-1] == segments(first)


def test_a_compressed_session_is_recognised_by_its_content(tmp_path: Path) -> None:
    import zstandard

    scene = Scene(tmp_path).at("packed")
    scene.store.mkdir()
    source = source_of("system-messages-1")
    (scene.store / "old.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(source))

    run = scene.run(scene.spec([text("Yes.")], session={"id": "s1", "restore": {"jsonl": "old.jsonl.zst"}}))

    assert run.settlement["text"] == "Yes."
    assert stored_lines(scene.store, run.terminal).startswith(source)


def test_check_finds_a_good_launch_fine_and_touches_nothing(local_scene: Scene) -> None:
    spec = local_scene.spec([text("never said")])
    (local_scene.folder / "spec.json").write_text(json.dumps(spec))
    before = sorted(path.name for path in local_scene.folder.iterdir())

    run = local_scene.command("check", "spec.json").finish()

    assert (run.exit, run.stderr) == (0, "")
    assert run.output == "runner: the launch of pipeline p1 is fine\n"
    assert sorted(path.name for path in local_scene.folder.iterdir()) == [*before[:1], "secrets", *before[1:]]
