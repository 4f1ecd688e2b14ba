"""The terminal callback: what one pipeline came to, as the server gets it (`POST callback_path`).

Wire models and the way to bytes. The bytes are made once, stored with the head record and never rebuilt, so
nothing here reads a clock or the environment. Refuses a record that contradicts itself, such as `ask_user`
without a checkpoint.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias, assert_never

from pydantic import Field, model_validator

from checkpoint.text import clean_json
from settlement.callback_limit import within
from settlement.outcome import Undelivered
from settlement.settle import AskUser, Failure, Settlement, Success
from settlement.wire import Count, Digest, Id, QuestionId, Time, WireModel, json_bytes

MAX_BODY_BYTES = 20_000


def _absent(value: Any) -> bool:
    return value is None or value is False


class InterruptionRef(WireModel):
    kind: Literal["user_input_required"] = "user_input_required"
    tool_call_id: str
    tool_name: str
    result_text: str


class AskUserSettlement(WireModel):
    kind: Literal["ask_user"] = "ask_user"
    interruption: InterruptionRef


class SuccessSettlement(WireModel):
    kind: Literal["success"] = "success"
    text: str
    structured: Any = None
    truncated: Annotated[bool, Field(exclude_if=_absent)] = False
    """There, and true, only when `text` was cut; the whole text is in the session."""


class FailureSettlement(WireModel):
    kind: Literal["failure"] = "failure"
    reason: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    message: str
    retryable: bool
    resumable: bool
    withdrawn_questions: tuple[QuestionId, ...]


WireSettlement: TypeAlias = Annotated[
    AskUserSettlement | SuccessSettlement | FailureSettlement, Field(discriminator="kind")
]


class QuestionRef(WireModel):
    question_id: QuestionId
    tool_call_id: str
    tool_name: str


class CheckpointRef(WireModel):
    """`commit` names the new restore point; `keep_previous` leaves the session where it is."""

    decision: Literal["commit", "keep_previous"]
    manifest: str | None
    digest: Digest | None
    parent: Digest | None
    """The restore point this run started from; null for a new session."""
    entries: Count
    bytes: Count
    leaf_id: str | None
    resumable: bool
    diagnostic: Annotated[str | None, Field(exclude_if=_absent)] = None
    """Key of a log kept for a person to look at; never a restore point."""

    @model_validator(mode="after")
    def _names_a_manifest_to_commit(self) -> Self:
        if self.decision == "commit" and (self.manifest is None or self.digest is None):
            raise ValueError("a checkpoint to commit needs `manifest` and `digest`")
        if self.decision == "keep_previous" and (self.manifest is not None or self.digest is not None):
            raise ValueError("`keep_previous` has neither `manifest` nor `digest`")
        return self


class UndeliveredMessage(WireModel):
    queue: Literal["steering", "follow_up"]
    text: str


class Usage(WireModel):
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    total_tokens: Count = 0
    cost_usd: Annotated[float, Field(ge=0)] = 0.0
    requests: Count = 0
    turns: Count = 0


class Timings(WireModel):
    started_at: Time
    settled_at: Time
    restore_ms: Count
    agent_ms: Count
    upload_ms: Count


class Terminal(WireModel):
    """One per pipeline. `questions` is complete: every other card of the pipeline is to be withdrawn."""

    version: Literal[1] = 1
    type: Literal["terminal"] = "terminal"
    pipeline_id: Id
    attempt: Annotated[int, Field(ge=1)]
    session_id: Id
    labels: dict[str, str]
    settlement: WireSettlement
    questions: tuple[QuestionRef, ...]
    checkpoint: CheckpointRef
    input_consumed: bool
    undelivered: tuple[UndeliveredMessage, ...]
    warnings: tuple[str, ...]
    usage: Usage
    timings: Timings
    runner: str

    @model_validator(mode="after")
    def _keeps_what_it_promises(self) -> Self:
        if self.settlement.kind != "failure" and self.checkpoint.decision != "commit":
            raise ValueError(f"`{self.settlement.kind}` needs a checkpoint to commit")
        return self


def build_terminal(
    *,
    pipeline_id: str,
    attempt: int,
    session_id: str,
    labels: Mapping[str, str],
    settlement: Settlement,
    checkpoint: CheckpointRef,
    input_consumed: bool,
    undelivered: Iterable[Undelivered],
    warnings: Iterable[str],
    usage: Usage,
    timings: Timings,
    runner: str,
) -> Terminal:
    """The record of a settled pipeline. Raises pydantic's ValidationError if the parts contradict."""
    return Terminal(
        pipeline_id=pipeline_id,
        attempt=attempt,
        session_id=session_id,
        labels=dict(labels),
        settlement=_on_the_wire(settlement),
        questions=_waited_for(settlement),
        checkpoint=checkpoint,
        input_consumed=input_consumed,
        undelivered=tuple(UndeliveredMessage(queue=item.queue, text=item.text) for item in undelivered),
        warnings=tuple(warnings),
        usage=usage,
        timings=timings,
        runner=runner,
    )


def _on_the_wire(settlement: Settlement) -> AskUserSettlement | SuccessSettlement | FailureSettlement:
    match settlement:
        case AskUser(interruption=interruption):
            return AskUserSettlement(
                interruption=InterruptionRef(
                    tool_call_id=interruption.tool_call_id,
                    tool_name=interruption.tool_name,
                    result_text=interruption.result_text,
                )
            )
        case Success(text=text):
            return SuccessSettlement(text=text)
        case Failure():
            return FailureSettlement(
                reason=settlement.reason,
                message=settlement.message,
                retryable=settlement.retryable,
                resumable=settlement.resumable,
                withdrawn_questions=settlement.withdrawn_questions,
            )
        case _:
            assert_never(settlement)


def _waited_for(settlement: Settlement) -> tuple[QuestionRef, ...]:
    if not isinstance(settlement, AskUser):
        return ()
    return tuple(
        QuestionRef(question_id=sent.question_id, tool_call_id=sent.tool_call_id, tool_name=sent.tool_name)
        for sent in settlement.questions
    )


def webhook_id(pipeline_id: str) -> str:
    """The same for every try and every attempt of a pipeline: there is one terminal record."""
    return f"term_{pipeline_id}"


def to_body(terminal: Terminal) -> bytes:
    """The exact bytes to store, sign and send: at most `MAX_BODY_BYTES` (see callback_limit)."""
    return json_bytes(within(clean_json(terminal.model_dump(mode="json")), MAX_BODY_BYTES))
