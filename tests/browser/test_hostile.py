"""What models, tools and people write is shown as text, whatever it is made of. That nothing is asked of any other
server and that no script runs or is refused, is checked for every visit.
"""

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Final

from playwright.sync_api import expect

from tests.browser.conftest import Serve
from tests.browser.visit import Visit
from tests.e2e.scene import ask, call, calls, text

SCRIPTS: Final = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<a href=\"javascript:document.title='owned'\">[click](javascript:alert(1))</a>"
    "<svg onload=document.title='owned'><iframe src=http://example.com/></iframe>"
)
REVERSED: Final = "safe\u202egnp.exe\u202c and \u2066isolate"
CONTROLS: Final = "bell\x07 escape\x1b[31m null-like\x01 del\x7f zero\u200bwidth nextline\x85 tag\U000e0041"
HUGE: Final = "0123456789" * 100_000
FORM: Final = {
    "type": "object",
    "title": SCRIPTS,
    "properties": {SCRIPTS: {"type": "string", "description": SCRIPTS}, "__proto__": {"enum": [SCRIPTS, REVERSED]}},
}


def png() -> bytes:
    """Two by two pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress((b"\0" + b"\x30\x60\xc0" * 2) * 2)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


def test_hostile_content_is_shown_and_harmless(serve: Serve, visit: Callable[..., Visit]) -> None:
    first = {"content": [{"type": "thinking", "thinking": SCRIPTS}, {"type": "text", "text": SCRIPTS + REVERSED}]}
    first["content"].append(
        call("bash", "c1", command=f"printf '%s' {base64.b64encode(CONTROLS.encode()).decode()} | base64 -d")
    )
    asks = calls(ask("c2", REVERSED, options=[SCRIPTS, CONTROLS], context=SCRIPTS))
    forms = calls(call("collect_form_input", "c3", component_dsl_schema=FORM))
    serving = serve([first, asks], [forms], [text(SCRIPTS + CONTROLS)])
    serving.new_task("s1", SCRIPTS + REVERSED)
    serving.wait_for_state("s1", "WAITING_INPUT")
    person = visit(serving)
    page = person.page
    expect(person.main.get_by_role("heading", level=1)).to_contain_text("<script>document.title='owned'</script>")
    expect(person.cards.locator(".question")).to_have_text("safe⟨U+202E⟩gnp.exe⟨U+202C⟩ and ⟨U+2066⟩isolate")
    expect(person.log).to_contain_text("javascript:alert(1)")
    expect(person.sessions.first).to_contain_text("<script>")
    person.cards.get_by_role("button", name="bell␇ escape␛[31m null-like␁ del␡ zero⟨U+200B⟩width").click()
    expect(person.cards.locator("legend").first).to_contain_text("<script>")
    expect(person.cards.get_by_role("radiogroup")).to_contain_text("safe⟨U+202E⟩gnp.exe")
    person.cards.get_by_role("button", name="Send").click()
    person.expect_state("Succeeded")
    expect(person.log.get_by_role("article").last).to_contain_text("escape␛[31m")
    expect(page).to_have_title("Pipeline runner")
    for element in ("script", "iframe", "svg", "a", "[onload]", "[onerror]"):
        expect(person.main.locator(element)).to_have_count(0)
    shown = page.evaluate("document.body.innerText")
    assert not set("\u202e\u202c\u2066\u200b\x07\x1b\x01\x7f\x85") & set(shown)


def test_a_megabyte_is_folded_and_comes_piece_by_piece(serve: Serve, visit: Callable[..., Visit]) -> None:
    serving = serve([text(HUGE)])
    serving.new_task("s1", "Say a lot.")
    person = visit(serving, "/#/sessions/s1")
    person.expect_state("Succeeded")
    answer = person.log.get_by_role("article").nth(1)
    more = answer.get_by_role("button", name="Show more of this text (996 k left)")
    expect(more).to_be_visible()
    assert len(answer.inner_text()) < 5_000
    more.press("Enter")
    expect(answer.get_by_role("button", name="Show more of this text (956 k left)")).to_be_focused()
    assert 44_000 <= len(answer.inner_text()) < 45_000


def test_pictures_that_tools_found_are_shown_and_earlier_entries_on_demand(
    serve: Serve, visit: Callable[..., Visit]
) -> None:
    looks = [call("read", f"c{number}", path="dot.png" if number == 204 else "no-such-file") for number in range(205)]
    serving = serve([calls(*looks), text("I saw it.")])
    workspace = serving.folder / "workspaces" / "s1"
    workspace.mkdir(parents=True)
    (workspace / "dot.png").write_bytes(png())
    serving.new_task("s1", "Look at the picture.")
    serving.wait_for_state("s1", "SUCCEEDED")
    person = visit(serving)
    picture = person.log.get_by_role("img").last
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 2
    expect(person.log).not_to_contain_text("Look at the picture.")
    person.main.get_by_role("button", name="Show earlier entries").click()
    expect(person.log).to_contain_text("Look at the picture.")
    expect(person.main.get_by_role("button", name="Show earlier entries")).to_be_hidden()
    expect(person.log.locator(".call .status", has_text="failed")).to_have_count(204)
