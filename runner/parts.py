"""What the pipeline works with: the real parts in production (`wiring.py`), fakes in tests.

Holds no decisions. Its methods bound every call by the phase's time and put errors of the layers below into the
process's words.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from checkpoint.errors import DamagedRecord, StoreError
from checkpoint.head import Head
from checkpoint.head_writer import HeadWriter
from checkpoint.plain_source import OtherStore
from checkpoint.store.port import ObjectStore
from runner.errors import InfrastructureError, Refused, RunnerError, StoppedBeforeCommit
from runner.grace import Phase
from runner.logs import Logger
from runner.question_gate import QuestionSender
from runner.retrying import ModelChoice
from runner.signals import StopLatch
from runner.spec import Spec
from runner.standing import Standing
from runner.stdout import JsonLines
from runner.timebox import Timebox
from runner.tool_space import ESTABLISH_S, ToolSpace
from runner.tools.mcp_settings import McpSettings

if TYPE_CHECKING:
    from runner.agent.types import AgentTool
    from runner.control import Control
    from settlement.delivery import Delivery

T = TypeVar("T")

_FOR_A_PERSON = frozenset({"denied", "missing_bucket", "damaged_record"})
SMALL_CALL_S = 60.0
"""One read or conditional write of a small object, retries of the adapter included."""
BULK_S = 1800.0
"""Restoring, or uploading, a whole session."""


ToolsInstead: TypeAlias = "Callable[[Sequence[AgentTool]], list[AgentTool]]"


class Courier(Protocol):
    async def deliver(self, url: str, webhook_id: str, body: bytes, budget_s: float) -> "Delivery":
        """Send a stored record until the server's verdict is final or the budget is used up; never raises for
        what the server does.
        """
        ...


class Channel(Protocol):
    """A line to the outside that is open from the claim to the end of the callback, on a thread of its own."""

    def prepare(self) -> None:
        """Before the claim. Raises Refused for what would keep it from being opened."""
        ...

    def open(self, head: Head) -> None:
        """The pipeline is ours. Never raises for what the outside does."""
        ...

    def close(self) -> None:
        """Nothing is said or taken any more. Waits for nobody; also where it was never opened, and again."""
        ...


class Parts(Struct):
    spec: Spec
    log: Logger
    stop: StopLatch
    timebox: Timebox
    store: ObjectStore
    head: HeadWriter
    head_key: str
    prove_store: Callable[[], None]
    """Raises `StoreError` unless the store honours conditional writes."""
    other_store: OtherStore
    folder: Path
    """Private to this process; holds the session log."""
    workspace: Path
    ask_tools: frozenset[str]
    models: tuple[ModelChoice, ...]
    """The main agent's model, then its fallbacks."""
    fresh_model: Callable[[str | None], ModelChoice | None]
    """For subagents: see `model_wiring.Models.fresh`."""
    model_ids: tuple[str, ...]
    space: ToolSpace
    """Where tools run."""
    mcp: Sequence[McpSettings]
    close_models: Callable[[], Awaitable[None]]
    """Gives their connections back."""
    ends: float
    """The monotonic time at which the agent's time is over: the deadline less the grace."""
    question_sender: QuestionSender | None
    courier: Courier
    started_at: str
    events: JsonLines | None = None
    fsync_turns: bool = False
    committed: bool = False
    """The terminal record is stored."""
    ending: RunnerError | None = None
    """Why the process must end without a settlement, once that is known: its tools are ended first."""
    settled_by_another: Head | None = None
    """The head, if somebody else has settled the pipeline while it ran."""
    standing: Standing = field(default_factory=Standing)
    """Where the process stands, for readers beside it."""
    warnings: list[str] = field(default_factory=list[str])
    channels: Sequence[Channel] = ()
    control: "Control | None" = None
    tools_instead: "ToolsInstead | None" = None
    """What a fork of a recorded session has in the place of its tools."""
    """What the control channel's commands do, where the launch asks for one."""

    def time_left(self) -> float:
        """Seconds until the agent's time is over. A stop takes nothing from it: who is about to be aborted may plan a
        pause all the same, and the abort ends it. Else a cancel would read as a model that is not asked again.
        """
        return max(0.0, self.ends - time.monotonic())

    async def store_call(self, phase: Phase, bound_s: float, function: Callable[[], T]) -> T:
        """A blocking call to the store within the phase's time. Raises RunnerError for whatever keeps it from ending
        well: nothing may depend on a call that may or may not have taken effect.
        """
        try:
            return await self.timebox.blocking(phase, bound_s, function)
        except TimeoutError:
            raise self.failed("store_timeout", f"the store did not answer in the {phase} phase's time") from None
        except (StoreError, DamagedRecord) as error:
            raise self.failed(error.reason, error.message) from error

    async def establish_isolation(self) -> None:
        """Raises RunnerError: where it is too weak, and where a stop comes meanwhile, before anything is claimed."""
        try:
            await self.timebox.within("commit", ESTABLISH_S, self.space.establish())
        except TimeoutError:
            if self.stop.reason is None:
                raise self.failed(
                    "isolation_timeout", f"the isolation was not established within {ESTABLISH_S:g} s"
                ) from None
        if self.stop.reason is not None:
            raise self.stopped_before_commit()

    def failed(self, reason: str, message: str) -> RunnerError:
        """The process's end for a store that fails before the commit. Once claimed, a pipeline is not refused."""
        if reason in ("unsafe_conditions", "misconfigured") and self.head.head is None:
            return Refused(reason, [message])
        if self.stop.since is not None and not self.committed:
            return self.stopped_before_commit(message)
        advice = "see to it, then relaunch" if reason in _FOR_A_PERSON else "a relaunch is safe"
        return InfrastructureError(reason, f"{message} ({advice}, with a higher attempt)")

    def stopped_before_commit(self, detail: str = "nothing was committed") -> RunnerError:
        why = self.stop.signal or self.stop.reason or "the deadline"
        return StoppedBeforeCommit(
            "stopped_before_commit",
            f"{why} came before the commit ({detail}): relaunch with a higher attempt",
        )
