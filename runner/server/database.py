"""The server's database file: one thread that writes, in groups, and a pool of readers.

SQLite in WAL mode with `synchronous=FULL`: an answer is given only once its transaction is on the disk. Requests that
come together share one commit, and so one flush, yet each is its own savepoint: one that fails takes nothing with it.
Transactions begin `IMMEDIATE`, so that a second process on the same file decides on what the first one left.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from runner.server.errors import DatabaseFailed
from runner.server.rows import Rows
from runner.server.schema import SCHEMA, SCHEMA_VERSION

GROUP = 64
"""How many transactions share a commit, at most."""
BUSY_S = 10.0
CLOSE_S = 30.0
READERS = 2
T = TypeVar("T")


class _Waiting(Struct, frozen=True):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


_Awaiting: TypeAlias = Future[Any] | _Waiting
_Job: TypeAlias = tuple[Callable[[Rows], Any], _Awaiting]


class Database:
    """Thread-safe. A job gets `Rows`, returns a value, and may raise: then nothing of it is kept."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file. Raises DatabaseFailed if it is not one of ours."""
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        self._local = threading.local()
        self._read_connections: list[sqlite3.Connection] = []
        self._connected = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        try:
            self._connection = _connect(path)
            _prepare(self._connection)
        except sqlite3.Error as error:
            raise DatabaseFailed(f"{path} cannot be used ({error}): is it the server's own file?") from error
        path.chmod(0o600)
        self._thread = threading.Thread(target=self._work, name="database", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """After what was asked for has been written."""
        self._jobs.put(None)
        self._thread.join(CLOSE_S)
        self._readers.shutdown()
        for connection in (*self._read_connections, self._connection):
            connection.close()

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Called by the writing thread after each commit."""
        self._listeners.append(listener)

    def submit(self, job: Callable[[Rows], T]) -> "Future[T]":
        """Done once the job's transaction is durable."""
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    async def write(self, job: Callable[[Rows], T]) -> T:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        self._jobs.put((job, _Waiting(loop, waiting)))
        return await waiting

    async def read(self, job: Callable[[Rows], T]) -> T:
        """The job must not write. It sees what was committed when it began."""
        return await asyncio.wrap_future(self._readers.submit(self.read_now, job))

    def read_now(self, job: Callable[[Rows], T]) -> T:
        """The same in this thread."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            with self._connected:
                self._read_connections.append(connection)
        connection.execute("BEGIN")
        try:
            return job(Rows(connection))
        finally:
            connection.execute("ROLLBACK")

    # --- the writing thread ---------------------------------------------------------------------------------

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            group, last = [first], False
            while len(group) < GROUP and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    last = True
                    break
                group.append(following)
            self._commit(group)
            if last:
                return

    def _commit(self, group: list[_Job]) -> None:
        results: list[tuple[_Awaiting, Any, BaseException | None]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [(future, *self._savepoint(job)) for job, future in group]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failed = DatabaseFailed(f"{self._path} cannot be written ({error})")
            results = [(future, None, failed) for _, future in group]
        _tell(results)
        for listener in self._listeners:
            listener()

    def _savepoint(self, job: Callable[[Rows], T]) -> tuple[T | None, BaseException | None]:
        self._connection.execute("SAVEPOINT job")
        try:
            result = job(Rows(self._connection))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever gave the job
            self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
            return None, error
        self._connection.execute("RELEASE job")
        return result, None


def _tell(results: "list[tuple[_Awaiting, Any, BaseException | None]]") -> None:
    """Each job's end to whoever waits for it; a loop is woken once for the whole group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, BaseException | None]]] = {}
    for waiting, result, error in results:
        if isinstance(waiting, _Waiting):
            by_loop.setdefault(waiting.loop, []).append((waiting.future, result, error))
        elif error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(result)
    for loop, ended in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle, ended)


def _settle(ended: "list[tuple[asyncio.Future[Any], Any, BaseException | None]]") -> None:
    for future, result, error in ended:
        if future.done():  # whoever waited has left
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    with closing(connection.execute("PRAGMA user_version")) as found:
        version = found.fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"its schema is version {version}, this server's is {SCHEMA_VERSION}")
    connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
