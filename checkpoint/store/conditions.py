"""The proof that a store honours conditional writes, taken before anything depends on it.

Some S3-compatible servers accept `If-None-Match` and `If-Match` and ignore them; on such a store two
processes could both own a pipeline. One marker object is enough to tell, and once it exists the proof costs
two small requests.
"""

import time
from collections.abc import Callable

from checkpoint.errors import StoreError
from checkpoint.keys import CONDITIONS_MARKER
from checkpoint.store.port import Conflict, ObjectStore, PreconditionFailed, PutResult, Written

_MARKER = b'{"purpose":"proves that this store honours conditional writes"}\n'
_STALE = '"00000000000000000000000000000000"'
_ROUNDS = 6
_PAUSE_S = 0.05


def prove_conditions(
    store: ObjectStore, *, unsafe_conditions: bool = False, pause: Callable[[float], None] = time.sleep
) -> None:
    """Return if the marker, once there, refuses `If-None-Match: *` and a stale `If-Match`.

    Otherwise raise `StoreError` (`unsafe_conditions`). With `unsafe_conditions` nothing is asked: the
    operator answers for there being one process per pipeline. The marker's content never matters, so any
    process may write it.
    """
    if unsafe_conditions:
        return

    def create() -> Written | PreconditionFailed:
        return _settled(store, lambda: store.put_if_absent(CONDITIONS_MARKER, _MARKER), pause)

    def replace() -> Written | PreconditionFailed:
        return _settled(store, lambda: store.put_if_match(CONDITIONS_MARKER, _MARKER, _STALE), pause)

    created = create()
    if isinstance(created, Written):
        created = create()  # it was not there, or the condition was ignored: now it must be there
    if not isinstance(created, PreconditionFailed):
        raise _unsafe(store, "an object that exists was created again (`If-None-Match: *` is ignored)")
    if not isinstance(replace(), PreconditionFailed):
        raise _unsafe(store, "an object was replaced under a wrong etag (`If-Match` is ignored)")


def _settled(
    store: ObjectStore, put: Callable[[], PutResult], pause: Callable[[float], None]
) -> Written | PreconditionFailed:
    """The answer once no other process is writing the marker."""
    for round_number in range(_ROUNDS):
        answer = put()
        if not isinstance(answer, Conflict):
            return answer
        pause(_PAUSE_S * 2**round_number)
    raise StoreError("unreachable", f"{store.address(CONDITIONS_MARKER)} stayed contended. Relaunch.")


def _unsafe(store: ObjectStore, found: str) -> StoreError:
    return StoreError(
        "unsafe_conditions",
        f"{store.address('')} does not honour conditional writes: {found}. Two processes could own one "
        "pipeline. Use another store, or set `store.unsafe_conditions` if nothing launches a pipeline twice.",
    )
