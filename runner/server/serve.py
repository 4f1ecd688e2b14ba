"""`runner serve`: opens folder, port and database, and runs the application and the orchestrator in one loop.

Refuses to share its folder with another server. Signals end it in good order; its pipelines run on and are taken up
by the next start.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from checkpoint.errors import StoreError
from checkpoint.store.port import ObjectStore
from runner.exits import Exit
from runner.logs import configure_logs
from runner.secrets import AWS_NAMES, Secrets, load_secrets
from runner.server.app import build_app
from runner.server.database import Database
from runner.server.errors import ServeRefused
from runner.server.heads import StoredHeads
from runner.server.live import Changes
from runner.server.orchestrator import Orchestrator, Rules
from runner.server.processes import LocalProcesses
from runner.server.service import Service
from runner.server.settings import CommandTemplate, Folder, ServeOptions, Token, callback_secrets, load_token
from runner.server.template import Template, load_template
from runner.server.transcripts import Transcripts
from runner.spec import StoreSpec, is_loopback
from runner.store_access import store_opener

DRAIN_S = 3
SWITCH_S = 0.0005
"""The writing thread gives the interpreter up at each statement; it must not wait long to get it back."""
MARGIN_S = 60.0
"""What a process may take beyond its own deadlines before it is killed."""
STOP_MARGIN_S = 10.0


def serve(options: ServeOptions) -> int:
    """Until a signal comes; returns the exit code. Raises RunnerError for everything that prevents it."""
    folder = Folder(options.folder)
    folder.make()
    lock = _lock(folder)
    try:
        template = load_template(options.template, folder)
        command = None if options.command is None else CommandTemplate(options.command)
        signing, token = callback_secrets(folder), load_token(folder, options.token_file)
        secrets = load_secrets(folder.private, ["callback_secret", *AWS_NAMES], {})
        log = configure_logs(Secrets({**secrets.values(), "token": token.text}))
        listening = _listen(options, folder)
        database = Database(folder.database)
        try:
            _remove_old_runs(database, folder)
            port = listening.getsockname()[1]
            url = f"http://{_shown_host(options.host)}:{port}"
            settings = template.example.store
            store = _open_store(settings, folder, secrets)
            orchestrator_of = _orchestrator(options, template, command, folder, StoredHeads(store), url)
            for stop_signal in (signal.SIGTERM, signal.SIGINT):
                signal.signal(stop_signal, _ignore)  # uvicorn raises it again once everything is closed

            async def run() -> int:
                changes = Changes()
                service = Service(
                    database, signing, token, folder, Transcripts(store), changes, log, options.reply_timeout_s
                )
                orchestrator = orchestrator_of(service)
                return await _run(service, orchestrator, listening, url, loopback=is_loopback(options.host))

            sys.setswitchinterval(SWITCH_S)
            return asyncio.run(run())
        finally:
            database.close()
            listening.close()
    finally:
        os.close(lock)


async def _run(
    service: Service, orchestrator: Orchestrator, listening: socket.socket, url: str, *, loopback: bool
) -> int:
    loop = asyncio.get_running_loop()

    def look() -> None:
        service.changes.tell()
        orchestrator.wake()

    def on_commit() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(look)

    service.database.on_commit(on_commit)
    app = build_app(service, port=listening.getsockname()[1], loopback=loopback)
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN_S,
    )
    web = _Web(config, service.changes)
    orchestrating = asyncio.create_task(orchestrator.run())
    orchestrating.add_done_callback(lambda _: web.stop())
    _say(url, service.token, service.folder)
    service.log.info("serving", url=url, folder=str(service.folder.path))
    await web.serve([listening])
    if orchestrating.done() and not orchestrating.cancelled():
        service.log.error("orchestrator_ended", error=repr(orchestrating.exception()))
        return Exit.DEFECT
    orchestrating.cancel()
    with suppress(asyncio.CancelledError):
        await orchestrating
    return Exit.ACKNOWLEDGED


class _Web(uvicorn.Server):
    """Ends the readers of events as soon as it is told to stop: they would wait for ever."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    def stop(self) -> None:
        self.should_exit = True
        self._changes.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._changes.close()


def _orchestrator(
    options: ServeOptions,
    template: Template,
    command: CommandTemplate | None,
    folder: Folder,
    heads: StoredHeads,
    url: str,
) -> Callable[[Service], Orchestrator]:
    limits = template.example.limits
    processes = LocalProcesses(folder, template, command, url)
    rules = Rules(
        options.slots,
        options.attempts,
        limits.deadline_s + limits.callback_s + MARGIN_S,
        limits.grace_s + STOP_MARGIN_S,
    )

    def build(service: Service) -> Orchestrator:
        return Orchestrator(service.database, processes, heads, rules, service.log, service.moment)

    return build


def _open_store(settings: StoreSpec, folder: Folder, secrets: Secrets) -> ObjectStore:
    try:
        return store_opener(settings, folder.path, secrets)(settings.uri)
    except StoreError as error:
        raise ServeRefused(f"template: store: {error.message}") from None


def _lock(folder: Folder) -> int:
    descriptor = os.open(folder.private / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ServeRefused(f"another server uses {folder.path}: stop it, or name another folder") from None
    return descriptor


def _listen(options: ServeOptions, folder: Folder) -> socket.socket:
    """The port asked for, or the one of the last start: processes of then still call it. Raises ServeRefused."""
    wanted = [options.port] if options.port else [*_last_port(folder), 0]
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    problem = ""
    for port in wanted:
        try:
            listening = socket.create_server((options.host, port), family=family, backlog=256)
        except OSError as error:
            problem = f"{options.host}:{port} cannot be listened on ({error.strerror})"
            continue
        folder.port.write_text(str(listening.getsockname()[1]))
        return listening
    raise ServeRefused(f"{problem}: choose another --port or --host")


def _last_port(folder: Folder) -> list[int]:
    try:
        return [int(folder.port.read_text())]
    except (OSError, ValueError):
        return []


def _shown_host(host: str) -> str:
    """As runners and browsers on this machine reach it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _remove_old_runs(database: Database, folder: Folder) -> None:
    """What pipelines that have ended left in files; their sessions are in the store."""
    at_work = database.read_now(lambda rows: {row.pipeline_id for row in rows.launched_pipelines()})
    for run in folder.runs.iterdir():
        if run.name.rpartition(".")[0] not in at_work:
            shutil.rmtree(run, ignore_errors=True)


def _say(url: str, token: Token, folder: Folder) -> None:
    """The link with the token is for the terminal of whoever started the server; a file or a pipe gets the address."""
    if sys.stdout.isatty():
        sys.stdout.write(f"runner: open {token.link(url)}\n")
    else:
        sys.stdout.write(json.dumps({"type": "serving", "url": url, "folder": str(folder.path)}) + "\n")
    sys.stdout.flush()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Nothing is left to do: uvicorn has closed everything."""
