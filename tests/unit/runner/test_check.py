import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.check import launch_problems, overlap_problems
from runner.launch import Launch, parse_spec
from runner.secrets import Secrets

SECRET = "whsec_" + b64encode(b"x" * 24).decode()


class Folder:
    """A launch's folder with a script in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "script.json").write_text('{"responses": []}')
        (root / "secrets").mkdir()

    def problems(self, secret: str | None = SECRET, **changes: Any) -> list[str]:
        spec = {
            "version": 1,
            "pipeline_id": "p1",
            "session": {"id": "s1"},
            "store": {"uri": "store"},
            "agent": {"model": {"api": "scripted", "script": "script.json"}},
            "server": {"base_url": "https://example.com"},
            **changes,
        }
        launch = Launch(parse_spec(json.dumps(spec).encode(), "spec"), self.root, self.root / "spec.json")
        return launch_problems(launch, Secrets({"callback_secret": secret} if secret else {}), self.root / "secrets")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def restore(**point: Any) -> dict[str, Any]:
    return {"session": {"id": "s1", "restore": point}}


def agent(**fields: Any) -> dict[str, Any]:
    return {"agent": {"model": {"api": "scripted", "script": "script.json"}, **fields}}


def test_a_good_launch_has_no_problem_and_checking_leaves_no_trace(folder: Folder) -> None:
    before = sorted(folder.root.rglob("*"))
    assert folder.problems() == []
    assert sorted(folder.root.rglob("*")) == before


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"secret": None}, "secret `callback_secret` is missing"),
        ({"secret": "12345678"}, "secret `callback_secret`: "),
        ({"store": {"uri": "s3://"}}, "store.uri: "),
        ({"store": {"uri": "file://host/x"}}, "store.uri: "),
        ({"store": {"uri": "file:///a%00b"}}, "store.uri: the path holds a NUL character"),
        ({"store": {"uri": "http://[x"}}, "store.uri: "),
        ({"store": {"uri": "script.json"}}, "script.json is no folder"),
        ({"store": {"uri": "s3://b", "endpoint_url": "minio:9000"}}, "store.endpoint_url: must be an http"),
        ({"store": {"uri": "s3://b", "endpoint_url": "http://me:pass@h"}}, "store.endpoint_url: must not hold a user"),
        ({"store": {"uri": "s3://b", "endpoint_url": "http://h:99999"}}, "store.endpoint_url: not an address"),
        (restore(manifest="../x", digest=DIGEST), "session.restore.manifest: "),
        (restore(jsonl="a//b"), "session.restore.jsonl: "),
        (restore(jsonl="s3://bucket"), "session.restore.jsonl: "),
        (restore(jsonl="gs://bucket/x"), "session.restore.jsonl: gs:// is no kind of store"),
        (restore(jsonl="file:///a%00b"), "session.restore.jsonl: the path holds a NUL character"),
        (agent(tools=["ask_user", "bsah"]), "agent.tools[1]: there is no tool 'bsah'"),
        (agent(tools=["a.b:c d"]), "agent.tools[0]: 'a.b:c d' must be `module:object`"),
        (agent(ask_tools=["mine", "bash"]), "agent.ask_tools[1]: 'bash' cannot ask: "),
        (agent(ask_tools=["a:b"]), "agent.ask_tools[0]: 'a:b' must be a plain tool name"),
        (agent(model={"api": "scripted", "script": "none.json"}), "agent.model.script: "),
        ({"workspace": "script.json"}, "workspace"),
        ({"workspace": "."}, "overlaps the launch spec"),
        ({"workspace": "store"}, "overlaps the store"),
        ({"workspace": "secrets/inner"}, "overlaps the secrets directory"),
        ({"workspace": "/tmp"}, "overlaps the session log"),
        ({"workspace": str(Path(__file__).parents[3])}, "overlaps the program"),
        ({"workspace": "/"}, "overlaps the"),
    ],
)
def test_a_problem_is_named_with_its_place(folder: Folder, changes: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in folder.problems(**changes))


@pytest.mark.parametrize(
    "point",
    [
        {"manifest": "sessions/s1/checkpoints/p.1.c.json", "digest": DIGEST},
        {"jsonl": "old/session.jsonl"},
        {"jsonl": "s3://bucket/old.jsonl"},
        {"jsonl": "file:///var/old.jsonl"},
    ],
)
def test_whether_a_restore_point_exists_is_not_looked_at(folder: Folder, point: dict[str, Any]) -> None:
    assert folder.problems(**restore(**point)) == []


def test_links_are_followed_before_places_are_compared(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")
    (tmp_path / "loop").symlink_to("loop")
    store = [("store", tmp_path / "store")]

    assert overlap_problems(tmp_path / "beside", store) == []
    assert len(overlap_problems(tmp_path / "link" / "inner", store)) == 1
    assert "leads nowhere" in overlap_problems(tmp_path / "loop", store)[0]
    assert "leads nowhere" in overlap_problems(tmp_path / "beside", [("store", tmp_path / "loop")])[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(min_size=1, max_size=12) | st.sampled_from(["x" * 300, "a/" * 3000, "s3://b/x", "file:///x", "://", "~"])
)
def test_any_text_as_an_address_or_path_is_judged_and_never_a_crash(folder: Folder, text: str) -> None:
    places: list[dict[str, Any]] = [
        {"store": {"uri": text}},
        {"workspace": text},
        restore(jsonl=text),
        agent(tools=[text]),
        agent(model={"api": "scripted", "script": text}),
    ]
    for changes in places:
        assert all(problem and isinstance(problem, str) for problem in folder.problems(**changes))
