import subprocess
import sys

SCRIPT = """
import asyncio, os, threading
from runner.blocking import run_in_loop

async def look_up():
    hanging = asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    await asyncio.wait({hanging}, timeout=0.01)
    return "given up"

print(run_in_loop(look_up()), flush=True)
os._exit(0)
"""


def test_the_end_does_not_wait_for_a_thread_that_hangs() -> None:
    """As a look-up of a name does whose server does not answer; a process of ours ends like this one."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, timeout=60, check=True)
    assert ended.stdout == b"given up\n"
