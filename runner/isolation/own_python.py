"""How a module of this package is run by a bare interpreter, in a confinement or on the way into one.

By the folder of the package, because the folder that holds it may not be readable there; and as an import, because
Python keeps the byte code of what is imported, but compiles a script anew each time.
"""

import sys
from pathlib import Path

import runner

_PROGRAM = """
import sys
package = sys.modules["runner"] = type(sys)("runner")
package.__path__ = [sys.argv.pop(1)]
from runner.isolation.{module} import main
main()
"""
_PACKAGE = str(Path(str(runner.__file__)).resolve().parent)


def run_module(module: str) -> list[str]:
    """The beginning of a command that calls `main` of `runner.isolation.<module>`: no site packages, no environment."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module=module), _PACKAGE]
