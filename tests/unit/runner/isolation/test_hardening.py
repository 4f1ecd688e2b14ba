"""The first lines of the process, in a process of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]

_STORY = """
import json, os, resource, sys
from pathlib import Path
from runner.isolation import kernel
from runner.isolation.hardening import harden_process, wipe_from_environment

secret = os.environ.pop("A_SECRET")
harden_process()
wipe_from_environment(["A_SECRET", "NOT_THERE"])
child, orphan = os.fork(), None
if child == 0:
    if os.fork() == 0:
        os.setsid()
        sys.stdin.read()
        os._exit(0)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps({
    "secret": secret,
    "dumpable": kernel.is_dumpable(),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "block": Path("/proc/self/environ").read_bytes().decode(),
    "environ": dict(os.environ),
    "adopted": Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(),
}))
"""


def hardened() -> dict[str, Any]:
    environment = {**os.environ, "A_SECRET": "value-to-wipe", "BESIDE": "value-to-keep", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _STORY], env=environment, stdout=subprocess.PIPE, input=b"", timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_the_process_cannot_be_read_by_others_and_leaves_no_core() -> None:
    told = hardened()
    assert told["dumpable"] is False
    assert told["core"] == [0, 0]


def test_a_secret_is_gone_from_the_block_that_the_process_was_started_with() -> None:
    told = hardened()
    assert told["secret"] == "value-to-wipe"
    assert "value-to-wipe" not in told["block"]
    assert told["environ"]["BESIDE"] == "value-to-keep"
    assert "BESIDE=value-to-keep" in told["block"]


def test_orphans_come_to_the_process() -> None:
    assert len(hardened()["adopted"]) == 1
