"""Sessions that cannot be restored as they are: what the pipeline settles, and what it says about it."""

import hashlib
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Json, Run, Scene, at_once, messages, restoring, text

HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}


def line(entry_id: str, parent: str | None, role: str, words: str) -> str:
    message: Json = {"role": role, "content": [{"type": "text", "text": words}], "timestamp": 0}
    if role == "assistant":
        usage = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0)
        cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
        message |= {"stopReason": "stop", "api": "x", "provider": "x", "model": "x", "usage": {**usage, "cost": cost}}
    entry = {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": HEADER["timestamp"],
        "message": message,
    }
    return json.dumps(entry, separators=(",", ":"))


GOOD = (
    "\n".join([json.dumps(HEADER), line("a1", None, "user", "Is it green?"), line("a2", "a1", "assistant", "Yes.")])
    + "\n"
)
DAMAGED = GOOD.replace('{"type":"message","id":"a1"', '{"type":"mess', 1)


def plain(source: str = "old.jsonl", **restore: Any) -> Json:
    return {"id": "s1", "restore": {"jsonl": source, **restore}}


def with_session(scene: Scene, content: str) -> Scene:
    scene.store.mkdir()
    (scene.store / "old.jsonl").write_text(content)
    return scene


CASES: dict[str, tuple[str | None, Json, str]] = {
    "is missing": (None, plain(), r"old.jsonl does not exist. Check `session.restore`"),
    "is a local file that is missing": (
        None,
        plain("file:///nowhere/old.jsonl"),
        "file:///nowhere/old.jsonl does not exist",
    ),
    "has another digest": (GOOD, plain(digest="sha256:" + "0" * 64), "old.jsonl is not the object with sha256:0000"),
    "is damaged in the middle": (DAMAGED, plain(), "session log, line 2"),
    "is no session": ('{"hello": "world"}\n', plain(), "session log, line 1"),
    "is empty": ("", plain(), "session log"),
    "is a missing manifest": (
        GOOD,
        {"id": "s1", "restore": {"manifest": "sessions/s1/checkpoints/x.json", "digest": "sha256:" + "0" * 64}},
        "checkpoints/x.json does not exist",
    ),
    "is no manifest": (
        GOOD,
        {
            "id": "s1",
            "restore": {"manifest": "old.jsonl", "digest": "sha256:" + hashlib.sha256(GOOD.encode()).hexdigest()},
        },
        "old.jsonl",
    ),
    "lies where the store can have nothing": (GOOD, plain("old.jsonl/inner.jsonl"), "old.jsonl/inner.jsonl"),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Scene, Run]]:
    folder = tmp_path_factory.mktemp("restore")
    scenes = [Scene(folder).at(f"case{number}") for number, _ in enumerate(CASES)]

    def launch(scene: Scene, content: str | None, session: Json) -> Callable[[], Run]:
        with_session(scene, content) if content is not None else None
        return lambda: scene.run(scene.spec([text("never said")], session=session))

    starts = [
        launch(scene, content, session) for scene, (content, session, _) in zip(scenes, CASES.values(), strict=True)
    ]
    return dict(zip(CASES, zip(scenes, at_once(starts), strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_pipeline_fails_as_restore_failed_when_the_restore_object(
    name: str, failed: dict[str, tuple[Scene, Run]]
) -> None:
    scene, run = failed[name]
    assert run.exit == 0
    assert run.settlement["kind"] == "failure"
    assert run.settlement["reason"] == "restore_failed"
    assert CASES[name][2] in run.settlement["message"]
    assert run.settlement["message"].endswith("launch with a restore point that exists and is intact")
    assert not run.settlement["resumable"]
    assert run.checkpoint["decision"] == "keep_previous"
    assert run.terminal["usage"]["requests"] == 0
    assert scene.head()["state"] == "terminal"


def test_a_torn_tail_is_cut_with_a_warning_that_reaches_the_callback(scene: Scene) -> None:
    with_session(scene, GOOD + line("a3", "a2", "user", "And no")[:60])

    run = scene.run(scene.spec([text("Went on.")], session=plain()))

    assert run.settlement["kind"] == "success"
    (warning,) = run.terminal["warnings"]
    assert "line 4" in warning
    said = [message["content"][0]["text"] for message in messages(scene.entries(run.terminal))]
    assert said == ["Is it green?", "Yes.", "Deploy the project.", "Went on."]


def test_damage_is_read_around_when_the_launch_says_so(local_scene: Scene) -> None:
    with_session(local_scene, GOOD.replace('{"type":"message","id":"a1"', '{"type":"mess'))

    run = local_scene.run(local_scene.spec([text("Went on.")], session={**plain(), "on_damage": "skip"}))

    assert run.settlement["kind"] == "success"
    assert any("line 2" in warning for warning in run.terminal["warnings"])


def test_a_session_that_does_not_fit_on_the_disk_is_persistence_failed(local_scene: Scene) -> None:
    """Restored and new alike: the disk has room for the head record, not for the log."""
    large = with_session(
        local_scene.at("large"), GOOD + "\n".join(line("b1", "a2", "user", "x" * 50_000).splitlines()) + "\n"
    )
    limit = 20_000

    run = large.run(
        large.spec([text("never said")], session=plain()),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )

    assert run.exit == 0
    assert run.settlement["reason"] == "persistence_failed"
    assert run.settlement["retryable"]
    assert run.checkpoint["decision"] == "keep_previous"


def test_a_segment_that_was_changed_in_the_store_is_restore_failed_and_the_record_keeps_its_parent(
    local_scene: Scene,
) -> None:
    first = local_scene.run(local_scene.spec([text("Done.")])).terminal
    manifest = json.loads((local_scene.store / first["checkpoint"]["manifest"]).read_text())
    segment: Path = local_scene.store / manifest["segments"][0]["key"]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(bytes(content))

    run = local_scene.run(local_scene.spec([text("never said")], pipeline_id="p2", session=restoring(first)))

    assert run.settlement["reason"] == "restore_failed"
    assert manifest["segments"][0]["key"] in run.settlement["message"]
    assert run.checkpoint["parent"] == first["checkpoint"]["digest"]
