"""The loopback server that other tests rely on."""

import threading
import time

import httpx
import pytest

from settlement import callback, question
from settlement.commit_rule import Owed, Reply, RestorePoint
from settlement.signing import webhook_headers
from tests.fakes.callback_server import QUESTIONS_PATH, TERMINALS_PATH, Answer, CallbackServer
from tests.unit.settlement.samples import ASK_USER, SECRETS, a_question, a_terminal, asked, digest_of


def send(server: CallbackServer, path: str, webhook_id: str, body: bytes, timeout_s: float = 5) -> httpx.Response:
    headers = webhook_headers(SECRETS, webhook_id, int(time.time()), body)
    with httpx.Client(trust_env=False, timeout=timeout_s) as client:
        return client.post(server.base_url + path, content=body, headers=headers)


def send_question(server: CallbackServer, call_id: str = "call-1") -> int:
    asking = a_question(tool_call_id=call_id)
    return send(server, QUESTIONS_PATH, asking.question_id, question.to_body(asking)).status_code


def send_terminal(server: CallbackServer, timeout_s: float = 5, **terminal: object) -> int:
    sample = a_terminal(**terminal)
    webhook_id = callback.webhook_id(sample.pipeline_id)
    return send(server, TERMINALS_PATH, webhook_id, callback.to_body(sample), timeout_s).status_code


def test_it_takes_questions_and_commits_terminals():
    with CallbackServer() as server:
        assert send_question(server) == send_question(server) == send_question(server, "call-2") == 200
        assert len(server.questions) == 3
        assert [card.tool_call_id for card in server.cards] == ["call-1", "call-2"]
        assert send_terminal(server, settlement=ASK_USER, questions=asked("call-1")) == 200
        assert server.owed("p1") == Owed(
            wait_for=(asked("call-1")[0].question_id,), withdraw=(asked("call-2")[0].question_id,)
        )
        point = server.restore_point("s1")
        assert point is not None
        assert point.digest == digest_of("p1")


def test_it_keeps_replies():
    with CallbackServer() as server:
        send_question(server)
        [asking] = server.cards
        assert server.reply(asking.question_id, "staging")
        assert not server.reply(asking.question_id, "production", "reply-2")
        send_terminal(server, settlement=ASK_USER, questions=asked("call-1"))
        assert server.owed("p1").launch == Reply("reply-1", asking.question_id, "staging")


def test_it_refuses_by_the_rules():
    with CallbackServer() as server:
        server.set_restore_point("s1", RestorePoint(digest_of("elsewhere")))
        server.launched("p1", "s1", attempt=3)
        assert send_question(server) == 409
        assert send_terminal(server) == 409
        assert server.committed == []
        assert [request.status for request in server.terminals] == [409]


def test_it_misbehaves_as_told_and_then_behaves():
    with CallbackServer() as server:
        server.answer_terminals_with([503, None, Answer(410)])
        assert [send_terminal(server) for _ in range(4)] == [503, 200, 410, 200]
        assert len(server.committed) == 1


def test_it_can_hang_and_lets_go_when_it_closes():
    with CallbackServer() as server:
        server.answer_terminals_with([Answer(hang=True)])
        with pytest.raises(httpx.ReadTimeout):
            send_terminal(server, timeout_s=0.2)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 5
    assert [request.status for request in server.terminals] == [None]


def test_it_can_lose_the_answer_after_its_work_is_done():
    with CallbackServer() as server:
        server.answer_terminals_with([Answer(cut=True, consumed=True)])
        with pytest.raises(httpx.RemoteProtocolError):
            send_terminal(server)
        assert len(server.committed) == 1


def test_it_can_be_waited_for():
    with CallbackServer() as server:
        sender = threading.Thread(target=send_question, args=(server,))
        sender.start()
        assert len(server.wait_for_questions(1)) == 1
        sender.join(5)
        with pytest.raises(AssertionError, match="0 requests"):
            server.wait_for_terminals(1, timeout_s=0.01)
