"""The server's application without its orchestrator, over a database in a folder: requests go in by ASGI."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from checkpoint.store.file_store import FileStore
from runner.logs import configure_logs
from runner.secrets import Secrets
from runner.server.app import build_app
from runner.server.database import Database
from runner.server.live import Changes
from runner.server.service import Service
from runner.server.settings import Folder, Token
from runner.server.transcripts import Transcripts
from tests.unit.settlement.samples import SECRETS

TOKEN = "a-token-of-the-tests-only"
HOST = "127.0.0.1:8080"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def a_service(path: Path) -> Generator[Service]:
    folder = Folder(path / "serve")
    folder.make()
    database = Database(folder.database)
    try:
        store = FileStore(path / "store")
        log = configure_logs(Secrets({}))
        yield Service(database, SECRETS, Token(TOKEN), folder, Transcripts(store), Changes(), log)
    finally:
        database.close()


def application(service: Service) -> ASGIApp:
    return build_app(service, port=8080, loopback=True)


def client_of(service: Service, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=application(service))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", **options)
