"""`runner reconcile`: bring every pipeline of a store to its end that no process brings there any more.

Terminal records that no server has acknowledged are sent again; claims whose process is dead become `lost`. Any number
of reconcilers may run at once, beside any number of pipelines: a delivery may be repeated, and a claim is taken and
settled in one compare-and-swap, made on the very head that was found dead. One pipeline that cannot be helped stops
none of the others. Refuses to touch a head that it cannot read.
"""

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.errors import CheckpointError, DamagedRecord, StoreError
from checkpoint.head import Fenced, Head
from checkpoint.head_writer import HeadWriter, new_claim_id
from checkpoint.keys import PIPELINES, pipeline_of
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.port import ObjectStore
from runner.errors import InfrastructureError, Refused
from runner.logs import Logger, configure_logs
from runner.lost import lost_terminal
from runner.parts import Courier
from runner.reconcile_decision import IsDead, IsUntold, NothingToDo, Result, StillRunning, exit_code, what_is_due
from runner.secrets import AWS_NAMES, load_secrets, missing_secret
from runner.spec import StoreSpec, address_problem
from runner.store_access import store_opener
from runner.wiring import HttpCourier
from settlement.errors import SettlementError
from settlement.signing import CallbackSecrets
from settlement.verdict import Delivered, GaveUp, Rejected
from settlement.verdict import Refused as ServerRefused

T = TypeVar("T")

ROUNDS = 3
"""How often one head is looked at, if others change it meanwhile."""


class ReconcileOptions(Struct, frozen=True):
    """The command line's. `callback_s`: for all tries of one record; `at_once`: pipelines under way."""

    secrets_folder: Path
    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: str | None = None
    unsafe_conditions: bool = False
    insecure: bool = False
    callback_s: float = 60.0
    at_once: int = 8
    dry_run: bool = False
    as_json: bool = False


class Report(Struct, frozen=True):
    """What became of one pipeline."""

    pipeline_id: str
    result: Result
    lost: bool = False
    """Its claim was found dead, and is settled as `lost` now (in a dry run: would be)."""
    message: str | None = None


def reconcile_store(prefix: str, options: ReconcileOptions, environ: MutableMapping[str, str]) -> int:
    """Reconcile every pipeline of a store; returns the exit code. Raises RunnerError if it cannot begin."""
    secrets = load_secrets(options.secrets_folder, ["callback_secret", *AWS_NAMES], environ)
    text = secrets.get("callback_secret")
    try:
        settings = StoreSpec.model_validate(
            {
                "uri": prefix,
                "endpoint_url": options.endpoint_url,
                "region": options.region,
                "addressing_style": options.addressing_style,
            }
        )
        store: ObjectStore = store_opener(settings, Path.cwd(), secrets)(prefix)
        signing = None if text is None else CallbackSecrets.parse(text)
        now = store.now()
    except (StoreError, SettlementError) as error:
        if isinstance(error, StoreError) and error.reason not in ("misconfigured", "missing_bucket"):
            raise InfrastructureError(error.reason, error.message) from error
        raise Refused(error.reason, [error.message]) from None
    except ValueError as error:
        raise Refused("not_a_store", [f"{prefix!a} is no address of a store: {error}"]) from None
    log = configure_logs(secrets)
    courier = None if signing is None else HttpCourier(signing, log)
    reconciler = Reconciler(store, courier, log, options, now)
    show = _json_line if options.as_json else _text_line
    return reconciler.run(lambda line: _print(show(line)))


class Summary(Struct, frozen=True):
    reports: int
    counts: dict[str, int]
    lost: int
    exit: int
    error: str | None
    """Why the list of pipelines is not complete."""


class Reconciler:
    """`now`: the store's own time, taken before anything is looked at: what is written later is younger than that."""

    def __init__(
        self, store: ObjectStore, courier: Courier | None, log: Logger, options: ReconcileOptions, now: datetime
    ) -> None:
        self._store = store
        self._courier = courier
        self._log = log
        self._options = options
        self._now = now
        self._proving = threading.Lock()
        self._proven = options.unsafe_conditions

    def run(self, show: "Callable[[Report | Summary], None]") -> int:
        """Every pipeline, a few at once; `show` is told of each as it is done, and of all at last."""
        counts: Counter[Result] = Counter()
        lost, error = 0, None

        def done(futures: set[Future[Report]]) -> None:
            nonlocal lost
            for future in futures:
                report = future.result()
                counts[report.result] += 1
                lost += report.lost
                show(report)

        with ThreadPoolExecutor(self._options.at_once, thread_name_prefix="reconcile") as pool:
            waiting: set[Future[Report]] = set()
            try:
                for pipeline_id in self._pipelines():
                    if len(waiting) >= 2 * self._options.at_once:
                        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                        done(ended)
                    waiting.add(pool.submit(self.reconcile, pipeline_id))
            except StoreError as broken:
                error = broken.message
            done(wait(waiting).done)
        results = set(counts)
        if error is not None:
            results.add("failed")
        summary = Summary(counts.total(), dict(sorted(counts.items())), lost, exit_code(results), error)
        show(summary)
        return summary.exit

    def _pipelines(self) -> Iterator[str]:
        for found in self._store.list(PIPELINES):
            pipeline_id = pipeline_of(found.key)
            if pipeline_id is not None:
                yield pipeline_id

    def reconcile(self, pipeline_id: str) -> Report:
        """One pipeline, to whatever end can be reached now. Never raises."""
        try:
            return self._reconcile(pipeline_id)
        except DamagedRecord as error:
            return Report(pipeline_id, "damaged", message=error.message)
        except StoreError as error:
            damaged = error.reason == "too_large"  # no head is
            return Report(pipeline_id, "damaged" if damaged else "failed", message=error.message)
        except CheckpointError as error:
            return Report(pipeline_id, "failed", message=error.message)
        except Exception as error:  # noqa: BLE001 - of one pipeline: the others are not to suffer from it
            self._log.exception("defect", pipeline_id=pipeline_id)
            return Report(pipeline_id, "defect", message=f"a defect of the runner ({type(error).__name__}): report it")

    def _reconcile(self, pipeline_id: str) -> Report:
        lost = False
        for _ in range(ROUNDS):
            writer = HeadWriter(self._store, pipeline_id)
            head = writer.read()
            if head is None:
                return Report(pipeline_id, "settled", message="its head was removed meanwhile")
            if writer.modified is None:
                return Report(pipeline_id, "failed", message="the store does not say when the head was written")
            if head.fields.pipeline_id != pipeline_id:
                raise DamagedRecord(pipeline_id, f"the head is that of pipeline {head.fields.pipeline_id}")
            match what_is_due(head.fields, (self._now - writer.modified).total_seconds()):
                case NothingToDo():
                    return Report(pipeline_id, "settled", lost, head.fields.state)
                case StillRunning(for_s):
                    return Report(pipeline_id, "running", message=f"not dead for another {for_s:.0f} s at least")
                case IsUntold(url):
                    return replace(self._tell(writer, head, url), lost=lost)
                case IsDead(silent_s):
                    if self._options.dry_run:
                        return Report(pipeline_id, "due", lost=True, message="dead: would be settled as lost")
                    lost = self._settle_as_lost(writer, head, silent_s) or lost
        return Report(pipeline_id, "running", lost, "others are changing it")

    def _settle_as_lost(self, writer: HeadWriter, head: Head, silent_s: float) -> bool:
        """Whether the record that stands now is ours; if not, somebody has written meanwhile."""
        self._prove()
        allowed_s = head.fields.deadline_s + head.fields.grace_s
        message = f"its process said nothing for {silent_s:.0f} s, longer than its deadline and grace ({allowed_s:g} s)"
        terminal = lost_terminal(self._store, head.fields, message)
        result = writer.settle_for_the_dead(new_claim_id(), terminal)
        return not isinstance(result, Fenced)

    def _prove(self) -> None:
        """Before the first claim is taken: that the store honours conditions."""
        with self._proving:
            if not self._proven:
                prove_conditions(self._store)
                self._proven = True

    def _tell(self, writer: HeadWriter, head: Head, url: str) -> Report:
        pipeline_id, terminal = head.fields.pipeline_id, head.fields.terminal
        assert terminal is not None, "a settled head holds its terminal record"
        if self._options.dry_run:
            return Report(pipeline_id, "due", message=f"would be delivered to {url}")
        problem = address_problem(url, insecure=self._options.insecure)
        if problem is not None:
            return Report(pipeline_id, "unacknowledged", message=f"callback_url {url}: {problem}")
        if self._courier is None:
            missing = missing_secret("callback_secret", self._options.secrets_folder)
            return Report(pipeline_id, "unacknowledged", message=missing)
        body, budget_s = terminal.body.encode(), self._options.callback_s
        verdict = in_own_loop(self._courier.deliver(url, terminal.webhook_id, body, budget_s)).verdict
        match verdict:
            case Delivered():
                self._note(writer.acknowledge, pipeline_id)
                return Report(pipeline_id, "delivered")
            case Rejected(status, reason):
                self._note(writer.reject, pipeline_id)
                return Report(pipeline_id, "rejected", message=f"HTTP {status}{f', {reason}' if reason else ''}")
            case ServerRefused(status):
                return Report(pipeline_id, "unacknowledged", message=f"the server refused it with HTTP {status}")
            case GaveUp():
                return Report(pipeline_id, "unacknowledged", message=f"not acknowledged within {budget_s:g} s")

    def _note(self, write: Callable[[], object], pipeline_id: str) -> None:
        """Best effort: the server has decided anyway."""
        try:
            write()
        except CheckpointError as error:
            self._log.warning("verdict_not_noted", pipeline_id=pipeline_id, error=error.message)


def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a loop of this thread, which waits for no look-up that hangs."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        with suppress(RuntimeError):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _json_line(said: Report | Summary) -> str:
    if isinstance(said, Report):
        fields = {"pipeline_id": said.pipeline_id, "result": said.result, "lost": said.lost, "message": said.message}
        return json.dumps({"type": "pipeline", **fields})
    fields = {"pipelines": said.reports, "results": said.counts, "lost": said.lost, "error": said.error}
    return json.dumps({"type": "reconciled", "exit": said.exit, **fields})


def _text_line(said: Report | Summary) -> str:
    if isinstance(said, Report):
        lost, message = (" (lost)" if said.lost else ""), (f": {said.message}" if said.message else "")
        return f"{said.pipeline_id} {said.result}{lost}{message}"
    counts = ", ".join(f"{count} {result}" for result, count in said.counts.items()) or "nothing found"
    broken = f"; the list is not complete: {said.error}" if said.error else ""
    pipelines = "1 pipeline" if said.reports == 1 else f"{said.reports} pipelines"
    return f"runner: {pipelines}: {counts}; {said.lost} lost{broken}"
