import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.worker.places import Places
from runner.tools.worker.serve import TOOLS, answer

PATHS = st.sampled_from([".", "a.txt", "folder", "pipe", "out", "new/x", "../x", "", "bin", "a.txt/x"])
TEXTS = st.text(st.sampled_from("a*[(?\\n\\0\ud800{é"), max_size=6)
NUMBERS = st.none() | st.integers(-5, 5) | st.floats() | st.sampled_from([1e300, 10**30])
ARGUMENTS = st.fixed_dictionaries(
    {"path": PATHS, "pattern": TEXTS, "content": TEXTS},
    optional={
        "offset": NUMBERS,
        "limit": NUMBERS,
        "context": NUMBERS,
        "glob": TEXTS.filter(bool),
        "edits": st.lists(st.fixed_dictionaries({"oldText": TEXTS, "newText": TEXTS}), max_size=2),
        "literal": st.booleans(),
    },
)


@given(tool=st.sampled_from(sorted(TOOLS)), args=ARGUMENTS)
def test_every_call_has_an_answer_that_is_json(
    tmp_path_factory: pytest.TempPathFactory, tool: str, args: dict[str, Any]
) -> None:
    root = tmp_path_factory.getbasetemp() / "serve"
    workspace = root / "workspace"
    if not workspace.exists():
        (workspace / "folder").mkdir(parents=True)
        (workspace / "a.txt").write_text("a\nb\n")
        (workspace / "bin").write_bytes(b"\0")
        os.mkfifo(workspace / "pipe")
        (workspace / "out").symlink_to("/etc")
    result = answer(Places(str(workspace)), {"id": 7, "tool": tool, "args": args, "seconds": 60})
    assert json.loads(json.dumps(result))["id"] == 7
    assert len({"result", "error"} & set(result)) == 1
    assert {path.name for path in root.iterdir()} == {"workspace"}


def test_a_tool_that_is_not_there_is_an_error() -> None:
    assert "error" in answer(Places("/"), {"id": 1, "tool": "rm", "args": {}, "seconds": 1})
