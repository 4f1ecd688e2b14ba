"""Attempts of one pipeline over fakes, each with its own answers and its own fate.

A process that is killed is one whose store answers nothing any more: what it does afterwards takes no effect.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkpoint.errors import StoreError
from checkpoint.jsontypes import JsonObject
from runner.ending import Ending
from tests.fakes.answers import Answers, answer, call
from tests.fakes.pipeline_parts import HEAD, Backstage

TURN: JsonObject = {"checkpoint": {"every": "turn"}}
CALL: JsonObject = {"checkpoint": {"every": "call"}}
TOOLS: JsonObject = {
    "model": {"api": "scripted", "script": "script.json"},
    "tools": ["tests.e2e.own_tools:TOOLS"],
}
ASK = answer("", call("call-1", "ask_user", question="Which one?"))
ECHO = answer("", call("echo-1", "echo", text="first"))


def nothing(_operation: str, _key: str) -> None:
    pass


@dataclass
class Attempts(Backstage):
    """Attempts of one pipeline, each with its own answers and its own fate."""

    def __post_init__(self) -> None:
        self._dead = threading.Event()
        self._stored = threading.Condition()
        self._heads: list[bytes] = []
        self.store.after = self._note

    def _note(self, operation: str, key: str) -> None:
        if operation == "put_if_match" and key == HEAD:
            with self._stored:
                self._heads.append(self.store.objects[HEAD])
                self._stored.notify_all()

    async def attempt(self, number: int, *answers: Any, **changes: Any) -> Ending:
        """One process; what was to kill it is gone with it."""
        self.answers = Answers(*answers)
        ending = await self.run(attempt=number, **changes)
        self.before_request = lambda: None
        self.store.before = nothing
        self._dead.clear()
        return ending

    def until(self, condition: Callable[[JsonObject], bool]) -> None:
        """Return once the head's progress is so. For threads beside the store's, and the model's side."""

        def holds() -> bool:
            progress = self.progress
            return progress is not None and condition(progress) and self._known(progress)

        with self._stored:
            ends = time.monotonic() + 10
            while not self._stored.wait_for(holds, 0.02):  # the process notes it after the store has
                assert time.monotonic() < ends, self.progress

    def _known(self, progress: JsonObject) -> bool:
        """Whether the running process knows that this is stored."""
        head = self.parts.head.head if self.parts is not None else None
        return head is not None and head.json["progress"] == progress

    def kill(self) -> None:
        """From now on nothing reaches the store."""
        self._dead.set()

    def kill_at(self, due: Callable[[str, str], bool], condition: Callable[[JsonObject], bool]) -> None:
        """Kill the process at the first matching call, once the head's progress is so."""

        def hook(operation: str, key: str) -> None:
            if not self._dead.is_set() and due(operation, key):
                self.until(condition)
                self.kill()
            if self._dead.is_set():
                raise StoreError("unreachable", "The process is dead.")

        self.store.before = hook

    def kill_at_request(self, number: int, condition: Callable[[JsonObject], bool]) -> None:
        """Kill the process when the model is asked for the n-th time, once the head's progress is so."""
        asked = [0]

        def before_request() -> None:
            asked[0] += 1
            if asked[0] == number:
                self.until(condition)
                self.kill()

        self.before_request = before_request
        self.kill_at(lambda _operation, _key: False, condition)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._stored:
            while not self._stored.wait_for(condition, 0.05):  # what it looks at is another thread's
                assert not self._dead.is_set()

    def forget_the_turn(self) -> None:
        """Put the head back to where it stood before the last turn's end was stored."""
        self.store.objects[HEAD] = self._heads[-2]

    def keep_step(self) -> None:
        """Before each request the turn before it is stored: none is skipped."""
        asked = [0]

        def before_request() -> None:
            if asked[0]:
                self.until(turns(asked[0]))
            asked[0] += 1

        self.before_request = before_request

    @property
    def progress(self) -> Any:
        return self.head()["progress"]


def at_manifest(_operation: str, key: str) -> bool:
    return "/checkpoints/" in key


def stopped(progress: JsonObject) -> bool:
    return progress["stop"] is not None


def turns(number: int) -> Callable[[JsonObject], bool]:
    return lambda progress: progress["usage"]["turns"] >= number


def roles(messages: list[JsonObject]) -> list[str]:
    return [message["role"] for message in messages]


def texts(message: JsonObject) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def denied_segments(_operation: str, key: str) -> None:
    if "/segments/" in key:
        raise StoreError("denied", "The store does not take it.")
