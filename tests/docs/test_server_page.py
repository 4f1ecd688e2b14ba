"""The example in docs/server.md runs against a real server, and prints what the page says."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.serving import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
FILES = re.findall(r"<!-- file: (.+?) -->\n```json\n(.*?)```", PAGE, re.S)
CODE = re.findall(r"<!-- checked -->\n```python\n(.*?)```", PAGE, re.S)
SHOWN = re.findall(r"It prints\n\n```text\n(.*?)```", PAGE, re.S)


def test_the_example_prints_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {name for name, _ in FILES} == {"template.json", "story-1.json", "story-2.json"}
    serving = Serving(tmp_path / "serve")
    for name, content in FILES:
        (serving.folder / name).write_text(content)
    serving.start()
    clients: list[httpx.Client] = []

    def wait_for_state(client: httpx.Client, session_id: str, state: str) -> Any:
        clients.append(client)
        return serving.wait_for_state(session_id, state, "FAILED")

    try:
        names = {"folder": serving.folder, "url": serving.url, "httpx": httpx, "wait_for_state": wait_for_state}
        exec(compile(CODE[0], "docs/server.md", "exec"), names)
    finally:
        serving.close()
        for client in clients:
            client.close()
    assert capsys.readouterr().out == SHOWN[0]
