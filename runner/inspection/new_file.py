"""A file that is there whole or not at all: written beside its place, synced, then put there."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from runner.errors import Refused


@contextmanager
def new_file(path: Path, *, force: bool) -> Generator[BinaryIO]:
    """Write to a hidden neighbour of `path`, which takes its place when the block ends without an error.

    Without `force` an existing file is refused, also one that comes into being meanwhile. Raises Refused (exit 78) for
    whatever the disk refuses.
    """
    if not force and path.exists():
        raise _exists(path)
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            beside.replace(path)
        else:
            os.link(beside, path)  # unlike a rename, it fails if the file is there
    except FileExistsError:
        raise _exists(path) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused("output_failed", [f"{path} cannot be written: {error.strerror or error}"]) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _exists(path: Path) -> Refused:
    return Refused("output_exists", [f"{path} exists: name another file, or overwrite it with --force"])
