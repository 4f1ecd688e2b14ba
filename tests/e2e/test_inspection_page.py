"""The HTML report in a real browser: hostile content does nothing, and people can use it in every way they need."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from runner.inspection.showing import report_pieces
from runner.inspection.source import open_source
from tests.browser.chromium import browser, page
from tests.unit.runner.inspection.stored import (
    CORPUS,
    NOWHERE,
    assistant,
    call,
    result,
    session_bytes,
    user,
)

__all__ = ["browser", "page"]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ATTACKS = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</pre></article></main><iframe src='http://127.0.0.1:9/x'></iframe>",
    "<style>@import 'http://127.0.0.1:9/x.css'</style><link rel=stylesheet href=http://127.0.0.1:9/y>",
    "<a href=\"javascript:document.title='owned'\">click</a>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "\u202eright to left\u2066 \x1b[31m\x00\x07 \ud800 <svg onload=document.title='owned'>",
    "<base href=http://127.0.0.1:9/><form action=http://127.0.0.1:9/>",
    "<button autofocus onfocus=\"document.title='owned'\">",
)


def written(tmp_path: Path, *messages: dict[str, Any]) -> str:
    (tmp_path / "session.jsonl").write_bytes(session_bytes(*messages))
    with open_source(str(tmp_path / "session.jsonl"), NOWHERE) as source:
        report = "".join(report_pieces(source, "html", full=False))
    (tmp_path / "page.html").write_text(report)
    return (tmp_path / "page.html").as_uri()


@pytest.fixture
def conversation(tmp_path: Path) -> str:
    return written(
        tmp_path,
        user("Deploy it."),
        assistant("I look.", call("bash", "c1", command="ls")),
        result("c1", "\n".join(f"file {number}" for number in range(100))),
        assistant("Done."),
    )


def watched(page: Page) -> tuple[list[str], list[str]]:
    """What the page asks for, and what it complains of."""
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    return asked, said


def test_hostile_content_runs_nothing_and_asks_for_nothing(page: Page, tmp_path: Path) -> None:
    messages = [user(attack) for attack in ATTACKS]
    messages += [assistant(attack, call(attack, attack, x=attack), model=attack) for attack in ATTACKS]
    messages += [result(attack, attack, attack, details={attack: attack}) for attack in ATTACKS]
    images = [("image/png", PIXEL), ("image/svg+xml", "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"), ("text/html", PIXEL)]
    blocks = [{"type": "image", "mimeType": kind, "data": data} for kind, data in images]
    address = written(tmp_path, *messages, {"role": "user", "content": blocks})
    asked, said = watched(page)

    page.goto(address)
    for details in page.locator("details").all():
        details.locator("summary").first.click()

    assert page.title() == "Session s"
    assert [url for url in asked if not url.startswith("data:image/png;")] == [address]
    assert said == []
    assert page.locator("script, iframe, form, base, link, a[href^='javascript']").count() == 0
    assert page.locator("img").count() == 1
    assert page.locator("img").evaluate("image => image.naturalWidth") == 1
    shown = page.locator("#transcript ~ article pre, article pre").all_inner_texts()
    assert ATTACKS[0] in shown
    assert any("⟦U+202E⟧right to left" in text and "␛[31m␀␇" in text for text in shown)


def test_the_policy_stops_a_script_even_if_the_escaping_failed(page: Page, conversation: str, tmp_path: Path) -> None:
    report = (tmp_path / "page.html").read_text()
    (tmp_path / "page.html").write_text(report.replace("</main>", f"{ATTACKS[0]}{ATTACKS[1]}</main>"))
    _, said = watched(page)
    page.goto(conversation)
    assert page.title() == "Session s"
    assert any("Content Security Policy" in text for text in said)


def test_the_page_is_used_with_the_keyboard_alone(page: Page, conversation: str) -> None:
    page.goto(conversation)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.locator(".skip").bounding_box() is not None
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    assert page.evaluate("document.activeElement.id") == "main"

    folded = page.locator("details").filter(has_text="file 99")
    assert not folded.locator("pre").is_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert folded.locator("pre").is_visible()

    page.keyboard.press("Shift+Tab")
    while page.evaluate("document.activeElement.closest('section')?.querySelector('h2').id") != "timeline":
        page.keyboard.press("Shift+Tab")
    page.locator("tbody a").first.focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#e3")
    assert page.locator("#e3").evaluate("article => article.getBoundingClientRect().top < innerHeight")


def test_a_screen_reader_finds_its_way_by_roles_and_names(page: Page, conversation: str) -> None:
    page.goto(conversation)
    expected: tuple[tuple[Any, str | None], ...] = (
        ("banner", None),
        ("navigation", "Sections"),
        ("main", None),
        ("region", "Timeline"),
        ("region", "Tree"),
        ("region", "Transcript"),
        ("heading", "Session s"),
        ("link", "Transcript"),
        ("table", None),
    )
    for role, name in expected:
        found = page.get_by_role(role, name=name, exact=True) if name else page.get_by_role(role)
        assert found.count() == 1, (role, name)
    assert page.get_by_role("article").count() == 4
    assert page.get_by_role("article", name="tool result: bash").count() == 1
    assert page.get_by_role("img", name="model 1.0 s, then bash 1.0 s").count() == 1
    assert page.get_by_role("columnheader", name="Cost").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser: Browser, conversation: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(conversation)
    for selector in ("body", "dt", "article.user pre", "article pre.output", "a", ".meta", "summary"):
        ratio = page.locator(selector).first.evaluate(CONTRAST)
        assert ratio >= 4.5, (selector, ratio)
    is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert is_dark == (scheme == "dark")
    context.close()


CONTRAST = """element => {
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = element;
  while (parse(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const a = light(parse(getComputedStyle(element).color));
  const b = light(parse(getComputedStyle(behind).backgroundColor));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""
"""The contrast of an element's text, as WCAG 2 defines it."""


def test_a_narrow_window_does_not_scroll_sideways(browser: Browser, conversation: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 640})
    page = context.new_page()
    page.goto(conversation)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.mark.parametrize("name", ["compaction-branches-1", "tool-images-1", "unicode-1"])
def test_recorded_sessions_are_shown_without_a_complaint(page: Page, name: str, tmp_path: Path) -> None:
    with open_source(str(CORPUS / f"{name}.jsonl"), NOWHERE) as source:
        assert source.session is not None
        entries = len(source.session.index)
        (tmp_path / "page.html").write_text("".join(report_pieces(source, "html", full=False)))
    _, said = watched(page)
    page.goto((tmp_path / "page.html").as_uri())
    assert page.get_by_role("article").count() == entries
    assert said == []
