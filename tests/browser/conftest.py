from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import browser
from tests.browser.visit import Visit
from tests.e2e.serving import Json, Serving

Serve = Callable[..., Serving]
__all__ = ["browser"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a real server: `serve(first_pipeline, second_pipeline, …)`, each a list of the model's responses."""
    servings: list[Serving] = []

    def start(*stories: list[Json], **template: Any) -> Serving:
        serving = Serving(tmp_path / f"serve-{len(servings)}", *stories, **template)
        servings.append(serving)
        return serving.start()

    yield start
    for serving in servings:
        serving.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens the page as a person does. At the end nothing may have gone wrong that a person does not see."""
    visits: list[Visit] = []

    def open_page(serving: Serving, path: str = "/", **context: Any) -> Visit:
        made = Visit(browser, serving, path, **context)
        visits.append(made)
        return made

    yield open_page
    problems = [problem for made in visits for problem in made.close()]
    assert problems == []
