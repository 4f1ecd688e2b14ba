from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.replaying import Recorded, echo
from tests.e2e.scene import OWN_TOOLS, RUNNING, Scene, calls, text
from tests.fakes.callback_server import CallbackServer


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """A test that fails leaves no process behind."""
    yield
    for started in tuple(RUNNING):
        started.end()


@pytest.fixture
def server() -> Iterator[CallbackServer]:
    with CallbackServer() as server:
        yield server


@pytest.fixture
def scene(tmp_path: Path, server: CallbackServer) -> Scene:
    """A scene whose server is a real one on loopback."""
    return Scene(tmp_path, server.base_url, server.secret)


@pytest.fixture
def local_scene(tmp_path: Path) -> Scene:
    """A scene without a server."""
    return Scene(tmp_path, None, None)


@pytest.fixture
def recorded(local_scene: Scene) -> Recorded:
    run = local_scene.run(local_scene.spec([calls(echo()), text("All done.")], agent=OWN_TOOLS))
    return local_scene, run.terminal, local_scene.entries(run.terminal)
