"""The page as eyes and screen readers get it: roles and names, light and dark, narrow, without motion."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.visit import Visit
from tests.e2e.scene import ask, calls
from tests.e2e.serving import Serving


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    asks = {
        "content": [{"type": "text", "text": "Let me ask."}, *calls(ask(options=["staging", "production"]))["content"]]
    }
    serving = Serving(tmp_path_factory.mktemp("looks") / "serve", [asks]).start()
    serving.new_task("s1")
    serving.wait_for_state("s1", "WAITING_INPUT")
    yield serving
    serving.close()


def test_a_screen_reader_finds_everything_by_role_and_name(waiting: Serving, visit: Callable[..., Visit]) -> None:
    person = visit(waiting)
    page = person.page
    expect(page.get_by_role("banner").get_by_role("button", name="New task")).to_be_visible()
    expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
    current = page.get_by_role("navigation").get_by_role("listitem").get_by_role("link", name="Deploy the project.")
    expect(current).to_have_attribute("aria-current", "page")
    expect(person.main.get_by_role("heading", name="Deploy the project.", level=1)).to_be_visible()
    expect(person.log).to_have_attribute("aria-live", "polite")
    expect(person.log.get_by_role("article", name="You")).to_contain_text("Deploy the project.")
    expect(person.log.get_by_role("article", name="Agent")).to_contain_text("Let me ask.")
    card = page.get_by_role("region", name="Questions").get_by_role("article", name="Question")
    expect(card.get_by_role("group", name="Suggested answers").get_by_role("button")).to_have_text(
        ["staging", "production"]
    )
    expect(card.get_by_role("textbox", name="Or in your own words")).to_have_accessible_description(
        "Enter sends, Shift+Enter begins a new line."
    )
    expect(page.get_by_role("region", name="Runs").get_by_role("listitem").first).to_be_visible()
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, input, textarea, select, img')]"
        ".filter(e => e.checkVisibility() && !e.labels?.length && !e.textContent.trim() && e.alt !== '')"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_a_narrow_screen_scrolls_one_way_only_and_has_the_list_folded(
    waiting: Serving, visit: Callable[..., Visit]
) -> None:
    person = visit(waiting, viewport={"width": 320, "height": 640})
    expect(person.cards).to_be_visible()
    assert person.page.evaluate("document.documentElement.scrollWidth") <= 320
    expect(person.sessions.first).to_be_hidden()
    toggle = person.page.get_by_role("button", name="Sessions")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(person.sessions.first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_have_contrast_in_both_schemes(waiting: Serving, visit: Callable[..., Visit], scheme: str) -> None:
    person = visit(waiting, color_scheme=scheme)
    expect(person.cards).to_be_visible()
    found = person.page.evaluate(CONTRASTS)
    assert len(found) > 20
    assert [(words, ratio) for words, ratio in found if ratio < 4.5] == []
    assert person.page.evaluate("document.getAnimations().length") == 0


CONTRASTS = """
() => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  return [...document.body.querySelectorAll("*")]
    .filter((element) => element.checkVisibility())
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .map((element) => {
      const [one, two] = [light(parsed(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
      return [element.textContent.slice(0, 40), Math.round((100 * (one + 0.05)) / (two + 0.05)) / 100];
    });
}
"""
