"""docs/guarantees.md names tests that exist, and draws the head record as it is."""

import re
from itertools import product
from pathlib import Path

from checkpoint.head import Claimant, Terminal
from checkpoint.head_writer import HeadWriter
from tests.fakes.memory_store import MemoryStore
from tests.faults.invariants import head_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guarantees.md").read_text()
START = "[*]"
STEPS = ("claim", "take_over", "record", "acknowledge", "reject")
TERMINAL = Terminal(body="{}", webhook_id="term_p1", manifest=None, digest=None)


def test_every_file_and_command_that_is_named_exists() -> None:
    files = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    modules = re.findall(r"python -m ([\w.]+)", PAGE)

    assert len(files) > 20
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert modules
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
    assert "soak:" in (ROOT / "Makefile").read_text()


def test_the_state_diagram_has_the_changes_of_state_that_writers_can_make_and_no_others() -> None:
    drawn = set(re.findall(r"^    (\S+) --> (\w+)", PAGE, re.MULTILINE))

    made = {change for steps in product(STEPS, repeat=4) for change in changes(steps)}

    assert drawn == made


def changes(steps: tuple[str, ...]) -> set[tuple[str, str]]:
    """The changes of a head's state that these steps make, whoever takes them."""
    store, attempts, found = MemoryStore(), iter(range(1, 10)), set[tuple[str, str]]()
    for step in steps:
        before = head_of(store, "p1")
        writer = HeadWriter(store, "p1")
        if step in ("claim", "take_over"):
            attempt = next(attempts) if step == "take_over" else 1
            writer.claim(claimant(attempt))
        elif writer.read() is not None and before is not None:
            write(writer, step, claimed=before.fields.state == "claimed")
        after = head_of(store, "p1")
        if after is not None and (before is None or before.json != after.json):
            found.add((before.fields.state if before is not None else START, after.fields.state))
    return found


def write(writer: HeadWriter, step: str, *, claimed: bool) -> None:
    if step == "record":
        writer.commit_terminal(TERMINAL)
    elif not claimed:  # what has not settled has nothing that could be answered
        (writer.acknowledge if step == "acknowledge" else writer.reject)()


def claimant(attempt: int) -> Claimant:
    return Claimant(
        pipeline_id="p1",
        session_id="s1",
        attempt=attempt,
        claim_id=f"claim-{attempt}",
        claimed_at="2026-01-01T00:00:00.000Z",
        deadline_s=60,
        grace_s=5,
        callback_url=None,
        restore=None,
    )
