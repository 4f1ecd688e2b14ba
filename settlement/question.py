"""The question as it goes to the server while the pipeline still runs (`POST ask_user_path`).

Refuses to invent: the id follows from where the question stands in the session, so the same call asked again
after a crash is the same question, and no clock or random number is read here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from checkpoint.text import clean_json
from settlement.wire import Id, QuestionId, Time, WireModel, json_bytes

LOG_CHARACTERS = 80
"""How much of a question logs may show: it can hold what a person would not like to find there."""


class Question(WireModel):
    """One question. Either `question` or `form` is there, never both."""

    version: Literal[1] = 1
    type: Literal["question"] = "question"
    question_id: QuestionId
    pipeline_id: Id
    attempt: Annotated[int, Field(ge=1)]
    session_id: Id
    tool_call_id: str
    tool_name: str
    question: str | None
    context: str | None
    options: tuple[str, ...] | None
    form: Any
    """The raw `component_dsl_schema` of `collect_form_input`, any JSON."""
    stream_id: str | None
    labels: dict[str, str]
    asked_at: Time

    @model_validator(mode="after")
    def _asks_one_way(self) -> Self:
        if (self.question is None) == (self.form is None):
            raise ValueError("a question has either `question` or `form`")
        return self


def question_id(pipeline_id: str, entry_id: str, tool_call_id: str) -> str:
    """`ask_` + 32 hex digits; `entry_id` is the id of the assistant entry that holds the call."""
    digest = hashlib.sha256()
    for part in (pipeline_id, entry_id, tool_call_id):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return "ask_" + digest.hexdigest()[:32]


def build_question(
    *,
    pipeline_id: str,
    attempt: int,
    session_id: str,
    entry_id: str,
    tool_call_id: str,
    tool_name: str,
    asked_at: str,
    question: str | None = None,
    context: str | None = None,
    options: Sequence[str] | None = None,
    form: Any = None,
    stream_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Question:
    """The question of one tool call. `asked_at` as `wire.time_text` writes it.

    A caller that may have to ask the same again takes the assistant message's own time, so that the bytes
    stay the same. Raises pydantic's ValidationError when the parts do not make a question.
    """
    return Question(
        question_id=question_id(pipeline_id, entry_id, tool_call_id),
        pipeline_id=pipeline_id,
        attempt=attempt,
        session_id=session_id,
        tool_call_id=tool_call_id,
        tool_name=tool_name,
        question=question,
        context=context,
        options=None if options is None else tuple(options),
        form=form,
        stream_id=stream_id,
        labels=dict(labels or {}),
        asked_at=asked_at,
    )


def to_body(question: Question) -> bytes:
    """The exact bytes to sign and send; the same question gives the same bytes."""
    return json_bytes(clean_json(question.model_dump(mode="json")))


def for_log(question: str | None) -> str | None:
    """A question's text as logs show it: the first 80 characters, on one line."""
    return None if question is None else " ".join(question.split())[:LOG_CHARACTERS]
