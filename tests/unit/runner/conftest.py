import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The process runs on asyncio; so do its tests."""
    return "asyncio"
