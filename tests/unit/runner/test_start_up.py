"""What a start does not pay for."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["runner.process", "runner.pipeline"])
@pytest.mark.parametrize("heavy", ["rich", "boto3", "botocore", "httpx", "jsonschema_rs", "mcp"])
def test_the_way_to_the_first_model_request_loads_nothing_that_it_may_not_need(module: str, heavy: str) -> None:
    program = f"import sys, {module}, runner.wiring, runner.logs; print({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_rich_stays_importable_beside_the_logs() -> None:
    program = "import runner.logs, rich; print(rich.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() in ("rich", "")
    assert "halted" not in done.stderr
