"""A person's browser on the page of a server: signed in, and watched for what must not happen."""

from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, Request, expect

from tests.browser.chromium import TIMEOUT_MS
from tests.e2e.serving import Serving

expect.set_options(timeout=TIMEOUT_MS)


class Visit:
    """`problems`: errors of scripts, violations of the content policy, and requests to anywhere else."""

    def __init__(self, browser: Browser, serving: Serving, path: str = "/", **options: Any) -> None:
        self.serving = serving
        self.problems: list[str] = []
        self.bears_outages = False
        """The server goes away in this test, which browsers report as an error of the console."""
        # Without motion there is less to paint, and the machine's time goes to what is tested.
        seen = {"viewport": {"width": 1360, "height": 900}, "reduced_motion": "reduce"}
        context: dict[str, Any] = {**seen, **options}
        self._context = browser.new_context(**context)
        self._context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", self._failed)
        self.page.on("request", self._requested)
        self.page.goto(f"{serving.url}/?token={serving.token}")
        if path != "/":
            self.page.goto(serving.url + path)

    def close(self) -> list[str]:
        self._context.close()
        return self.problems

    def _failed(self, error: Error) -> None:
        self.problems.append(f"script error: {error}")

    def _said(self, message: ConsoleMessage) -> None:
        outage = self.bears_outages and "Failed to load resource" in message.text
        if message.type in ("error", "warning") and not outage:
            self.problems.append(f"console: {message.text}")

    def _requested(self, request: Request) -> None:
        where = urlsplit(request.url)
        if where.scheme != "data" and f"{where.scheme}://{where.netloc}" != self.serving.url:
            self.problems.append(f"a request to {request.url}")

    # --- what is on the page --------------------------------------------------------------------------------

    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log", name="Transcript")

    @property
    def cards(self) -> Locator:
        return self.page.get_by_role("region", name="Questions").get_by_role("article")

    @property
    def sessions(self) -> Locator:
        return self.page.get_by_role("navigation").get_by_role("link")

    def open_session(self, session_id: str) -> None:
        self.page.goto(f"{self.serving.url}/#/sessions/{session_id}")

    def expect_state(self, name: str) -> None:
        """The state of the session's present task, as its words are read."""
        expect(self.main.locator(".head .chip")).to_contain_text(name)

    def start_task(self, words: str) -> None:
        """By hand: the button, the dialog, the text, Enter."""
        self.page.get_by_role("button", name="New task").click()
        self.page.get_by_label("What is to be done?").fill(words)
        self.page.keyboard.press("Enter")
