"""Pictures of the page for the README: `python -m tests.browser.screenshots`, with a real server and browser.

Writes docs/images/*.png. Not a test: pictures differ by the fonts of the machine.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect

from tests.browser.chromium import chromium, launched
from tests.browser.visit import Visit
from tests.e2e.scene import ask, call, text
from tests.e2e.serving import Json, Serving

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES: Final = 150_000
SIZE: Final = {"width": 1280, "height": 820}

CHECKS: Final[Json] = {
    "content": [
        {"type": "thinking", "thinking": "The build first, then the target."},
        {"type": "text", "text": "I check the build before anything is deployed."},
        call("bash", "c1", command="echo '214 passed in 38.2s'"),
    ],
    "usage": {"input": 1180, "output": 86, "cost": 0.0048},
}
ASKS: Final[Json] = {
    "content": [
        {"type": "text", "text": "The build is green. One thing is missing:"},
        ask(
            "c2",
            "Deploy to staging or to production?",
            options=["staging", "production"],
            context="Staging is free right now. Production has a change window until 18:00.",
        ),
    ],
    "usage": {"input": 1420, "output": 71, "cost": 0.0053},
}
DONE: Final[Json] = text(
    "Deployed to staging. All checks are green.", usage={"input": 1610, "output": 18, "cost": 0.0051}
)


def main() -> int:
    path = chromium()
    if path is None:
        sys.stderr.write("no Chromium on this machine\n")
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched(path) as browser:
        serving = Serving(Path(folder) / "serve", [CHECKS, ASKS], [DONE]).start()
        try:
            _take(browser, serving)
        finally:
            serving.close()
    return 0


def _take(browser: Browser, serving: Serving) -> None:
    for session_id, message in (
        ("changelog", "Tidy the changelog."),
        ("deploy", "Deploy the project where it fits best."),
    ):
        serving.new_task(session_id, message)
        serving.wait_for_state(session_id, "WAITING_INPUT")
        serving.wait_for_end(session_id)
    serving.reply(serving.session("changelog")["questions"][0]["question_id"])
    serving.wait_for_state("changelog", "SUCCEEDED")
    for scheme in ("light", "dark"):
        visit = Visit(browser, serving, "/#/sessions/deploy", viewport=SIZE, color_scheme=scheme)
        visit.page.reload()  # opened by its address, not by a click that moves the focus
        expect(visit.cards).to_be_visible()
        _save(visit, f"page-question-{scheme}.png")
        visit.close()
    serving.reply(serving.session("deploy")["questions"][0]["question_id"])
    serving.wait_for_state("deploy", "SUCCEEDED")
    serving.wait_for_end("deploy")
    visit = Visit(browser, serving, "/#/sessions/deploy", viewport=SIZE)
    visit.expect_state("Succeeded")
    visit.log.locator("summary", has_text="bash").click()
    visit.page.mouse.move(0, 0)
    _save(visit, "page-success-light.png")
    visit.close()


def _save(visit: Visit, name: str) -> None:
    expect(visit.page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
    picture = visit.page.screenshot(path=IMAGES / name)
    assert len(picture) <= MAX_BYTES, f"{name}: {len(picture)} bytes"


if __name__ == "__main__":
    sys.exit(main())
