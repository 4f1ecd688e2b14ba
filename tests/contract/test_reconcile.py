"""Reconciling over every kind of store: what is redelivered, what becomes lost, what is left alone."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from structlog.testing import CapturingLogger

from checkpoint.errors import StoreError
from checkpoint.head import Claimant, Claimed, Fenced, Progress, Terminal, Updated
from checkpoint.head_writer import HeadWriter
from checkpoint.keys import head_key
from checkpoint.manifest import RestorePoint, Segment, chain_of, digest_of
from checkpoint.restore import fetch
from checkpoint.segments import encode_segment
from checkpoint.store.port import ObjectStore
from runner.reconcile import ReconcileOptions, Reconciler, Report, Summary
from settlement.callback import Terminal as Callback
from settlement.delivery import Delivery
from settlement.verdict import Delivered, FinalVerdict, GaveUp, Rejected
from settlement.wire import read
from tests.fakes.memory_store import MemoryStore

URL = "https://example.test/v1/terminals"
ALLOWED_S = 125.0
LINES = b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
MORE = b'{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{}}\n'


class Courier:
    """Answers with one verdict, and keeps what it was given."""

    def __init__(self, verdict: FinalVerdict = Delivered()) -> None:  # noqa: B008 - frozen
        self.verdict = verdict
        self.sent: list[tuple[str, str, bytes]] = []

    async def deliver(self, url: str, webhook_id: str, body: bytes, budget_s: float) -> Delivery:
        assert budget_s == 60.0
        self.sent.append((url, webhook_id, body))
        return Delivery(self.verdict, 1, may_have_arrived=True)


class NoIndex:
    def feed(self, chunk: bytes) -> None:
        del chunk


def claim(
    store: ObjectStore, pipeline_id: str, *, url: str | None = URL, restore: RestorePoint | None = None
) -> HeadWriter:
    writer = HeadWriter(store, pipeline_id)
    me = Claimant(
        pipeline_id, "s1", 3, "claim-1", "2026-01-01T00:00:00.000Z", 100.0, 25.0, url, restore, {"owner": "team"}
    )
    assert isinstance(writer.claim(me), Claimed)
    return writer


def settle(writer: HeadWriter, body: str = '{"type":"terminal"}') -> None:
    terminal = Terminal(body=body, webhook_id="term_x", manifest=None, digest=None)
    assert isinstance(writer.commit_terminal(terminal), Updated)


def store_progress(store: ObjectStore, writer: HeadWriter) -> None:
    segments: list[Segment] = []
    for lines in (LINES, MORE):
        encoded = encode_segment("s1", iter([lines]))
        store.put_if_absent(encoded.segment.key, encoded.stored)
        segments.append(encoded.segment)
    progress = Progress(
        segments=tuple(segments),
        entries=1,
        leaf_id="aaaaaaaa",
        chain=chain_of(segments),
        input_consumed=True,
        usage={"total_tokens": 70, "turns": 2, "requests": 2, "cost_usd": 0.5},
        stop="ask_user",
    )
    assert isinstance(writer.update(progress), Updated)


def reconciler(
    store: ObjectStore,
    courier: Courier | None = None,
    *,
    later_s: float = 0.0,
    **options: Any,
) -> Reconciler:
    """`later_s`: what the store's clock shows beyond the time of the last writes."""
    log = structlog.wrap_logger(
        CapturingLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    chosen = ReconcileOptions(secrets_folder=Path("/nowhere"), at_once=4, **options)
    return Reconciler(store, courier or Courier(), log, chosen, store.now() + timedelta(seconds=later_s))


def outcome(ours: Reconciler) -> tuple[dict[str, Report], Summary]:
    told: list[Report | Summary] = []
    code = ours.run(told.append)
    *reports, summary = told
    assert isinstance(summary, Summary)
    assert summary.exit == code
    found = {report.pipeline_id: report for report in cast("list[Report]", reports)}
    assert len(found) == len(reports) == summary.reports
    return found, summary


def head(store: ObjectStore, pipeline_id: str) -> Any:
    stored = store.get(head_key(pipeline_id))
    assert stored is not None
    return json.loads(stored.data)


def test_each_pipeline_is_brought_as_far_as_it_goes(store: ObjectStore) -> None:
    claim(store, "young")
    settle(claim(store, "untold"))
    settle(claim(store, "local", url=None))
    told = claim(store, "told")
    settle(told)
    told.acknowledge()
    store.put_if_absent(head_key("damaged"), b"no head")
    store.put_if_absent("pipelines/stray.txt", b"no head either")
    courier = Courier()

    reports, summary = outcome(reconciler(store, courier))

    assert {name: report.result for name, report in reports.items()} == {
        "young": "running",
        "untold": "delivered",
        "local": "settled",
        "told": "settled",
        "damaged": "damaged",
    }
    assert courier.sent == [(URL, "term_x", b'{"type":"terminal"}')]
    assert head(store, "untold")["state"] == "acknowledged"
    assert head(store, "young")["state"] == "claimed"
    assert summary.exit == 78
    again, _ = outcome(reconciler(store, courier))
    assert again["untold"].result == "settled"
    assert len(courier.sent) == 1


def test_a_dead_claim_becomes_lost_with_its_last_progress_and_its_owner_is_fenced(store: ObjectStore) -> None:
    owner = claim(store, "p1")
    store_progress(store, owner)
    courier = Courier()

    reports, summary = outcome(reconciler(store, courier, later_s=ALLOWED_S + 5))

    assert (reports["p1"].result, reports["p1"].lost, summary.exit) == ("delivered", True, 0)
    body = read(Callback, courier.sent[0][2])
    assert body.settlement.kind == "failure"
    assert (body.settlement.reason, body.settlement.retryable, body.settlement.resumable) == ("lost", True, True)
    assert (body.pipeline_id, body.attempt, body.labels, body.questions) == ("p1", 3, {"owner": "team"}, ())
    assert (body.input_consumed, body.usage.total_tokens, body.usage.turns) == (True, 70, 2)
    checkpoint = body.checkpoint
    assert (checkpoint.decision, checkpoint.entries, checkpoint.leaf_id) == ("commit", 1, "aaaaaaaa")
    stored = head(store, "p1")
    assert stored["state"] == "acknowledged"
    assert (stored["terminal"]["manifest"], stored["terminal"]["digest"]) == (checkpoint.manifest, checkpoint.digest)
    assert isinstance(owner.commit_terminal(Terminal(body="{}", webhook_id="x", manifest=None, digest=None)), Fenced)
    assert head(store, "p1") == stored


def test_the_checkpoint_of_a_lost_pipeline_restores(store: ObjectStore, tmp_path: Path) -> None:
    store_progress(store, claim(store, "p1"))
    outcome(reconciler(store, later_s=ALLOWED_S + 5))
    terminal = head(store, "p1")["terminal"]
    point = RestorePoint(manifest=terminal["manifest"], digest=terminal["digest"])
    fetched = fetch(store, point, tmp_path / "log", NoIndex())
    assert (tmp_path / "log").read_bytes() == LINES + MORE
    assert fetched.manifest is not None
    assert (fetched.manifest.pending_questions, fetched.manifest.counters.turns) == ((), 2)


def test_a_dead_claim_without_progress_keeps_the_previous_checkpoint(store: ObjectStore) -> None:
    restore = RestorePoint(manifest="sessions/s1/checkpoints/p0.1.x.json", digest=digest_of(b""))
    claim(store, "p1", url=None, restore=restore)
    reports, _ = outcome(reconciler(store, later_s=ALLOWED_S + 5))
    assert (reports["p1"].result, reports["p1"].lost) == ("settled", True)
    body = json.loads(head(store, "p1")["terminal"]["body"])
    assert body["checkpoint"]["decision"] == "keep_previous"
    assert (body["checkpoint"]["parent"], body["input_consumed"]) == (restore.digest, False)


def test_progress_that_does_not_fit_its_restore_point_is_not_used_and_said(store: ObjectStore) -> None:
    gone = RestorePoint(manifest="sessions/s1/checkpoints/p0.1.x.json", digest=digest_of(b""))
    store_progress(store, claim(store, "p1", restore=gone))
    outcome(reconciler(store, later_s=ALLOWED_S + 5))
    body = json.loads(head(store, "p1")["terminal"]["body"])
    assert body["checkpoint"]["decision"] == "keep_previous"
    assert "progress could not be used" in body["warnings"][0]


def test_a_dry_run_says_what_is_due_and_changes_nothing(store: ObjectStore) -> None:
    claim(store, "dead")
    settle(claim(store, "untold"))
    before = {found.key: store.get(found.key) for found in store.list("")}
    courier = Courier()

    reports, summary = outcome(reconciler(store, courier, later_s=ALLOWED_S + 5, dry_run=True))

    assert {name: (report.result, report.lost) for name, report in reports.items()} == {
        "dead": ("due", True),
        "untold": ("due", False),
    }
    assert (summary.exit, summary.lost) == (0, 1)
    assert {found.key: store.get(found.key) for found in store.list("")} == before
    assert courier.sent == []


@pytest.mark.parametrize(
    ("verdict", "result", "code", "state"),
    [(GaveUp(None), "unacknowledged", 77, "terminal"), (Rejected(409, "superseded"), "rejected", 0, "rejected")],
)
def test_what_the_server_says_is_noted(
    verdict: FinalVerdict, result: str, code: int, state: str, store: ObjectStore
) -> None:
    settle(claim(store, "p1"))
    reports, summary = outcome(reconciler(store, Courier(verdict)))
    assert (reports["p1"].result, summary.exit, head(store, "p1")["state"]) == (result, code, state)


def test_of_many_reconcilers_at_once_one_settles_and_all_deliver_the_same(store: ObjectStore) -> None:
    count = 6
    for number in range(3):
        store_progress(store, claim(store, f"p{number}"))
    courier, gate = Courier(), threading.Barrier(count)

    def run(_: int) -> dict[str, Report]:
        ours = reconciler(store, courier, later_s=ALLOWED_S + 5)
        gate.wait(timeout=30)
        return outcome(ours)[0]

    with ThreadPoolExecutor(count) as pool:
        everybody = list(pool.map(run, range(count)))

    for number in range(3):
        name = f"p{number}"
        assert sum(reports[name].lost for reports in everybody) == 1
        assert head(store, name)["state"] == "acknowledged"
        assert len({body for _, _, body in courier.sent if json.loads(body)["pipeline_id"] == name}) == 1


# --- faults and clocks, on the store in memory ---------------------------------------------------------------


def test_a_store_whose_clock_is_off_by_an_hour_is_believed() -> None:
    for off in (timedelta(hours=1), timedelta(hours=-1)):
        now = [datetime.now(UTC) + off]
        store = MemoryStore(clock=lambda now=now: now[0])
        claim(store, "p1")
        now[0] += timedelta(seconds=ALLOWED_S - 1)
        assert outcome(reconciler(store))[0]["p1"].result == "running"
        now[0] += timedelta(seconds=2)
        assert outcome(reconciler(store))[0]["p1"].lost


def test_an_owner_that_writes_at_the_last_moment_keeps_its_pipeline() -> None:
    waking: list[HeadWriter] = []

    def wake(operation: str, key: str) -> None:
        if operation == "put_if_absent" and "/checkpoints/" in key and waking:  # between the look and the swap
            owner = waking.pop()
            assert owner.head is not None
            assert owner.head.fields.progress is not None
            assert isinstance(owner.update(owner.head.fields.progress), Updated)

    store = MemoryStore(before=wake)
    owner = claim(store, "p1")
    store_progress(store, owner)
    store.modified[head_key("p1")] -= timedelta(seconds=ALLOWED_S + 5)
    waking.append(owner)
    courier = Courier()

    report = reconciler(store, courier).reconcile("p1")

    assert waking == []
    assert (report.result, report.lost, courier.sent) == ("running", False, [])
    assert (head(store, "p1")["state"], head(store, "p1")["claim_id"]) == ("claimed", "claim-1")
    settle(owner)


def test_one_pipeline_that_fails_stops_none_of_the_others() -> None:
    def down(operation: str, key: str) -> None:
        if operation == "get" and key == head_key("down"):
            raise StoreError("unreachable", "The store is down.")
        if operation == "get" and key == head_key("defect"):
            raise LookupError("a defect")

    store = MemoryStore(before=down)
    for name in ("aa", "defect", "down", "zz"):
        settle(claim(store, name))
    reports, summary = outcome(reconciler(store))
    assert {name: report.result for name, report in reports.items()} == {
        "aa": "delivered",
        "defect": "defect",
        "down": "failed",
        "zz": "delivered",
    }
    assert summary.exit == 70


def test_a_list_that_breaks_off_is_said_and_what_was_found_is_done() -> None:
    class Breaking(MemoryStore):
        def list(self, prefix: str) -> Any:
            yield from list(super().list(prefix))[:1]
            raise StoreError("unreachable", "The store is down.")

    store = Breaking()
    settle(claim(store, "p1"))
    settle(claim(store, "p2"))
    reports, summary = outcome(reconciler(store))
    assert reports["p1"].result == "delivered"
    assert (summary.exit, summary.error) == (75, "The store is down.")
