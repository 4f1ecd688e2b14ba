"""A headless Chromium for tests of pages. Import the fixtures: `from tests.browser.chromium import browser, page`.

Without Chromium these tests are skipped with a line that says so, or fail where BROWSER_TESTS=required, as in CI.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""No sandbox, because tests may run as root; and nothing that talks to the network by itself."""
TIMEOUT_MS = 20_000


def chromium() -> str | None:
    """The path of a Chromium that the system has."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def launched(path: str) -> Generator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One per module: as long as it is open, its event loop counts as running, and no asynchronous test could run."""
    path = chromium()
    if path is None:
        reason = "no Chromium on this machine: the browser tests need one (apt-get install chromium)"
        if os.environ.get("BROWSER_TESTS") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    with launched(path) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, without storage of others; waits are bounded."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()
