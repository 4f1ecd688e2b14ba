"""`python -m tests.conformance.loop DIR [--jitter SEED] [--only TEXT]`: play all scenarios of a directory."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from tests.conformance.loop.comparing import differences
from tests.conformance.loop.driver import play

SECONDS = 20


def failures(file: Path, jitter_seed: int | None = None) -> list[str]:
    """What is wrong with one scenario file; empty when it passes."""
    try:
        scenario = json.loads(file.read_text(encoding="utf-8"))
        actual = asyncio.run(asyncio.wait_for(play(scenario, jitter_seed), SECONDS))
        return list(differences(scenario["expected"], actual))
    except TimeoutError:
        return [f"did not end within {SECONDS} s"]
    except Exception as error:  # noqa: BLE001 - one broken scenario must not hide the others
        return [f"could not be played: {type(error).__name__}: {error}"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.loop", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jitter", type=int, metavar="SEED", help="insert 0-3 ticks at every harness call")
    parser.add_argument("--only", default="", metavar="TEXT", help="only files whose name contains TEXT")
    options = parser.parse_args(arguments)
    files = [file for file in sorted(options.directory.glob("*.json")) if options.only in file.name]
    if not files:
        parser.error(f"no scenario files in {options.directory}")
    failed = 0
    for file in files:
        found = failures(file, options.jitter)
        failed += bool(found)
        for text in found:
            print(f"FAILED {file.name} {text}\n")
    print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
