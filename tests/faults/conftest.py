from collections.abc import Iterator

import pytest

from tests.e2e.conftest import no_process_is_left
from tests.faults.world import World
from tests.servers import S3Server, seaweed_server

__all__ = ["no_process_is_left", "seaweed_server"]


@pytest.fixture
def world() -> Iterator[World]:
    """Servers without S3."""
    with World().running() as world:
        yield world


@pytest.fixture
def s3_world(seaweed_server: S3Server) -> Iterator[World]:
    with World(seaweed_server).running() as world:
        yield world
