"""The committed schemas are what the models say, and the README's output is what the program prints."""

from pathlib import Path

import pytest

from runner.schemas import SCHEMAS, schema_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schema_is_the_one_that_the_models_give(name: str) -> None:
    committed = ROOT / "docs" / "schemas" / f"{name}.json"
    assert committed.read_text() == schema_text(name), f"run: runner schema {name} > docs/schemas/{name}.json"
