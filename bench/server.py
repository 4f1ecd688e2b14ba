"""The server: callbacks a second with every commit durable, and a reply routed among ten thousand waiting tasks.

`callbacks_per_second` is the real server process over loopback HTTP, asked by this one with signed callbacks on a few
connections, each for a pipeline of its own; each is answered once its transaction is flushed. `route_reply` is what a
chat message takes within its transaction: found, decided, stored; without HTTP and the flush.
"""

import asyncio
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import BenchFailed, Figure, child_environment
from runner.server.database import Database
from runner.server.people import take_message
from runner.server.rows import Rows
from runner.server.taking import Moment, save_task
from settlement.callback import CheckpointRef, SuccessSettlement, Terminal, Timings, Usage, to_body, webhook_id
from settlement.commit_rule import Card
from settlement.question import build_question
from settlement.question import to_body as question_body
from settlement.routing import CardPlace, from_api
from settlement.signing import CallbackSecrets, webhook_headers
from settlement.tasks import Task, TaskState

CALLBACKS = 1000
CONNECTIONS = 16
WANTED_PER_S = 200.0
WAITING = 10_000
REPLIES = 60
ROUTE_LIMIT_MS = 5.0
START_S = 30.0


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-server-") as folder:
        per_second = _callbacks_per_second(Path(folder) / "callbacks")
        # As times of one callback, so that the ratio is small where the server is fast.
        yield Figure("server_callback_ms", 1000 / per_second, 1000 / WANTED_PER_S, "ms", 1.0, CALLBACKS)
        for name, platform, people in (("exact", "chat", WAITING), ("bare", None, WAITING), ("of_one", "chat", 1)):
            took_ms = _route_ms(Path(folder) / f"{name}.sqlite", platform, people)
            yield Figure(f"server_route_reply_{name}_ms", took_ms, ROUTE_LIMIT_MS, "ms", 1.0, REPLIES)


# --- callbacks ----------------------------------------------------------------------------------------------


def _callbacks_per_second(folder: Path) -> float:
    folder.mkdir()
    (folder / "script.json").write_text('{"responses": []}')
    (folder / "template.json").write_text('{"agent": {"model": {"api": "scripted", "script": "script.json"}}}')
    with _Serving(folder) as url:
        secrets = CallbackSecrets.parse((folder / "private" / "callback_secret").read_text())
        _store_launched(folder / "private" / "server.sqlite", CALLBACKS)
        return asyncio.run(_send_all(url, secrets))


class _Serving:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "runner", "serve", "--folder", str(folder)]
        self._process = subprocess.Popen(
            command, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> str:
        assert self._process.stdout is not None, "a pipe was asked for"
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailed("the server did not start")
        return json.loads(line)["url"]

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(START_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _store_launched(path: Path, count: int) -> None:
    """Pipelines, each in a session of its own, stored behind the server's back: it need not look after them."""
    connection = sqlite3.connect(path, timeout=10, isolation_level=None)
    rows = Rows(connection)
    connection.execute("BEGIN IMMEDIATE")
    for number in range(count):
        task = Task(f"t{number}", f"s{number}", TaskState.RUNNING)
        rows.add_session(task.session_id, f"stream{number}", "chat:ann", time.time())
        rows.add_task(task, "Deploy.", time.time())
        rows.add_pipeline(f"p{number}", task.session_id, task.task_id, {}, time.time())
        rows.mark_ended(f"p{number}", None, time.time())
    connection.execute("COMMIT")
    connection.close()


async def _send_all(url: str, secrets: CallbackSecrets) -> float:
    """How many a second are answered 2xx. The client is a plain socket: it shall not take the server's share."""
    bodies = [(number, _terminal(number)) for number in range(CALLBACKS)]
    host, _, port = url.removeprefix("http://").partition(":")

    async def work() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        while bodies:
            number, body = bodies.pop()
            headers = webhook_headers(secrets, webhook_id(f"p{number}"), int(time.time()), body)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"POST /v1/terminals HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
            writer.write(head.encode() + body)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            if not answer.startswith(b"HTTP/1.1 204"):
                raise BenchFailed(f"a callback was answered {answer.splitlines()[0].decode()}")
        writer.close()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(work())
    return CALLBACKS / (time.perf_counter() - began)


def _terminal(number: int) -> bytes:
    digest = f"sha256:{number:064x}"
    checkpoint = CheckpointRef(
        decision="commit",
        manifest=f"sessions/s{number}/checkpoints/p{number}.1.c.json",
        digest=digest,
        parent=None,
        entries=12,
        bytes=40960,
        leaf_id="e0000009",
        resumable=True,
    )
    at = "2026-07-31T10:00:00.000Z"
    return to_body(
        Terminal(
            pipeline_id=f"p{number}",
            attempt=1,
            session_id=f"s{number}",
            labels={},
            settlement=SuccessSettlement(text="Deployed. " * 40),
            questions=(),
            checkpoint=checkpoint,
            input_consumed=True,
            undelivered=(),
            warnings=(),
            usage=Usage(),
            timings=Timings(started_at=at, settled_at=at, restore_ms=1, agent_ms=1, upload_ms=1),
            runner="1.0.0",
        )
    )


# --- routing ------------------------------------------------------------------------------------------------


def _route_ms(path: Path, platform: str | None, people: int) -> float:
    """The median of replies among all that wait in one stream: of random people, or of the one who has them all."""
    database = Database(path)
    try:
        database.submit(lambda rows: _store_waiting(rows, people)).result(120)
        chosen = random.Random(1).sample(range(WAITING), REPLIES) if people > 1 else range(REPLIES)
        return statistics.median(_reply_ms(database, number, platform, number % people) for number in chosen)
    finally:
        database.close()


def _reply_ms(database: Database, number: int, platform: str | None, person: int) -> float:
    """`number`: the task that is to be woken."""
    message = from_api("room", platform, f"person{person}", "staging")
    moment = Moment(time.time(), lambda: f"next{number}")

    def timed(rows: Rows) -> tuple[object, float]:
        began = time.perf_counter()
        answer = take_message(rows, message, f"r{number}", moment)
        return answer, (time.perf_counter() - began) * 1000

    answer, took_ms = database.submit(timed).result(60)
    if not isinstance(answer, dict) or answer["task_id"] != f"t{number}":
        raise BenchFailed(f"the reply to task {number} went elsewhere: {answer}")
    return took_ms


def _store_waiting(rows: Rows, people: int) -> None:
    moment = Moment(time.time(), lambda: "none")
    for number in range(WAITING):
        session_id, task_id, pipeline_id, owner = (
            f"s{number}",
            f"t{number}",
            f"p{number}",
            f"chat:person{number % people}",
        )
        asked = build_question(
            pipeline_id=pipeline_id,
            attempt=1,
            session_id=session_id,
            entry_id="e1",
            tool_call_id="call_1",
            tool_name="ask_user",
            asked_at="2026-07-31T10:00:00.000Z",
            question="Staging or production?",
        )
        rows.add_session(session_id, "room", owner, moment.now_s)
        rows.add_task(Task(task_id, session_id), "Deploy.", moment.now_s)
        rows.add_pipeline(pipeline_id, session_id, task_id, {}, moment.now_s)
        card = Card(asked.question_id, "call_1", "sha256:" + "0" * 64)
        place = CardPlace(asked.question_id, pipeline_id, task_id, "room", owner)
        rows.add_card(card, place, "Staging or production?", question_body(asked).decode())
        save_task(rows, Task(task_id, session_id, TaskState.WAITING_INPUT), moment)
