"""A run on a scripted model pays for no adapter."""

import subprocess
import sys

_HEAVY = ("httpx", "httpx_sse", "anyio", "genai_prices", "pydantic")


def test_importing_the_adapters_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "import runner.models.calls, runner.models.answer, runner.models.recorder\n"
        "from runner.models.calls import APIS, wire_protocol\n"
        "for api in APIS: wire_protocol(api)\n"
        f"print([name for name in {_HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_stream_function_alone_loads_no_adapter() -> None:
    program = (
        "import sys, runner.models.calls\n"
        "print([name for name in sys.modules if name.startswith('runner.models.') and 'stream' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
