"""The pipeline's parts with a store in memory, a courier that delivers to nobody and a model that plays answers."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from structlog.testing import CapturingLogger

from checkpoint.errors import StoreError, StoreReason
from checkpoint.head_writer import HeadWriter
from checkpoint.jsontypes import JsonObject, Message
from checkpoint.keys import head_key
from runner.agent.types import LlmContext, Model, ModelName, StreamFn, StreamOptions
from runner.ending import Ending
from runner.errors import RunnerError
from runner.interruption import ASK_TOOLS
from runner.isolation.settings import IsolationSettings
from runner.launch import parse_spec
from runner.models.failure import Failure
from runner.parts import Parts
from runner.pipeline import run_pipeline
from runner.question_gate import QuestionSender
from runner.retrying import ModelChoice
from runner.signals import StopLatch
from runner.timebox import Timebox
from runner.tool_space import ToolSpace
from settlement.delivery import Delivery
from settlement.verdict import Delivered, FinalVerdict
from tests.fakes.answers import Answers, answer
from tests.fakes.memory_store import MemoryStore


class FakeCourier:
    """Answers every delivery with the same verdict; with None it never answers."""

    def __init__(self, verdict: FinalVerdict | None = Delivered()) -> None:  # noqa: B008 - frozen
        self.verdict = verdict
        self.on_delivery: Callable[[], object] = lambda: None
        self.sent: list[tuple[str, str, bytes, float]] = []
        self.came = asyncio.Event()

    async def deliver(self, url: str, webhook_id: str, body: bytes, budget_s: float) -> Delivery:
        self.sent.append((url, webhook_id, body, budget_s))
        self.on_delivery()
        self.came.set()
        if self.verdict is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets this event")
        return Delivery(self.verdict, 1, may_have_arrived=True)

    @property
    def bodies(self) -> list[JsonObject]:
        return [json.loads(body) for _, _, body, _ in self.sent]


def unavailable(message: Message) -> Failure | None:
    return Failure("model_unavailable", str(message.get("errorMessage")))


async def _nothing_to_close() -> None:
    pass


@dataclass
class Backstage:
    """Everything around one pipeline; change what a test is about, then `run`."""

    folder: Path
    answers: Answers = field(default_factory=lambda: Answers(answer("Done.")))
    store: MemoryStore = field(default_factory=MemoryStore)
    courier: FakeCourier = field(default_factory=FakeCourier)
    stop: StopLatch = field(default_factory=StopLatch)
    sender: QuestionSender | None = None
    failure_of: Callable[[Message], Failure | None] = unavailable
    before_request: Callable[[], object] = lambda: None
    logged: CapturingLogger = field(default_factory=CapturingLogger)
    parts: Parts | None = None

    def spec(self, **changes: Any) -> JsonObject:
        return {
            "version": 1,
            "pipeline_id": "p1",
            "session": {"id": "s1"},
            "store": {"uri": "store"},
            "input": {"message": "Deploy the project."},
            "agent": {"model": {"api": "scripted", "script": "script.json"}},
            "server": {"base_url": "http://127.0.0.1:9"},
            **changes,
        }

    def build(self, **changes: Any) -> Parts:
        spec = parse_spec(json.dumps(self.spec(**changes)).encode(), "spec")
        folder = self.folder / f"run-{spec.pipeline_id}-{spec.attempt}"
        folder.mkdir()
        return Parts(
            spec=spec,
            log=self._log(),
            stop=self.stop,
            timebox=Timebox(self.stop, spec.limits.grace_s),
            store=self.store,
            head=HeadWriter(self.store, spec.pipeline_id, pause=lambda _seconds: None),
            head_key=head_key(spec.pipeline_id),
            prove_store=lambda: None,
            other_store=lambda _address: self.store,
            folder=folder,
            workspace=self.folder,
            ask_tools=ASK_TOOLS,
            models=(ModelChoice(ModelName("scripted-model", "scripted", "scripted"), self._stream(), self.failure_of),),
            fresh_model=lambda _id: None,
            model_ids=("scripted-model",),
            space=ToolSpace(IsolationSettings(self.folder, (), {}), {}, self._log()),
            mcp=(),
            close_models=_nothing_to_close,
            ends=time.monotonic() + spec.limits.deadline_s,
            question_sender=self.sender,
            courier=self.courier,
            started_at="2026-01-01T00:00:00.000Z",
        )

    def _log(self) -> Any:
        return structlog.wrap_logger(self.logged, processors=[], wrapper_class=structlog.make_filtering_bound_logger(0))

    def _stream(self) -> StreamFn:
        def stream(model: Model, context: LlmContext, options: StreamOptions) -> Any:
            self.before_request()
            return self.answers.stream(model, context, options)

        return stream

    async def run(self, **changes: Any) -> Ending:
        """One process's pipeline, from the claim to its ending."""
        self.parts = self.build(**changes)
        try:
            return await run_pipeline(self.parts)
        except RunnerError as error:
            return Ending.of(error)

    def head(self, pipeline_id: str = "p1") -> JsonObject:
        return json.loads(self.store.objects[head_key(pipeline_id)])

    @property
    def terminal(self) -> JsonObject:
        """The record of the only delivery."""
        (body,) = self.courier.bodies
        return body

    @property
    def events(self) -> list[str]:
        return [str(call.kwargs["event"]) for call in self.logged.calls]


HEAD = head_key("p1")


def failing(
    where: Callable[[str, str], bool], reason: StoreReason = "unreachable", after: int = 0
) -> Callable[[str, str], None]:
    """A hook for the store: calls that match fail, once `after` of them went well."""
    left = [after]

    def hook(operation: str, key: str) -> None:
        if where(operation, key):
            if left[0] == 0:
                raise StoreError(reason, "The store is down.")
            left[0] -= 1

    return hook


def head_writes(operation: str, key: str) -> bool:
    return operation == "put_if_match" and key == HEAD
