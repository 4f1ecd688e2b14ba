"""Whom a reply is for, and what comes of it: from a chat message to exactly one waiting task, once.

A plain message wakes the task whose card stands in that stream and whose owner sent it; it needs no command and its
words are not looked at. Pure: `route` asks a small port where cards stand, `decide_reply` is then given what is stored
at the moment of the commit, and looks again. Refuses to guess a platform where one is known, to let anyone but the
owner answer, and to revive what is over.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from settlement.commit_rule import Owed, Pipeline, Reply, keep_reply
from settlement.tasks import Task, TaskState, step

_QUESTION_ID = re.compile(r"\bask_[0-9a-f]{32}\b")
_QUOTE_MARKS = re.compile(r"^[>\s]+", re.MULTILINE)
_SPACE = re.compile(r"\s+")

# --- the message ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A person's words in a chat stream. `platform` None: not said; it may still follow from the stream's id."""

    stream_id: str
    platform: str | None
    user: str
    text: str
    question_id: str | None = None
    """The question that the message names."""
    quote: str | None = None
    """What the message quotes, as the chat gives it: the card's text, or anything that holds the question's id."""


def from_chat(
    stream_id: str,
    platform: str,
    user: str,
    text: str,
    question_id: str | None = None,
    quote: str | None = None,
) -> ChatMessage | None:
    """A message as a chat's hook has it. None: a field is empty, and the message is skipped."""
    if _blank(platform):
        return None
    return from_api(stream_id, platform, user, text, question_id, quote)


def from_api(
    stream_id: str,
    platform: str | None,
    user: str,
    text: str,
    question_id: str | None = None,
    quote: str | None = None,
) -> ChatMessage | None:
    """A message as a caller of the API gives it, who alone may leave the platform out. None: it is skipped."""
    if _blank(stream_id) or _blank(user) or _blank(text):
        return None
    return ChatMessage(stream_id, None if _blank(platform) else platform, user, text, question_id, quote)


def _blank(text: str | None) -> bool:
    return text is None or not text.strip()


# --- whose card -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """Whose cards a message may answer. `owner` is exact; where it is None, any owner whose user is `user`."""

    stream_id: str
    user: str
    owner: str | None

    def fits(self, stream_id: str, owner: str) -> bool:
        if stream_id != self.stream_id:
            return False
        return owner == self.owner if self.owner is not None else user_of(owner) == self.user


def address_of(message: ChatMessage) -> Address:
    """`platform:user` where the platform is given or is the stream id's prefix; a bare stream id leaves it open."""
    platform = message.platform or _platform_of(message.stream_id)
    owner = None if platform is None else f"{platform}:{message.user}"
    return Address(message.stream_id, message.user, owner)


def user_of(owner: str) -> str | None:
    """What follows the platform in `platform:user`, all of it: `b` is not the user of `chat:a:b`."""
    platform, colon, user = owner.partition(":")
    return user if platform and colon else None


def _platform_of(stream_id: str) -> str | None:
    platform, colon, rest = stream_id.partition(":")
    return platform if platform and colon and rest else None


# --- which card -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CardPlace:
    """Where a card stands. `stream_id` is the one it was shown in, `owner` that of its task."""

    question_id: str
    pipeline_id: str
    task_id: str
    stream_id: str
    owner: str


class Cards(Protocol):
    """The stored cards. Each call is a look-up by index: ten thousand waiting tasks must not be read for one reply."""

    def named(self, question_id: str) -> CardPlace | None:
        """The card, whether it is still open or not."""
        ...

    def quoted(self, address: Address, key: str) -> CardPlace | None:
        """A card that the address fits and whose text has this `quote_key`: an open one before a closed one, then the
        first asked.
        """
        ...

    def first(self, address: Address, *, waiting: bool) -> CardPlace | None:
        """The first asked open card that the address fits: of a task that waits, or of one that still runs and has no
        reply to that card yet.
        """
        ...


NotTakenReason: TypeAlias = Literal["skipped", "nobody_waits", "not_waiting", "answered_before", "too_late"]


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Nothing comes of the message. `skipped`: a field is empty; `nobody_waits`: no card for this person here;
    `not_waiting`: the question is not open, or not theirs; `answered_before`; `too_late`: its deadline has passed.
    """

    reason: NotTakenReason


def route(message: ChatMessage | None, cards: Cards) -> CardPlace | NotTaken:
    """The card a message answers: the one it names, or quotes, else the first asked.

    A named or quoted card that is closed is the answer, too, and `decide_reply` then refuses it: whoever answers an
    old question does not mean a new one.
    """
    if message is None:
        return NotTaken("skipped")
    address = address_of(message)
    if message.question_id is not None:
        named = cards.named(message.question_id)
        return named if named is not None and address.fits(named.stream_id, named.owner) else NotTaken("not_waiting")
    found = _quoted(message.quote, address, cards) if message.quote is not None else None
    found = found or cards.first(address, waiting=True) or cards.first(address, waiting=False)
    return found or NotTaken("nobody_waits")


def _quoted(quote: str, address: Address, cards: Cards) -> CardPlace | None:
    for question_id in _QUESTION_ID.findall(quote):
        named = cards.named(question_id)
        if named is not None and address.fits(named.stream_id, named.owner):
            return named
    return cards.quoted(address, quote_key(quote))


def quote_key(text: str) -> str:
    """One key for a card's text and a quotation of it: quote marks and the way it is broken into lines do not count."""
    plain = _SPACE.sub(" ", _QUOTE_MARKS.sub("", text)).strip()
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


# --- what comes of it -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wake:
    """Store `task` and `pipeline`, withdraw what is owed, and launch a new pipeline with `reply`: all in one."""

    task: Task
    pipeline: Pipeline
    reply: Reply
    owed: Owed


@dataclass(frozen=True, slots=True)
class Keep:
    """Store `pipeline`: it still runs, and the reply starts the next one when `ask_user` commits."""

    pipeline: Pipeline


ReplyDecision: TypeAlias = Wake | Keep | NotTaken


def decide_reply(task: Task, pipeline: Pipeline, reply: Reply, now_s: float) -> ReplyDecision:
    """What a reply to one card does, on what is stored now. Give it the task and pipeline of the card.

    The state is looked at here, and only here counts: between routing and this moment the task may have been
    cancelled, answered by another worker, or its time may have run out.
    """
    if task.state is TaskState.WAITING_INPUT:
        if task.deadline_s is not None and now_s >= task.deadline_s:
            return NotTaken("too_late")
        return _wake(task, pipeline, reply)
    if task.over:
        return NotTaken("not_waiting")
    kept = keep_reply(pipeline, reply)
    if kept is not None:
        return Keep(kept)
    answered = any(earlier.question_id == reply.question_id for earlier in pipeline.replies)
    return NotTaken("answered_before" if answered or _standing(pipeline, reply) == "answered" else "not_waiting")


def _wake(task: Task, pipeline: Pipeline, reply: Reply) -> Wake | NotTaken:
    standing = _standing(pipeline, reply)
    running = step(task, "replied")
    if standing != "open" or running is None:
        return NotTaken("answered_before" if standing == "answered" else "not_waiting")
    withdrawn = tuple(
        card.question_id for card in pipeline.cards if card.standing == "open" and card.question_id != reply.question_id
    )
    cards = tuple(
        replace(card, standing="answered" if card.question_id == reply.question_id else "withdrawn")
        if card.standing == "open"
        else card
        for card in pipeline.cards
    )
    return Wake(running, replace(pipeline, cards=cards), reply, Owed(withdraw=withdrawn, launch=reply))


def _standing(pipeline: Pipeline, reply: Reply) -> str | None:
    return next((card.standing for card in pipeline.cards if card.question_id == reply.question_id), None)
