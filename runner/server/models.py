"""The JSON of the API that people and chats use: what is asked, what is answered. docs/schemas/openapi.json holds the
same as JSON Schema.

Refuses unknown fields in what is asked, and text without a bound.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints

from settlement.wire import Id, Time

MAX_TEXT = 100_000
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ReplyId: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Owner: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[^:]+:[^\x00]+$", max_length=200)]
"""`platform:user`."""
State: TypeAlias = Literal["QUEUED", "RUNNING", "WAITING_INPUT", "SUCCEEDED", "FAILED", "CANCELLED"]


class ApiModel(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, json_schema_serialization_defaults_required=True
    )


# --- what is asked ------------------------------------------------------------------------------------------


class NewSession(ApiModel):
    """A task in a new session, or in a known one whose last task is over."""

    message: Text
    session_id: Id | None = None
    stream_id: Name | None = None
    """Where people write to it; default: a stream of the session's own."""
    owner: Owner = "local:me"


class ReplyBody(ApiModel):
    """`reply_id` tells a second delivery from a second answer: make one up for each answer."""

    reply_id: ReplyId
    message: Text


class MessageBody(ApiModel):
    """A chat message. Empty `stream_id`, `user` or `text`: it is skipped. Without `reply_id` every delivery counts as a
    message of its own.
    """

    stream_id: Annotated[str, StringConstraints(max_length=200)]
    platform: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^:]*$")] | None = None
    user: Annotated[str, StringConstraints(max_length=200)]
    text: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    reply_id: ReplyId | None = None
    question_id: Name | None = None
    quote: Annotated[str, StringConstraints(max_length=MAX_TEXT)] | None = None


# --- what is answered ---------------------------------------------------------------------------------------


class ProblemBody(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


class TaskCreated(ApiModel):
    session_id: Id
    task_id: Id


class TaskStanding(ApiModel):
    task_id: Id
    state: State


class Outcome(ApiModel):
    """`woken`: the task runs on with it; `kept`: until the pipeline that asked has ended; `not_taken`: see `reason`."""

    outcome: Literal["woken", "kept", "not_taken"]
    reason: Literal["skipped", "nobody_waits", "not_waiting", "answered_before", "too_late"] | None
    task_id: str | None
    question_id: str | None


class SessionSummary(ApiModel):
    session_id: str
    stream_id: str
    owner: str
    title: str
    """The first words of its last task."""
    task_id: str
    state: State
    reason: str | None
    open_questions: int
    created_at: Time
    changed_at: Time


class SessionList(ApiModel):
    sessions: list[SessionSummary]


class TaskView(ApiModel):
    task_id: str
    state: State
    reason: str | None
    message: str
    created_at: Time
    changed_at: Time
    deadline_at: Time | None
    """When waiting ends by itself."""


class AttemptView(ApiModel):
    attempt: int
    started_at: Time
    ended_at: Time | None
    exit: int | None


class PipelineView(ApiModel):
    """`settlement` to `warnings` are those of the callback, null until it came."""

    pipeline_id: str
    task_id: str
    standing: Literal["queued", "launched", "ended"]
    created_at: Time
    ended_at: Time | None
    attempts: list[AttemptView]
    error: str | None
    """Why it ended without a record."""
    refused: str | None
    """Why the server did not commit its record."""
    settlement: Any
    timings: Any
    usage: Any
    checkpoint: Any
    warnings: list[str]
    undelivered: Any


class QuestionView(ApiModel):
    question_id: str
    pipeline_id: str
    task_id: str
    standing: Literal["open", "answered", "withdrawn"]
    waiting: bool
    """The task waits for it. Else, while `open`, the pipeline still runs, and a reply is kept until it ends."""
    question: str | None
    context: str | None
    options: list[str] | None
    form: Any
    stream_id: str
    asked_at: Time
    reply: str | None
    """What was answered, or is kept."""


class NoticeView(ApiModel):
    """An answer of which nothing came."""

    reply_id: str
    question_id: str
    message: str
    text: str
    at: Time


class SessionView(ApiModel):
    session_id: str
    stream_id: str
    owner: str
    created_at: Time
    tasks: list[TaskView]
    """The last one is the session's present task."""
    pipelines: list[PipelineView]
    questions: list[QuestionView]
    notices: list[NoticeView]
    restore_point: Any
    """`{"manifest", "digest"}`, or null before the first commit."""
    cursor: str
    """Give it to `events?after=` to see everything that happened since."""


class Transcript(ApiModel):
    """Session entries as they are in the log, oldest first, then what the running pipeline has said since."""

    entries: list[Any]
    first: int
    """How many entries of the checkpoint come before these."""
    total: int
    """How many entries the checkpoint has."""
    live: list[Any]
    """Messages that are not in a committed checkpoint yet."""
    cursor: str
