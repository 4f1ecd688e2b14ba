"""structlog without rich.

Where rich is installed, structlog imports it for tracebacks that are never printed here, which costs a process that
lives for one run 60 ms of its start. rich itself stays importable for everybody else.
"""

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_missing = "rich" not in _modules
if _missing:
    _modules["rich"] = None  # "not installed", as the import system has it
try:
    import structlog
finally:
    if _missing:
        del _modules["rich"]

__all__ = ["structlog"]
