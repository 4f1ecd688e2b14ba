"""Runs a corpus of recorded provider cases against the adapters: `python -m tests.conformance.providers
DIR`.

Prints what differs, then `N passed, N failed`; exit 1 if anything failed. DIR holds `<api>/<case>.json` and
may hold `classify.json`. Differences we want are listed in `DELIBERATE` with their reason, and do not count
as failures.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.provider_cases import Case, classify_text, compare, play
from tests.conformance.provider_rules import RULES, rule_for

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case's differences (none: it passed), and the rule that allows them, if one does."""

    differences: list[str]
    rule: str | None = None


async def run_corpus(directory: Path, *, only: str = "") -> dict[str, Verdict]:
    """Case name -> verdict. Names are `<api>/<case>` and `classify/<n>`."""
    gate = asyncio.Semaphore(_AT_ONCE)
    found: dict[str, Verdict] = {}

    async def one(name: str, case: Case) -> None:
        async with gate:
            try:
                got = await play(case)
                differences = compare(case, got)
                found[name] = Verdict(differences, rule_for(case, got) if differences else None)
            except TimeoutError:
                found[name] = Verdict(["did not end"])
            except Exception as error:  # noqa: BLE001 - a case that breaks the run is a failed case
                found[name] = Verdict([f"broke off: {error!r}"])

    cases = {name: case for name, case in read_cases(directory).items() if only in name}
    timed = {name for name, case in cases.items() if "afterMs" in (case.get("abort") or {})}
    await asyncio.gather(*(one(name, case) for name, case in cases.items() if name not in timed))
    for name in sorted(timed):  # last and by themselves: their clock runs from the call on
        await one(name, cases[name])
    for number, entry in enumerate(_classify_entries(directory)):
        want: Any = entry.get("right") or entry["expected"]
        got = classify_text(entry)
        differs = [] if dict(got) == want else [f"{entry.get('errorMessage')!r}: want {want}, got {got}"]
        found[f"classify/{number}"] = Verdict(differs)
    return dict(sorted(found.items()))


def read_cases(directory: Path) -> dict[str, Case]:
    paths = sorted(directory.glob("*/*.json"))
    return {f"{path.parent.name}/{path.stem}": json.loads(path.read_text(encoding="utf-8")) for path in paths}


def _classify_entries(directory: Path) -> Iterator[Case]:
    path = directory / "classify.json"
    if path.exists():
        yield from json.loads(path.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print("usage: python -m tests.conformance.providers DIR [PART OF A CASE'S NAME]", file=sys.stderr)
        return 64
    found = asyncio.run(run_corpus(Path(arguments[0]), only=arguments[1] if arguments[1:] else ""))
    failed = 0
    for name, verdict in found.items():
        if verdict.rule is not None:
            print(f"deliberate  {name}: {verdict.rule}, {RULES[verdict.rule][1]}")
        elif verdict.differences:
            failed += 1
            print(f"FAILED      {name}")
            for line in verdict.differences:
                print(f"            {line[:2000]}")
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
