"""docs/schemas/openapi.json is what the server says of itself."""

import json
from pathlib import Path

from runner.server.app import openapi_document

PAGE = Path(__file__).parents[2] / "docs" / "schemas" / "openapi.json"


def test_the_committed_document_is_that_of_the_endpoints() -> None:
    assert json.loads(PAGE.read_text()) == openapi_document()
