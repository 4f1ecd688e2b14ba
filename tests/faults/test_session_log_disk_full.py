"""A disk that fills up while a session is written, for real: the system itself cuts the write short."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from checkpoint.session.migration import index_file
from tests.unit.checkpoint.session.strict_reader import read_strictly

LIMIT = 4096

PROGRAM = """
import json, sys
from pathlib import Path
from checkpoint.session.errors import SessionLogBroken
from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog

log = SessionLog.create(Path(sys.argv[1]), new_header("/workspace"))
errors = []
for number in range(100):
    try:
        log.append_message({"role": "user", "content": "x" * 100, "timestamp": number})
    except SessionLogBroken as error:
        errors.append(str(error))
print(json.dumps({"size": log.size, "entries": log.entries, "broken": log.broken, "errors": errors}))
"""


def _limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def test_a_full_disk_latches_the_log_and_leaves_whole_lines_up_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        preexec_fn=_limit_file_size,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    told = json.loads(finished.stdout)
    assert told["broken"] is not None
    assert len(told["errors"]) == 100 - told["entries"]
    assert told["size"] < LIMIT
    data = path.read_bytes()
    assert len(read_strictly(data[: told["size"]])) == told["entries"]

    index = index_file(path)
    assert (index.entries, index.keep_bytes) == (told["entries"], told["size"])
    assert len(data) == LIMIT
    assert "torn" in index.warnings[0]
