"""The loop that keeps the stored pipelines and the machine's processes in step.

Each round ends what is due, stops what nobody wants, sees which processes are gone, and starts what may start. What to
do about a process that is gone is decided in `relaunching`; every step is stored before it is taken, so that a server
killed at any point finds out where it was: `adopt` takes up processes that still run, and concludes those that do not.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from pydantic import ValidationError

from checkpoint.errors import StoreError
from runner.logs import Logger
from runner.server import launching, people, taking
from runner.server.database import Database
from runner.server.errors import DatabaseFailed
from runner.server.launching import Order
from runner.server.processes import Process
from runner.server.relaunching import GiveUp, Gone, HeadSeen, Leave, Relaunch, SettleAsLost, TakeRecord, after_exit
from runner.server.rows import Rows
from runner.server.taking import Moment
from settlement.callback import Terminal
from settlement.receiving import Problem, ReceivedTerminal
from settlement.wire import read

BUSY_ROUND_S = 0.1
SHORTEST_ROUND_S = 0.02
"""Between two rounds, however often something is stored."""
IDLE_ROUND_S = 1.0
STORE_S = 60.0
STORE_PAUSE_S = 5.0


class Processes(Protocol):
    """See `processes.LocalProcesses`."""

    def start(self, order: Order) -> Process | Gone: ...
    def find(self, pipeline_id: str, attempt: int, pid: int | None, born: str | None) -> Process | None: ...
    def gone(self, process: Process) -> Gone | None: ...
    def last_words(self, pipeline_id: str, attempt: int) -> Gone: ...
    def terminate(self, process: Process) -> None: ...
    def kill(self, process: Process) -> None: ...


class Heads(Protocol):
    """See `heads.StoredHeads`. Blocking; `look` and `settle_as_lost` raise StoreError."""

    def look(self, pipeline_id: str) -> HeadSeen: ...
    def settle_as_lost(self, pipeline_id: str, message: str) -> HeadSeen | None: ...
    def note(self, pipeline_id: str, *, taken: bool) -> None: ...


class Rules(Struct, frozen=True):
    slots: int
    max_attempts: int
    longest_s: float
    """After this a process is killed: it has not kept its own deadline."""
    grace_s: float
    """How long a process that was asked to stop may take."""


class _Todo(Struct, frozen=True):
    """What one look at the stored state finds."""

    due: bool
    launchable: bool
    unwanted: set[str]


def _look(rows: Rows, now_s: float) -> _Todo:
    return _Todo(bool(rows.due_tasks(now_s, 1)), bool(rows.launchable(now_s, 1)), rows.unwanted_pipelines())


class _Live:
    def __init__(self, process: Process, since: float) -> None:
        self.process = process
        self.since = since
        self.asked_to_stop: float | None = None


class Orchestrator:
    def __init__(
        self,
        database: Database,
        processes: Processes,
        heads: Heads,
        rules: Rules,
        log: Logger,
        moment: Callable[[], Moment],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._processes = processes
        self._heads = heads
        self._rules = rules
        self._log = log
        self._moment = moment
        self._clock = clock
        self._live: dict[str, _Live] = {}
        self._concluding: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something was stored: look now. To be called in the loop's own thread."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. Processes go on running then."""
        await self.adopt()
        while True:
            self._wake.clear()
            try:
                await self.round()
            except DatabaseFailed as error:
                self._log.error("round_failed", error=error.message)
            wait_s = BUSY_ROUND_S if self._live else IDLE_ROUND_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)
            await asyncio.sleep(SHORTEST_ROUND_S)

    async def adopt(self) -> None:
        """Take up what an earlier server left."""
        for row, attempt in await self._database.read(launching.launched):
            process = await asyncio.to_thread(
                self._processes.find, row.pipeline_id, attempt.attempt, attempt.pid, attempt.born
            )
            if process is None:
                gone = self._processes.last_words(row.pipeline_id, attempt.attempt)
                self._log.info("process_not_found", pipeline_id=row.pipeline_id, attempt=attempt.attempt)
                self._conclude_later(row.pipeline_id, gone)
            else:
                self._log.info("process_adopted", pipeline_id=row.pipeline_id, pid=process.pid)
                await self._started(process)

    async def round(self) -> None:
        moment = self._moment()
        todo = await self._database.read(lambda rows: _look(rows, moment.now_s))
        if todo.due:
            for task in await self._database.write(lambda rows: people.expire_tasks(rows, moment)):
                self._log.info("reply_timeout", task_id=task.task_id, session_id=task.session_id)
        self._stop_what_nobody_wants(todo.unwanted)
        for live in tuple(self._live.values()):
            gone = self._processes.gone(live.process)
            if gone is not None:
                del self._live[live.process.pipeline_id]
                self._conclude_later(live.process.pipeline_id, gone)
        if todo.launchable:
            await self._launch(moment)

    # --- starting and stopping ------------------------------------------------------------------------------

    async def _launch(self, moment: Moment) -> None:
        free = self._rules.slots - len(self._live)
        if free <= 0:
            return
        for order in await self._database.write(lambda rows: launching.begin_launches(rows, free, moment)):
            started = await asyncio.to_thread(self._processes.start, order)
            if isinstance(started, Gone):
                self._conclude_later(order.pipeline_id, started)
            else:
                self._log.info("process_started", pipeline_id=order.pipeline_id, attempt=order.attempt, pid=started.pid)
                await self._started(started)

    async def _started(self, process: Process) -> None:
        self._live[process.pipeline_id] = _Live(process, self._clock())
        await self._database.write(
            lambda rows: rows.mark_started(process.pipeline_id, process.attempt, process.pid, process.born)
        )

    def _stop_what_nobody_wants(self, unwanted: set[str]) -> None:
        now = self._clock()
        for pipeline_id, live in self._live.items():
            if live.asked_to_stop is None and pipeline_id in unwanted:
                live.asked_to_stop = now
                self._log.info("process_asked_to_stop", pipeline_id=pipeline_id)
                self._processes.terminate(live.process)
            overdue = live.asked_to_stop is not None and now - live.asked_to_stop > self._rules.grace_s
            if overdue or now - live.since > self._rules.longest_s:
                self._log.warning("process_killed", pipeline_id=pipeline_id)
                self._processes.kill(live.process)

    # --- what became of a process ---------------------------------------------------------------------------

    def _conclude_later(self, pipeline_id: str, gone: Gone) -> None:
        """Beside the rounds: the store may be slow, and the others must not wait for it."""
        task = asyncio.create_task(self._conclude(pipeline_id, gone))
        self._concluding.add(task)
        task.add_done_callback(self._concluding.discard)

    async def _conclude(self, pipeline_id: str, gone: Gone) -> None:
        while True:
            try:
                concluded = await self._conclude_once(pipeline_id, gone)
            except (StoreError, DatabaseFailed, TimeoutError) as error:
                self._log.warning("conclusion_waits", pipeline_id=pipeline_id, error=str(error))
                await asyncio.sleep(STORE_PAUSE_S)
            else:
                if concluded:
                    self._wake.set()
                    return

    async def _conclude_once(self, pipeline_id: str, gone: Gone) -> bool:
        """False: the head was written meanwhile, so it is to be looked at again."""
        standing = await self._database.read(lambda rows: launching.stand(rows, pipeline_id))
        head = HeadSeen("none")
        if not standing.judged:
            head = await asyncio.wait_for(asyncio.to_thread(self._heads.look, pipeline_id), STORE_S)
        found = after_exit(
            gone,
            head,
            judged=standing.judged,
            over=standing.over,
            attempt=standing.attempt,
            max_attempts=self._rules.max_attempts,
        )
        self._log.info(
            "process_gone",
            pipeline_id=pipeline_id,
            exit=gone.exit_code,
            reason=gone.reason,
            then=type(found).__name__,
        )

        def conclude(rows: Rows, ending: Leave | Relaunch | GiveUp) -> None:
            launching.conclude(rows, pipeline_id, gone, ending, self._moment())

        match found:
            case SettleAsLost(message, ending):
                settling = asyncio.to_thread(self._heads.settle_as_lost, pipeline_id, message)
                settled = await asyncio.wait_for(settling, STORE_S)
                if settled is None or settled.body is None:
                    return False
                # in one transaction, and the ending first: the record knows of no reason but `lost`
                await self._take_record(pipeline_id, settled.body, first=lambda rows: conclude(rows, ending))
            case TakeRecord(body):
                taken = await self._take_record(pipeline_id, body)
                await self._database.write(lambda rows: conclude(rows, taken))
            case _:
                await self._database.write(lambda rows: conclude(rows, found))
        return True

    async def _take_record(
        self, pipeline_id: str, body: str, first: Callable[[Rows], None] | None = None
    ) -> Leave | GiveUp:
        """Judge a record that nobody delivered; it comes from our own store, so it needs no signature."""
        raw = body.encode()
        try:
            terminal = read(Terminal, raw)
        except ValidationError as error:
            return GiveUp("rejected", f"the stored record is not one this server understands ({error.title})")
        received = ReceivedTerminal(terminal, "sha256:" + hashlib.sha256(raw).hexdigest())

        def take(rows: Rows) -> Problem | None:
            if first is not None:
                first(rows)
            return taking.take_terminal(rows, received, body, self._moment())

        problem = await self._database.write(take)
        self._log.info("record_taken_from_store", pipeline_id=pipeline_id, refused=problem and problem.reason)
        with suppress(TimeoutError):
            noting = asyncio.to_thread(self._heads.note, pipeline_id, taken=problem is None)
            await asyncio.wait_for(noting, STORE_S)
        return Leave() if problem is None else GiveUp("rejected", problem.detail)
