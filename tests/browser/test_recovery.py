"""The page outlives reloads and the server's death, shows what is being said, and keeps what a person was doing."""

import os
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Serve
from tests.browser.visit import Visit
from tests.e2e.scene import ask, calls, text
from tests.e2e.serving import waiting_call

DONE = text("Deployed. All checks are green.")


def test_reload_and_restart_between_question_and_answer(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([calls(ask(options=["staging", "production"]))], [DONE])
    serving.new_task("s1")
    serving.wait_for_state("s1", "WAITING_INPUT")
    person = visit(serving)
    person.bears_outages = True
    person.cards.get_by_label("Or in your own words").fill("to staging, please")
    person.page.reload()
    box = person.cards.get_by_label("Or in your own words")
    expect(box).to_have_value("to staging, please")

    serving.kill()
    line = person.page.get_by_role("banner").get_by_role("status")
    expect(line).to_have_text("Connecting again…")
    box.focus()
    box.press("Enter")
    expect(person.cards.get_by_role("alert")).to_contain_text("The server does not answer")
    serving.start()
    expect(line).to_have_text("Live")
    expect(box).to_be_focused()
    expect(box).to_have_value("to staging, please")
    box.press("Enter")
    person.expect_state("Succeeded")
    expect(person.log.get_by_role("article").nth(2)).to_contain_text("to staging, please")
    assert [question["reply"] for question in serving.session("s1")["questions"]] == ["to staging, please"]


def test_a_server_that_dies_under_a_running_pipeline_leaves_no_gap_and_nothing_twice(
    serve: Serve, visit: Callable[..., Visit]
) -> None:
    works = {"content": [{"type": "text", "text": "I look around."}, waiting_call()]}
    serving = serve([works, DONE])
    gate = serving.gate("s1")
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    person.bears_outages = True
    expect(person.log).to_contain_text("I look around.")
    end = gate.wait_until_reached()
    serving.kill()
    expect(person.page.get_by_role("banner").get_by_role("status")).to_have_text("Connecting again…")
    serving.start()
    expect(person.page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
    os.close(end)
    person.expect_state("Succeeded")
    said = person.log.get_by_role("article")
    expect(said).to_have_count(3)
    expect(said.nth(1)).to_contain_text("done")
    expect(said.nth(2)).to_contain_text("Deployed.")
    person.page.reload()
    expect(said).to_have_count(3)


def test_words_are_shown_while_they_are_said_also_to_who_comes_later(serve: Serve, visit: Callable[..., Visit]) -> None:
    said = {"type": "text", "text": "The first part, and then", "deltas": ["The first part, ", "and then"]}
    hesitates = {"type": "text", "text": "never said", "delay_ms": 60_000}
    serving = serve([{"content": [said, hesitates]}])
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    writing = person.main.get_by_role("article", name="Agent, writing")
    expect(writing).to_contain_text("The first part, and then")
    person.page.reload()
    expect(writing).to_contain_text("The first part, and then")
    expect(person.log.get_by_role("article")).to_have_count(1)
    person.main.get_by_role("button", name="Cancel task").click()
    person.page.get_by_role("button", name="Cancel the task").click()
    expect(writing).to_have_count(0)
    expect(person.log.get_by_role("article").nth(1)).to_contain_text("Stopped before it was complete.")


def test_what_a_person_does_is_not_disturbed_by_what_happens(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([calls(ask("c1", "What to call it?"), waiting_call("c2"))])
    gate = serving.gate("s1")
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    person.log.get_by_text("bash").click()
    box = person.cards.get_by_label("Your answer")
    box.press_sequentially("half an ans")
    end = gate.wait_until_reached()
    os.write(end, b"what the tool said")
    os.close(end)
    person.expect_state("Waiting for you")
    expect(person.log.get_by_text("what the tool said")).to_be_visible()
    expect(box).to_be_focused()
    expect(box).to_have_value("half an ans")
