"""The code in docs/callbacks.md runs, and does what the page says."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from settlement import callback, question
from settlement.reasons import FAILURE_RULES
from settlement.signing import webhook_headers
from tests.unit.settlement.samples import ASK_USER, SECRET, SECRETS, a_question, a_terminal, asked

PAGE = Path(__file__).parents[3] / "docs" / "callbacks.md"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page's code defines."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def signed(webhook_id: str, body: bytes) -> dict[str, str]:
    return webhook_headers(SECRETS, webhook_id, int(time.time()), body)


def test_the_library_accepts_what_the_runner_signs(page: dict[str, Any]):
    body = callback.to_body(a_terminal())
    headers = signed("term_p1", body)
    assert page["is_genuine"](SECRET, headers, body)
    assert not page["is_genuine"](SECRET, headers, body + b" ")


def test_the_server_of_the_page_shows_waits_and_commits(page: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    server = page["Server"](SECRET)
    server.launched("p1", "s1")
    for call_id in ("call-1", "call-2", "call-1"):
        asking = a_question(tool_call_id=call_id)
        body = question.to_body(asking)
        assert server.question(signed(asking.question_id, body), body) == (200, b"")
    assert capsys.readouterr().out.count("show:") == 2

    body = callback.to_body(a_terminal(settlement=ASK_USER, questions=asked("call-1")))
    assert server.terminal(signed("term_p1", body), body) == (200, b"")
    assert server.terminal(signed("term_p1", body), body) == (200, b"")
    assert capsys.readouterr().out.count("withdraw:") == 1
    assert server.restore_points["s1"].manifest == "sessions/s1/checkpoints/p1.json"


def test_the_server_of_the_page_refuses_what_it_should(page: dict[str, Any]):
    server = page["Server"](SECRET)
    body = callback.to_body(a_terminal())
    assert server.terminal({}, body)[0] == 401
    assert server.terminal(signed("term_p1", body), body)[0] == 404
    asking = question.to_body(a_question())
    assert server.question(signed(a_question().question_id, asking), asking)[0] == 404

    server.launched("p1", "s1")
    server.launched("p2", "s1")
    assert server.terminal(signed("term_p1", body), body)[0] == 200
    late = callback.to_body(a_terminal(pipeline_id="p2"))
    assert server.terminal(signed("term_p2", late), late)[0] == 409
    assert server.terminal(signed("term_p2", late), late)[0] == 409
    other = callback.to_body(a_terminal(warnings=("other",)))
    assert server.terminal(signed("term_p1", other), other)[0] == 422


def test_every_reason_of_a_failure_is_in_the_table():
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| .* \| (yes|no|`lost` only) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    told = {
        reason: verdict == "yes" or verdict == f"`{reason}` only"
        for reasons, verdict in rows
        for reason in re.findall(r"\w+", reasons)
    }
    assert told == {reason: rule.retryable for reason, rule in FAILURE_RULES.items()}
