"""The claim table (docs/checkpoint.md, "Who owns a pipeline") with real processes, on a folder and on S3."""

import json
import signal
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from checkpoint.head import Claimant, Head, Terminal
from checkpoint.head_writer import HeadWriter
from tests.e2e.scene import Json, Run
from tests.fakes.fault_proxy import Call, Fault, FaultProxy, nothing
from tests.faults.invariants import check_settled, head_of
from tests.faults.kills import failures_at
from tests.faults.world import SCENARIOS, Trial, World
from tests.servers import S3Server, moto_server

__all__ = ["moto_server"]

TOGETHER = 3


@dataclass(frozen=True)
class Row:
    found: str
    """What the claim finds: a state of the head, or nothing."""
    attempt: int
    exit: int
    runs: bool
    """Whether the agent runs."""
    session: str | None = None
    """Of the head that is found; None: the same one."""


FOUND_ATTEMPT = 2
ROWS = {
    "nothing": Row("", 1, 0, runs=True),
    "a lower attempt": Row("claimed", 3, 0, runs=True),
    "the same attempt": Row("claimed", 2, 76, runs=False),
    "a higher attempt": Row("claimed", 1, 76, runs=False),
    "a record, lower attempt": Row("terminal", 1, 0, runs=False),
    "a record, higher attempt": Row("terminal", 3, 0, runs=False),
    "acknowledged": Row("acknowledged", 3, 0, runs=False),
    "rejected": Row("rejected", 3, 76, runs=False),
    "another session": Row("claimed", 3, 78, runs=False, session="s-other"),
    "another session's record": Row("acknowledged", 1, 78, runs=False, session="s-other"),
}


def left_behind(trial: Trial, row: Row) -> Head | None:
    """A head in the row's state, as an earlier process left it."""
    if not row.found:
        return None
    writer = HeadWriter(trial.store, trial.pipeline_id)
    writer.claim(
        Claimant(
            pipeline_id=trial.pipeline_id,
            session_id=row.session or trial.session_id,
            attempt=FOUND_ATTEMPT,
            claim_id="theirs",
            claimed_at="2026-01-01T00:00:00.000Z",
            deadline_s=3600,
            grace_s=25,
            callback_url="http://127.0.0.1:9/",
            restore=None,
        )
    )
    if row.found != "claimed":
        writer.commit_terminal(record(trial))
    if row.found == "acknowledged":
        writer.acknowledge()
    if row.found == "rejected":
        writer.reject()
    return writer.head


def record(trial: Trial) -> Terminal:
    """A failure that kept the previous checkpoint, as another process would have settled this pipeline."""
    settled = trial.world.trials["model"].runs[0].terminal
    failure: Json = {
        "kind": "failure",
        "reason": "setup_failed",
        "message": "a tool could not be set up",
        "retryable": False,
        "resumable": True,
        "withdrawn_questions": [],
    }
    kept: Json = {**settled["checkpoint"], "decision": "keep_previous", "manifest": None, "digest": None}
    mine: Json = {"pipeline_id": trial.pipeline_id, "session_id": trial.session_id, "attempt": FOUND_ATTEMPT}
    body = json.dumps({**settled, **mine, "settlement": failure, "checkpoint": kept})
    return Terminal(body=body, webhook_id=f"term_{trial.pipeline_id}", manifest=None, digest=None)


def claim(trial: Trial, row: Row) -> None:
    found = left_behind(trial, row)
    run = trial.finish(trial.start(row.attempt))

    head = head_of(trial.store, trial.pipeline_id)
    assert head is not None
    assert run.exit == row.exit, run.stderr
    assert trial.journal == (["call_note"] if row.runs else [])
    if row.runs:
        assert (head.fields.state, head.fields.attempt) == ("acknowledged", row.attempt)
        check_settled(trial, run)
    elif row.found == "terminal":
        assert found is not None
        assert found.fields.terminal is not None
        assert trial.told == [found.fields.terminal.body.encode()]
        assert head.fields.state == "acknowledged"
    else:
        assert found is not None
        assert head.json == found.json, "a process that may not own the pipeline changed its head"
        assert trial.told == []


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.seaweedfs)])
def any_world(request: pytest.FixtureRequest) -> tuple[World, str]:
    world: Any = request.getfixturevalue("s3_world" if request.param == "s3" else "world")
    return world, request.param


def test_what_a_claim_finds_decides_what_happens(any_world: tuple[World, str], tmp_path: Path) -> None:
    world, kind = any_world
    world.trial(tmp_path / "model", SCENARIOS["success"], kind).run(1)

    def row_tried(name: str) -> None:
        claim(world.trial(tmp_path / slug(name), SCENARIOS["success"], kind), ROWS[name])

    assert failures_at((name, partial(row_tried, name)) for name in ROWS) == {}


def slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def test_of_processes_of_one_attempt_that_start_together_exactly_one_runs(
    any_world: tuple[World, str], tmp_path: Path
) -> None:
    world, kind = any_world
    trial = world.trial(tmp_path / "together", SCENARIOS["success"], kind)
    at_the_claim = threading.Barrier(TOGETHER)

    def all_at_once(call: Call) -> Fault | None:
        """On S3 the claims are held until each has come, so that they meet at the store itself."""
        if call.method == "PUT" and call.path.endswith("head.json") and b'"revision":1,' in call.body:
            at_the_claim.wait(30)
        return None

    with FaultProxy(world.targets(trial), all_at_once) as proxy:
        started = [trial.start(1, proxy) for _ in range(TOGETHER)]
        ended = [trial.finish(one) for one in started]

    owners = [run for run in ended if any(line.get("result") == "Claimed" for line in run.logs)]
    assert len(owners) == 1
    assert trial.journal == ["call_note"]
    # Who looks only after the owner has settled delivers its record again, and ends well.
    assert {run.exit for run in ended} <= {0, 76}
    check_settled(trial, owners[0], may_repeat=False)


@pytest.mark.seaweedfs
def test_no_two_writes_of_a_head_have_the_same_bytes_so_an_etag_names_one_write(
    s3_world: World, tmp_path: Path
) -> None:
    """On stores whose etag is a digest, equal bytes would have equal etags, and a stale one would fit again."""
    trial = s3_world.trial(tmp_path / "etags", SCENARIOS["success"], "s3")
    _, killed = trial.run(1, kill_before_the_record)
    _, taken_over = trial.run(2)

    heads = [call for proxy in (killed, taken_over) for call in proxy.calls if is_head_write(call)]
    stored = [call.body for call in heads if call.status == 200]
    assert [run.exit for run in trial.runs] == [-signal.SIGKILL, 0]
    assert len(stored) == 4, "claim; takeover, record, acknowledgement"
    assert len(set(stored)) == len(stored)


def is_head_write(call: Call) -> bool:
    return call.method == "PUT" and call.path.endswith("head.json")


def kill_before_the_record(call: Call) -> Fault | None:
    return "kill_before" if is_head_write(call) and b'"state":"terminal"' in call.body else None


@pytest.mark.seaweedfs
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_store_whose_clock_is_an_hour_off_changes_nothing(s3_world: World, tmp_path: Path, hours: int) -> None:
    trial = s3_world.trial(tmp_path / f"hour{hours}", SCENARIOS["success"], "s3")
    with FaultProxy(s3_world.targets(trial), kill_before_the_record, clock_off_s=3600 * hours) as proxy:
        killed = trial.start(1, proxy)
        proxy.kill = killed.process.kill
        trial.finish(killed)
        proxy.plan = nothing
        run = trial.finish(trial.start(2, proxy))

    assert [one.exit for one in trial.runs] == [-signal.SIGKILL, 0]
    check_settled(trial, run)


CONDITIONS = [("if-none-match", "if-match"), ("if-none-match",), ("if-match",)]


@pytest.mark.parametrize("ignored", CONDITIONS, ids=[" and ".join(one) for one in CONDITIONS])
def test_a_store_that_ignores_conditions_is_refused_with_what_to_do(
    moto_server: S3Server, tmp_path: Path, ignored: tuple[str, ...]
) -> None:
    with World(moto_server).running() as world:
        trial = world.trial(tmp_path / "unsafe", SCENARIOS["success"], "s3")
        with FaultProxy(world.targets(trial), without_headers=ignored) as proxy:
            run: Run = trial.finish(trial.start(1, proxy))

    assert run.exit == 78
    assert run.error["reason"] == "unsafe_conditions"
    assert "does not honour conditional writes" in run.error["message"]
    assert "Use another store, or set `store.unsafe_conditions`" in run.error["message"]
    assert head_of(trial.store, trial.pipeline_id) is None
    assert trial.journal == []
    assert world.server.terminals == []
