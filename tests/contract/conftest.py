"""The stores that the contract is checked on."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from checkpoint.store.file_store import FileStore
from checkpoint.store.port import ObjectStore
from tests.fakes.memory_store import MemoryStore
from tests.servers import S3Server, moto_server, seaweed_server

__all__ = ["moto_server", "seaweed_server"]

StoreKind: TypeAlias = str
_KINDS = ["memory", "file", "moto", pytest.param("seaweed", marks=pytest.mark.seaweedfs)]


@pytest.fixture(params=_KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind; on a server: a prefix of its own."""
    makers: dict[StoreKind, Callable[[], ObjectStore]] = {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path / "store"),
        "moto": lambda: _server(request, "moto_server").new_store(),
        "seaweed": lambda: _server(request, "seaweed_server").new_store(),
    }
    return makers[str(request.param)]()


def _server(request: pytest.FixtureRequest, name: str) -> S3Server:
    server = request.getfixturevalue(name)
    assert isinstance(server, S3Server)
    return server
