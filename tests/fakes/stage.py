"""Lets several threads use one store in an order that a test decides, one call at a time, with faults
between.

Each actor's call waits until `Stage.step` picks it. A fault makes the caller see `StoreError`: the request
was lost, its answer was lost after it took effect, or it was delayed and takes effect at a later step, when
its sender has given up.
"""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TypeVar

from checkpoint.errors import StoreError
from checkpoint.store.port import ListedObject, PutResult, StoredObject
from tests.fakes.memory_store import MemoryStore

_WAIT_S = 20.0
_Result = TypeVar("_Result")


class Fault(Enum):
    NONE = "none"
    LOST_REQUEST = "lost request"
    LOST_ANSWER = "lost answer"
    DELAYED = "delayed"


class Stage:
    """Actors are functions that get a store of their own, over the same objects."""

    def __init__(self, store: MemoryStore, actors: list[Callable[["ActorStore"], None]]) -> None:
        self._changed = threading.Condition()
        self._running = len(actors)
        self._waiting: list[tuple[int, threading.Event, list[Fault]]] = []
        self._delayed: list[Callable[[], object]] = []
        self.store = store
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(actor, ActorStore(self, number)), daemon=True)
            for number, actor in enumerate(actors)
        ]
        for thread in self._threads:
            thread.start()

    def step(self, choice: int, fault: Fault) -> bool:
        """Let one waiting call, or one delayed request, happen; False if nothing is left to happen."""
        with self._changed:
            self._settle()
            waiting = sorted(self._waiting, key=lambda call: call[0])
            if not waiting and not self._delayed:
                return False
            picked = choice % (len(waiting) + len(self._delayed))
            if picked >= len(waiting):
                self._delayed.pop(picked - len(waiting))()
                return True
            call = waiting[picked]
            self._waiting.remove(call)
            call[2].append(fault)
            self._running += 1
            call[1].set()
            self._settle()
            return True

    def finish(self) -> None:
        """All that is left, without faults; then the actors have ended. Their own failures are raised
        here.
        """
        while self.step(0, Fault.NONE):
            pass
        for thread in self._threads:
            thread.join(_WAIT_S)
        if self._failures:
            raise self._failures[0]

    def _settle(self) -> None:
        """Wait until every actor has ended or waits for its next call."""
        if not self._changed.wait_for(lambda: self._running == 0, _WAIT_S):
            raise TimeoutError("an actor neither called the store nor ended")

    def _run(self, actor: Callable[["ActorStore"], None], store: "ActorStore") -> None:
        try:
            actor(store)
        except BaseException as failure:
            self._failures.append(failure)
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def call(self, actor: int, effect: Callable[[], _Result]) -> _Result:
        """Make an actor's call when it is picked."""
        picked, fault = threading.Event(), list[Fault]()
        with self._changed:
            self._waiting.append((actor, picked, fault))
            self._running -= 1
            self._changed.notify_all()
        if not picked.wait(_WAIT_S):
            raise TimeoutError("the test never picked this call")
        if fault[0] is Fault.DELAYED:
            self._delayed.append(effect)
        elif fault[0] is not Fault.LOST_REQUEST:
            result = effect()
            if fault[0] is Fault.NONE:
                return result
        raise StoreError("unreachable", f"prepared fault: {fault[0].value}")


class ActorStore:
    """`ObjectStore` of one actor."""

    def __init__(self, stage: Stage, actor: int) -> None:
        self._stage = stage
        self._actor = actor

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        return self._stage.call(self._actor, lambda: self._stage.store.get(key, limit=limit))

    def stream(self, key: str) -> Iterator[bytes] | None:
        return self._stage.call(self._actor, lambda: self._stage.store.stream(key))

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        return self._stage.call(self._actor, lambda: self._stage.store.put_if_absent(key, body))

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        return self._stage.call(self._actor, lambda: self._stage.store.put_if_match(key, body, etag))

    def list(self, prefix: str) -> Iterator[ListedObject]:
        return self._stage.call(self._actor, lambda: self._stage.store.list(prefix))

    def now(self) -> datetime:
        return self._stage.store.now()

    def address(self, key: str) -> str:
        return self._stage.store.address(key)
