"""A question with a form: each kind of field, what is required, and what no field fits."""

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import Serve
from tests.browser.visit import Visit
from tests.e2e.scene import call, calls, text

FORM: dict[str, Any] = {
    "type": "object",
    "title": "Release",
    "required": ["version", "channel", "regions"],
    "properties": {
        "version": {"type": "string", "description": "As in the changelog.", "minLength": 3},
        "channel": {"enum": ["stable", "beta"]},
        "regions": {"type": "array", "items": {"$ref": "#/$defs/region"}, "minItems": 1},
        "percent": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "title": "Rollout in percent"},
        "factor": {"type": "number"},
        "notify": {"type": "boolean", "title": "Tell the customers"},
        "month": {"enum": ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul"]},
        "hosts": {"type": "array", "items": {"type": "string"}},
        "contact": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "mail": {"type": "string", "format": "email"}},
        },
        "more": {"type": "object", "title": "Anything else"},
    },
    "$defs": {"region": {"enum": ["eu", "us", "asia"]}},
}
DONE = text("Thanks.")


def asks_form(form: object) -> list[dict[str, object]]:
    return [calls(call("collect_form_input", component_dsl_schema=form))]


def test_a_form_is_filled_in_checked_and_sent(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve(asks_form(FORM), [DONE])
    serving.new_task("s1")
    serving.wait_for_state("s1", "WAITING_INPUT")
    card = visit(serving).cards
    version, send = card.get_by_label("Version"), card.get_by_role("button", name="Send")
    expect(version).to_have_accessible_description("As in the changelog.")
    send.click()
    expect(version).to_be_focused()
    expect(version).to_have_attribute("aria-invalid", "true")
    expect(card.get_by_role("alert")).to_contain_text("missing or wrong")

    version.fill("1.2.0")
    send.click()
    stable = card.get_by_role("radiogroup", name="Channel").get_by_role("radio", name="stable")
    expect(stable).to_be_focused()
    stable.press("Space")
    send.click()
    regions = card.get_by_role("group", name="Regions")
    expect(regions).to_contain_text("Choose at least 1.")
    regions.get_by_role("checkbox", name="eu").check()
    regions.get_by_role("checkbox", name="asia").check()
    card.get_by_role("spinbutton", name="Rollout in percent").fill("25")
    card.get_by_role("spinbutton", name="Factor").fill("0.5")
    card.get_by_role("checkbox", name="Tell the customers").check()
    card.get_by_role("combobox", name="Month").select_option("Mar")
    card.get_by_label("Hosts").fill("a.example\nb.example")
    contact = card.get_by_role("group", name="Contact")
    contact.get_by_label("Mail").fill("not a mail")
    contact.get_by_label("Name").fill("Ann")
    anything = card.get_by_label("Anything else (as JSON)")
    anything.fill("{oops")
    send.click()
    expect(contact.get_by_label("Mail")).to_be_focused()
    contact.get_by_label("Mail").fill("ann@example.org")
    send.click()
    expect(anything).to_be_focused()
    expect(anything).to_have_accessible_description(re.compile("This is not JSON"))
    anything.fill('{"deep": [1, 2]}')
    send.press("Enter")

    serving.wait_for_state("s1", "SUCCEEDED")
    reply = json.loads(serving.session("s1")["questions"][0]["reply"])
    assert reply == {
        "version": "1.2.0",
        "channel": "stable",
        "regions": ["eu", "asia"],
        "percent": 25,
        "factor": 0.5,
        "notify": True,
        "month": "Mar",
        "hosts": ["a.example", "b.example"],
        "contact": {"name": "Ann", "mail": "ann@example.org"},
        "more": {"deep": [1, 2]},
    }


def test_what_may_be_left_out_is_and_an_unknown_form_is_answered_as_json(
    serve: Serve, visit: Callable[..., Visit]
) -> None:
    """One task with a form of optional fields, then one in a form language that the page does not know."""
    optional = {name: value for name, value in FORM.items() if name != "required"}
    serving = serve(asks_form(optional), asks_form([{"component": "slider", "max": 5}]), [DONE])
    serving.new_task("s1")
    serving.wait_for_state("s1", "WAITING_INPUT")
    person = visit(serving)
    person.cards.get_by_role("button", name="Send").click()
    unknown = person.cards.get_by_label("Your answer as JSON")
    unknown.fill("3")
    expect(person.cards).to_contain_text('"component": "slider"')
    person.cards.get_by_role("button", name="Send").click()
    person.expect_state("Succeeded")
    expect(person.log).to_contain_text("percent")
    replies = [json.loads(question["reply"]) for question in serving.session("s1")["questions"]]
    assert replies == [{"percent": 10, "notify": False}, 3]
