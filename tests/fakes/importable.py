"""A folder whose modules and installed packages can be imported for a while."""

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def importable(folder: Path) -> Generator[None]:
    """Modules that are imported from it are forgotten afterwards."""
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        importlib.invalidate_caches()
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
