"""What a server makes of a question and of a terminal callback: the commit rule and what is owed to people.

Pure: a decision takes what the server has stored and what came in, and returns what to store and what to do.
The server reads, decides and stores in one transaction (or compare-and-set), so that of two requests at the
same time one is decided on what the other left. Refuses to commit twice, and to move a session on from a
place it is no longer at.
"""

from collections.abc import Collection, Container
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from settlement.callback import Terminal
from settlement.receiving import Problem, ReceivedQuestion, ReceivedTerminal

# --- what a server stores ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where a session stands. `digest` None: a plain session file that the server has no digest of."""

    digest: str | None
    manifest: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's answer to one card; `reply_id` tells two deliveries of it from two answers."""

    reply_id: str
    question_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Card:
    """A question as it was shown."""

    question_id: str
    tool_call_id: str
    digest: str
    standing: Literal["open", "answered", "withdrawn"] = "open"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The one answer a pipeline's terminal record gets, now and whenever it comes again."""

    digest: str
    refused: Problem | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline as the server knows it, from the launch on.

    `launched` is the highest attempt started, `heard` the highest that has spoken, which it can only do as
    the holder of the claim. Both are needed: a new attempt that finds a stored terminal record delivers it as
    it is, with the attempt of the process that wrote it.
    """

    pipeline_id: str
    session_id: str
    launched: int = 1
    heard: int = 0
    cards: tuple[Card, ...] = ()
    replies: tuple[Reply, ...] = ()
    """Answers that came while the pipeline ran, in the order they came."""
    judgement: Judgement | None = None


# --- questions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShowCard:
    """Store `pipeline`, show the card, answer 2xx."""

    pipeline: Pipeline
    card: Card


@dataclass(frozen=True, slots=True)
class ShownBefore:
    """Store `pipeline`, show nothing, answer 2xx as the first time."""

    pipeline: Pipeline


QuestionDecision: TypeAlias = ShowCard | ShownBefore | Problem


def decide_question(
    pipeline: Pipeline | None, received: ReceivedQuestion, *, streams: Container[str], wanted: bool = True
) -> QuestionDecision:
    """Whether a card is shown. `streams` are those of the session's owner: a model may name no other.

    `wanted` False: the task is over (cancelled), so nobody is asked any more. A Problem changes nothing and is the
    answer.
    """
    question = received.question
    if pipeline is None:
        return _unknown(question.pipeline_id)
    if question.session_id != pipeline.session_id:
        return _wrong_session(pipeline)
    heard = replace(pipeline, heard=max(pipeline.heard, question.attempt))
    for card in pipeline.cards:
        if card.question_id == question.question_id:
            if card.digest == received.digest:
                return ShownBefore(heard)
            return Problem("other-body", f"{card.question_id} was asked before with other content")
    if pipeline.judgement is not None:
        return Problem("superseded", "the pipeline has ended; it may not ask any more")
    if not wanted:
        return Problem("superseded", "the task is over; nobody is asked any more")
    if question.attempt < max(pipeline.launched, pipeline.heard):
        return Problem("superseded", f"attempt {question.attempt} was replaced by a later one; it may not ask any more")
    if question.stream_id is not None and question.stream_id not in streams:
        return Problem("foreign-stream", "stream_id does not belong to the session's owner")
    card = Card(question.question_id, question.tool_call_id, received.digest)
    return ShowCard(replace(heard, cards=(*pipeline.cards, card)), card)


def keep_reply(pipeline: Pipeline, reply: Reply) -> Pipeline | None:
    """The pipeline with a reply that came while it still runs; the same reply again changes nothing.

    None: it cannot be kept, because the pipeline has ended, the card is not open, or it was answered before.
    """
    if reply in pipeline.replies:
        return pipeline
    if pipeline.judgement is not None or any(reply.question_id == kept.question_id for kept in pipeline.replies):
        return None
    if not any(card.question_id == reply.question_id and card.standing == "open" for card in pipeline.cards):
        return None
    return replace(pipeline, replies=(*pipeline.replies, reply))


def withdraw_all(pipeline: Pipeline) -> "tuple[Pipeline, Owed]":
    """The pipeline once its task is over, and what is owed: no card stays, and whoever replied is told.

    Whoever was not heard when the terminal record was judged has been told then.
    """
    owed = _owed(pipeline, listed=())
    owed = owed if pipeline.judgement is None else replace(owed, tell=())
    cards = tuple(replace(card, standing="withdrawn") if card.standing == "open" else card for card in pipeline.cards)
    return replace(pipeline, cards=cards, replies=()), owed


# --- the terminal callback --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Owed:
    """What people are owed once a terminal record is judged. Ids are question ids."""

    wait_for: tuple[str, ...] = ()
    """Questions the session now waits for; their cards stay."""
    withdraw: tuple[str, ...] = ()
    """Cards to take back: nothing would come of an answer."""
    launch: Reply | None = None
    """A kept reply that starts the next pipeline right away. Then nothing is waited for."""
    tell: tuple[Reply, ...] = ()
    """Kept replies of which nothing comes; whoever wrote them is told."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Store `pipeline` and the session's `restore_point` together, do what is owed, answer 2xx."""

    pipeline: Pipeline
    restore_point: RestorePoint | None
    owed: Owed


@dataclass(frozen=True, slots=True)
class Refuse:
    """Store `pipeline`, leave the session where it is, do what is owed, answer with `problem`."""

    pipeline: Pipeline
    problem: Problem
    owed: Owed


@dataclass(frozen=True, slots=True)
class JudgedBefore:
    """Change nothing; answer as the first time: 2xx, or `refused`."""

    refused: Problem | None


CommitDecision: TypeAlias = Commit | Refuse | JudgedBefore | Problem


def decide_commit(
    pipeline: Pipeline | None, restore_point: RestorePoint | None, received: ReceivedTerminal, *, wanted: bool = True
) -> CommitDecision:
    """The commit rule. `restore_point` is the session's committed one now, None for a session without any.

    Once per pipeline, and only if the checkpoint's parent is the restore point; `keep_previous` names no new
    one and so has no parent to check. `wanted` False: the task is over (cancelled); the checkpoint is committed all the
    same, but nothing is waited for or launched. A Problem changes nothing and is the answer.
    """
    terminal = received.terminal
    if pipeline is None:
        return _unknown(terminal.pipeline_id)
    if terminal.session_id != pipeline.session_id:
        return _wrong_session(pipeline)
    if pipeline.judgement is not None and pipeline.judgement.digest == received.digest:
        return JudgedBefore(pipeline.judgement.refused)
    if terminal.attempt < pipeline.heard:
        return Problem("superseded", f"attempt {terminal.attempt} was replaced by attempt {pipeline.heard}")
    if pipeline.judgement is not None:
        return Problem("other-body", "this pipeline has ended with another terminal record")

    if terminal.checkpoint.decision == "commit" and not _starts_at(restore_point, terminal.checkpoint.parent):
        problem = Problem(
            "not-the-restore-point",
            "the session has moved on since this pipeline started; nothing was committed",
        )
        owed = _owed(pipeline, listed=())
        return Refuse(_ended(pipeline, received, problem, owed), problem, owed)
    owed = _owed(pipeline, listed=_waiting_for(terminal) if wanted else ())
    return Commit(_ended(pipeline, received, None, owed), _moved(restore_point, terminal), owed)


def _starts_at(restore_point: RestorePoint | None, parent: str | None) -> bool:
    if restore_point is None:
        return parent is None
    if restore_point.digest is None:
        return parent is not None
    return parent == restore_point.digest


def _moved(restore_point: RestorePoint | None, terminal: Terminal) -> RestorePoint | None:
    if terminal.checkpoint.decision == "keep_previous":
        return restore_point
    return RestorePoint(terminal.checkpoint.digest, terminal.checkpoint.manifest)


def _waiting_for(terminal: Terminal) -> tuple[str, ...]:
    if terminal.settlement.kind != "ask_user":
        return ()
    return tuple(question.question_id for question in terminal.questions)


def _owed(pipeline: Pipeline, listed: Collection[str]) -> Owed:
    """`listed`: the questions an accepted `ask_user` waits for; every other card is withdrawn."""
    shown = [card.question_id for card in pipeline.cards if card.standing == "open"]
    launch = next((reply for reply in pipeline.replies if reply.question_id in listed), None)
    if launch is None:
        return Owed(
            wait_for=tuple(listed),
            withdraw=tuple(card for card in shown if card not in listed),
            tell=pipeline.replies,
        )
    return Owed(
        withdraw=tuple(card for card in shown if card != launch.question_id),
        launch=launch,
        tell=tuple(reply for reply in pipeline.replies if reply != launch),
    )


def _ended(pipeline: Pipeline, received: ReceivedTerminal, refused: Problem | None, owed: Owed) -> Pipeline:
    def after(card: Card) -> Card:
        if card.question_id in owed.withdraw:
            return replace(card, standing="withdrawn")
        if owed.launch is not None and card.question_id == owed.launch.question_id:
            return replace(card, standing="answered")
        return card

    return replace(
        pipeline,
        heard=max(pipeline.heard, received.terminal.attempt),
        cards=tuple(after(card) for card in pipeline.cards),
        judgement=Judgement(received.digest, refused),
    )


def _unknown(pipeline_id: str) -> Problem:
    return Problem("unknown-pipeline", f"no pipeline {pipeline_id} was launched by this server")


def _wrong_session(pipeline: Pipeline) -> Problem:
    return Problem("wrong-session", f"pipeline {pipeline.pipeline_id} runs session {pipeline.session_id}")
