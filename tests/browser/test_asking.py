"""The story on the page: a task, its question, an answer, success; with several questions; forms; cancelling."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import Serve
from tests.browser.visit import Visit
from tests.e2e.scene import ask, calls, text
from tests.e2e.serving import Serving, waiting_call

ASKS = calls(ask(options=["staging", "production"], context="Staging is free right now."))
DONE = text("Deployed. All checks are green.", usage={"input": 2400, "output": 60, "cost": 0.0123})


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose tasks ask once, and are done then."""
    serving = Serving(tmp_path_factory.mktemp("asking") / "serve", [ASKS], [DONE]).start()
    yield serving
    serving.close()


@pytest.fixture
def waiting(asking: Serving, request: pytest.FixtureRequest) -> str:
    """A session of this test's own that waits for an answer."""
    session_id = request.node.name.replace("_", "-")[:60]
    asking.new_task(session_id)
    asking.wait_for_state(session_id, "WAITING_INPUT")
    return session_id


def test_a_task_is_started_asks_is_answered_and_succeeds(serve: Serve, visit: Callable[..., Visit]) -> None:
    person = visit(serve([ASKS], [DONE]))
    page = person.page
    expect(person.main.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    person.start_task("Deploy the project.")
    expect(person.main.get_by_role("heading", name="Deploy the project.", level=1)).to_be_visible()

    card = person.cards
    expect(card).to_contain_text("Staging or production?")
    expect(card).to_contain_text("Staging is free right now.")
    person.expect_state("Waiting for you")
    expect(page).to_have_title("(1) Pipeline runner")
    card.get_by_role("group", name="Suggested answers").get_by_role("button", name="staging").click()

    person.expect_state("Succeeded")
    expect(person.cards).to_have_count(0)
    expect(page).to_have_title("Pipeline runner")
    said = person.log.get_by_role("article")
    expect(said).to_have_count(4)
    expect(said.nth(2)).to_contain_text("staging")
    expect(said.nth(3)).to_contain_text("Deployed. All checks are green.")
    expect(person.sessions.first).to_contain_text("Succeeded")

    runs = page.get_by_role("region", name="Runs")
    latest = runs.get_by_role("listitem").first
    expect(latest).to_contain_text("Run 2")
    expect(latest).to_contain_text("Success")
    for phase in ("Queue", "Start", "Claim", "Restore", "Agent", "Upload", "Callback"):
        expect(latest.locator(".timeline")).to_contain_text(phase)
    expect(latest).to_contain_text("2.4 k in, 60 out")
    expect(latest).to_contain_text("$0.01")
    (second,) = [run for run in person.serving.session(session_of(person))["pipelines"] if run["usage"]["input"]]
    expect(latest).to_contain_text(second["checkpoint"]["digest"])
    expect(latest).to_contain_text("Committed, the session's restore point")


def session_of(person: Visit) -> str:
    return person.page.url.rpartition("/")[2]


def test_everything_goes_by_keyboard_alone(asking: Serving, visit: Callable[..., Visit]) -> None:
    person = visit(asking)
    page, keys = person.page, person.page.keyboard
    tab_to(person, page.get_by_role("link", name="Skip to the session"))
    tab_to(person, page.get_by_role("button", name="New task"))
    keys.press("Enter")
    dialog = page.get_by_role("dialog", name="New task")
    expect(dialog.get_by_label("What is to be done?")).to_be_focused()
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="New task")).to_be_focused()
    keys.press("Enter")
    keys.type("Deploy by keyboard.")
    keys.press("Enter")

    title = person.main.get_by_role("heading", name="Deploy by keyboard.")
    expect(title).to_be_focused()
    person.expect_state("Waiting for you")
    tab_to(person, person.cards.get_by_role("button", name="staging"))
    tab_to(person, person.cards.get_by_label("Or in your own words"))
    keys.type("staging,")
    keys.press("Shift+Enter")
    keys.type("then production")
    keys.press("Enter")
    expect(title).to_be_focused()
    person.expect_state("Succeeded")
    expect(person.log.get_by_role("article").nth(2)).to_contain_text("staging,\nthen production", use_inner_text=True)


def tab_to(person: Visit, target: Locator) -> None:
    """Every stop on the way can be seen."""
    for _ in range(25):
        person.page.keyboard.press("Tab")
        seen = person.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", person.page.evaluate("document.activeElement.outerHTML")
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{target} cannot be reached")


def test_questions_of_two_tasks_wait_and_each_is_answered(asking: Serving, visit: Callable[..., Visit]) -> None:
    for name in ("first", "second"):
        asking.new_task(f"two-{name}", f"Deploy the {name} one.")
    for name in ("first", "second"):
        asking.wait_for_state(f"two-{name}", "WAITING_INPUT")
    person = visit(asking, "/#/sessions/two-first")
    for name, answer, other in (("first", "staging", "second"), ("second", "production", "first")):
        expect(person.main.get_by_role("heading", level=1)).to_have_text(f"Deploy the {name} one.")
        person.cards.get_by_role("button", name=answer).click()
        person.expect_state("Succeeded")
        expect(person.log).to_contain_text(answer)
        person.sessions.filter(has_text=f"Deploy the {other} one.").click()
    person.expect_state("Succeeded")
    replies = [asking.session(f"two-{name}")["questions"][0]["reply"] for name in ("first", "second")]
    assert replies == ["staging", "production"]


def test_a_link_leads_to_the_next_task_that_waits(asking: Serving, waiting: str, visit: Callable[..., Visit]) -> None:
    asking.new_task("answered-already")
    asking.wait_for_state("answered-already", "WAITING_INPUT")
    person = visit(asking, "/#/sessions/answered-already")
    person.page.get_by_role("link", name="other task").click()
    expect(person.page).not_to_have_url(f"{asking.url}/#/sessions/answered-already")
    person.expect_state("Waiting for you")


def test_of_two_questions_in_one_task_the_first_answer_counts(serve: Serve, visit: Callable[..., Visit]) -> None:
    both = calls(ask("c1", "Where to?", options=["staging", "production"]), ask("c2", "When?"))
    serving = serve([both], [DONE])
    serving.new_task("s1")
    serving.wait_for_state("s1", "WAITING_INPUT")
    person = visit(serving)
    expect(person.cards).to_have_count(2)
    expect(person.page.get_by_role("region", name="Questions")).to_contain_text("the others are withdrawn")
    second = person.page.get_by_role("article", name="Question 2 of 2")
    second.get_by_label("Your answer").fill("now")
    second.get_by_role("button", name="Send").click()
    person.expect_state("Succeeded")
    expect(person.cards).to_have_count(0)
    asked = person.log.get_by_role("article").nth(1)
    expect(asked).to_contain_text("withdrawn")
    expect(asked).to_contain_text("answered")


def test_an_answer_to_a_pipeline_that_still_runs_is_kept(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([calls(ask(options=["staging", "production"]), waiting_call())], [DONE])
    gate = serving.gate("s1")
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    expect(person.cards).to_contain_text("still at work")
    person.cards.get_by_role("button", name="staging").click()
    expect(person.cards).to_contain_text("Your answer is kept: staging")
    expect(person.cards.get_by_role("button")).to_have_count(0)
    expect(person.log).to_contain_text("running")
    gate.open()
    person.expect_state("Succeeded")
    expect(person.cards).to_have_count(0)


def test_a_task_that_waits_is_cancelled_after_a_second_thought(
    asking: Serving, waiting: str, visit: Callable[..., Visit]
) -> None:
    person = visit(asking, f"/#/sessions/{waiting}")
    button = person.main.get_by_role("button", name="Cancel task")
    button.click()
    dialog = person.page.get_by_role("alertdialog", name="Cancel this task?")
    expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
    person.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    assert asking.state(waiting) == "WAITING_INPUT"

    button.click()
    dialog.get_by_role("button", name="Cancel the task").click()
    person.expect_state("Cancelled")
    expect(person.cards).to_have_count(0)
    expect(button).to_be_hidden()
    assert asking.state(waiting) == "CANCELLED"


def test_a_task_that_runs_is_cancelled_and_the_session_goes_on(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([calls(waiting_call())], [DONE])
    gate = serving.gate("s1")
    serving.new_task("s1")
    person = visit(serving, "/#/sessions/s1")
    gate.wait_until_reached()
    person.expect_state("Running")
    person.main.get_by_role("button", name="Cancel task").click()
    person.page.get_by_role("button", name="Cancel the task").click()
    person.expect_state("Cancelled")
    serving.wait_for_end("s1")
    box = person.main.get_by_label("Next task in this session")
    box.fill("Try it again.")
    box.press("Enter")
    person.expect_state("Succeeded")
    expect(person.log).to_contain_text("Try it again.")


def test_somebody_without_the_token_is_asked_for_it(asking: Serving, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(asking.url)
    page.get_by_label("Token").fill("a-guess-that-is-long-enough")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This is not the token of this server.")
    page.get_by_label("Token").fill(asking.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation")).to_be_visible()
    assert asking.token not in page.url
    context.close()


def test_what_is_not_there_is_said(asking: Serving, visit: Callable[..., Visit]) -> None:
    person = visit(asking)
    person.bears_outages = True  # a 404 is an error of the console, too
    person.open_session("nobody")
    expect(person.main.get_by_role("heading", name="There is no such session")).to_be_visible()
