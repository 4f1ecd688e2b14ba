"""`python -m bench [NAME…]`: one JSON line per figure on standard output, missed limits on standard error.

Exit 0 also when a limit is missed, for a shared machine is no judge; 1 only if a benchmark cannot run.
"""

import argparse
import sys
from importlib import import_module

from bench.figure import BenchFailed, Figure

NAMES = ("cold_start", "restore", "checkpoint", "progress", "loop", "stream", "isolation", "replay", "ending", "server")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the product promises.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; default: all")
    names: list[str] = parser.parse_args().names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"unknown benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    figures: list[Figure] = []
    failures = 0
    for name in names or NAMES:
        try:
            for figure in import_module(f"bench.{name}").figures():
                print(figure.to_json(), flush=True)
                figures.append(figure)
        except (BenchFailed, OSError) as failure:
            failures += 1
            print(f"bench {name}: cannot run: {failure}", file=sys.stderr)
    missed = [f"{figure.figure} ({figure.ratio:.2f}, limit {figure.limit})" for figure in figures if figure.missed]
    print(f"limits missed: {', '.join(missed) or 'none'} (of {len(figures)} figures)", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
