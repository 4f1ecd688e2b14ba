"""What is known when a pipeline's run is over: facts, and nothing drawn from them.

The runner collects these; `settle.py` reads them. Refuses to hold a verdict: "failed" or "waits for the
user" is what the settlement says, so that one table decides it and every part of it can be tested without a
run.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

# --- questions ----------------------------------------------------------------------------------------------


class Interruption(Struct, frozen=True):
    """The first asking tool result of the run: why the run stopped after its turn."""

    tool_call_id: str
    tool_name: str
    result_text: str
    """The text of the tool's result, as the model saw it."""
    kind: Literal["user_input_required"] = "user_input_required"


class SentQuestion(Struct, frozen=True):
    """A question that went out to the server, or may have."""

    question_id: str
    tool_call_id: str
    tool_name: str
    entry_id: str
    """The session entry of the assistant message that made the call: tells the turn."""
    confirmed: bool = True
    """False if the server's answer never came: the question may have been taken or not."""
    result_logged: bool = False
    """True once the call's successful result is a line of the session log."""


# --- the run ------------------------------------------------------------------------------------------------

LimitReason: TypeAlias = Literal["turn_limit", "token_limit", "cost_limit", "deadline_exceeded"]
StopReason: TypeAlias = Literal["interruption", "cancelled", "paused"] | LimitReason
AbortReason: TypeAlias = Literal["cancelled", "deadline_exceeded"]


class Stop(Struct, frozen=True):
    """The run was stopped after a complete turn (or before its first)."""

    reason: StopReason
    another_turn: bool
    """True if the loop would have gone on: open tool work, or queued messages. False: it had ended anyway."""


class LastAssistant(Struct, frozen=True):
    """The last assistant message of this run (none of a restored session's)."""

    stop_reason: str
    """stop, length, toolUse, error or aborted; other values are taken as an ordinary end."""
    text: str
    has_calls: bool


ModelFailureReason: TypeAlias = Literal[
    "model_auth",
    "model_rate_limited",
    "model_overloaded",
    "model_invalid_request",
    "context_overflow",
    "model_refused",
    "model_unavailable",
]


class ModelFailure(Struct, frozen=True):
    """What the provider's adapter made of the error that ended the run, after its retries.

    `message` says what the provider said, and holds no secret.
    """

    reason: ModelFailureReason
    message: str
    retryable: bool


BeforeRunReason: TypeAlias = Literal["restore_failed", "stale_reply", "nothing_to_do", "setup_failed"]


class BeforeRunFailure(Struct, frozen=True):
    """The pipeline was claimed, but its agent could not be started. `message` says what was found."""

    reason: BeforeRunReason
    message: str


class Undelivered(Struct, frozen=True):
    """A message that was queued for the agent and that no turn took."""

    queue: Literal["steering", "follow_up"]
    text: str


class Outcome(Struct, frozen=True, kw_only=True):
    """Everything the settlement depends on. Each field is a fact of its own; by default it did not happen."""

    log_broken: str | None = None
    """What the first failed append of the session log said."""
    defect: str | None = None
    """The name of the exception that a fault of this program raised outside the agent's run."""
    checkpoint_failed: str | None = None
    """Why the upload of the frozen checkpoint was given up."""
    progress_kept: bool = False
    """The upload failed, and a checkpoint of the last stored progress takes its place."""
    lost: str | None = None
    """How it was seen that the process of this claim is dead (set by reconciling only)."""
    before_run: BeforeRunFailure | None = None

    interruption: Interruption | None = None
    """Read only if the run has no prompt error."""
    questions: tuple[SentQuestion, ...] = ()
    """All that went out in this process, in the order in which they were sent."""
    stop: Stop | None = None
    aborted_for: AbortReason | None = None
    """The agent was told to abort while it ran."""
    prompt_raised: str | None = None
    """The name of the exception that `prompt()` raised instead of ending the run."""
    last_assistant: LastAssistant | None = None
    terminating_texts: tuple[str, ...] = ()
    """Texts of the last turn's tool results, if every one of them asked for the end of the tool loop."""
    model_failure: ModelFailure | None = None

    appended: bool = False
    """The session log has entries that the restored session did not have."""
    input_taken: bool = False
    """The whole input of this pipeline is in the session log."""
    undelivered: tuple[Undelivered, ...] = ()
    steered: tuple[Undelivered, ...] = ()
    """Messages of the control channel that the session log took."""


def run_failed(outcome: Outcome) -> bool:
    """A prompt error, or worse: nothing that the run left behind may be taken for its result."""
    last = outcome.last_assistant
    return (
        outcome.log_broken is not None
        or outcome.defect is not None
        or outcome.prompt_raised is not None
        or (last is not None and last.stop_reason in ("error", "aborted"))
    )
