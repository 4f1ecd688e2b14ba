"""What people are told when things go otherwise: a failure, an answer that nobody heard, a run that is still alive."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Serve
from tests.browser.visit import Visit
from tests.e2e.scene import ask, calls, text
from tests.e2e.serving import waiting_call

BEATS = {"heartbeat_path": "/v1/heartbeats", "heartbeat_s": 1}


def test_a_failure_says_why_and_whether_to_try_again(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([text("Half of a sen", stopReason="length")])
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    person.expect_state("Failed")
    expect(person.main.locator(".head")).to_contain_text("output truncated")
    expect(person.log).to_contain_text("Cut off: the model's limit was reached.")
    run = person.page.get_by_role("region", name="Runs").get_by_role("listitem").first
    expect(run).to_contain_text("Failure")
    expect(run).to_contain_text("Trying again would not help. The session can go on.")
    failure = serving.session("s1")["pipelines"][0]["settlement"]
    expect(run).to_contain_text(failure["message"])


def test_a_running_run_tells_how_far_it_is_and_a_lost_answer_is_told(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([calls(ask(), waiting_call())], server=BEATS)
    gate = serving.gate("s1")
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    gate.wait_until_reached()
    run = person.page.get_by_role("region", name="Runs").get_by_role("listitem").first
    expect(run).to_contain_text("Last heard of: agent, 0 turns finished")
    person.cards.get_by_label("Your answer").fill("neither of them")
    person.cards.get_by_role("button", name="Send").click()
    expect(person.cards).to_contain_text("Your answer is kept: neither of them")
    person.main.get_by_role("button", name="Cancel task").click()
    person.page.get_by_role("button", name="Cancel the task").click()
    person.expect_state("Cancelled")
    notice = person.main.get_by_role("note")
    expect(notice).to_contain_text("did not reach the agent")
    expect(notice).to_contain_text("neither of them")
    expect(run.get_by_text("Last heard of")).to_be_hidden()
