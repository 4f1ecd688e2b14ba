"""The cards of a server in memory, and a task book over them: what `settlement.routing` asks, looked up by brute force.

`TaskBook` is the smallest consuming side there is: it stores what the decisions say, one at a time, as a database
with transactions would. Workers route on a copy that may be old, and commit on what is there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from settlement.commit_rule import (
    Commit,
    Owed,
    Pipeline,
    Refuse,
    Reply,
    RestorePoint,
    ShowCard,
    decide_commit,
    decide_question,
    withdraw_all,
)
from settlement.receiving import ReceivedQuestion, ReceivedTerminal
from settlement.routing import (
    Address,
    CardPlace,
    ChatMessage,
    Keep,
    NotTaken,
    ReplyDecision,
    Wake,
    decide_reply,
    quote_key,
    route,
)
from settlement.tasks import Task, TaskState, after_terminal, cancel, expire, step


@dataclass(frozen=True, slots=True)
class StoredCard:
    place: CardPlace
    text: str
    standing: str = "open"
    waiting: bool = False
    replied: bool = False


@dataclass(frozen=True, slots=True)
class CardIndex:
    """In the order they were asked."""

    cards: tuple[StoredCard, ...] = ()

    def named(self, question_id: str) -> CardPlace | None:
        return _first(card for card in self.cards if card.place.question_id == question_id)

    def quoted(self, address: Address, key: str) -> CardPlace | None:
        found = [card for card in self._fitting(address) if quote_key(card.text) == key]
        return _first([*(card for card in found if card.standing == "open"), *found])

    def first(self, address: Address, *, waiting: bool) -> CardPlace | None:
        return _first(
            card
            for card in self._fitting(address)
            if card.standing == "open" and card.waiting == waiting and not (card.replied and not waiting)
        )

    def _fitting(self, address: Address) -> list[StoredCard]:
        return [card for card in self.cards if address.fits(card.place.stream_id, card.place.owner)]


def _first(cards: Iterable[StoredCard]) -> CardPlace | None:
    return next((card.place for card in cards), None)


@dataclass(slots=True)
class TaskBook:
    streams: dict[str, tuple[str, str]]
    """Stream and owner of each task."""
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    pipelines: dict[str, tuple[str, Pipeline]] = field(default_factory=dict[str, tuple[str, Pipeline]])
    """Task and record of each pipeline, in the order of their launch."""
    points: dict[str, RestorePoint | None] = field(default_factory=dict[str, RestorePoint | None])
    places: dict[str, StoredCard] = field(default_factory=dict[str, StoredCard])
    answers: dict[str, ReplyDecision] = field(default_factory=dict[str, ReplyDecision])
    """By reply id: the second delivery gets the answer of the first."""
    launches: list[tuple[str, Reply | None]] = field(default_factory=list[tuple[str, Reply | None]])
    told: list[Reply] = field(default_factory=list[Reply])

    def start(self, task: Task, pipeline_id: str) -> None:
        running = step(task, "launched")
        assert running is not None
        self.tasks[task.task_id] = running
        self.points.setdefault(task.session_id, None)
        self._launch(running, pipeline_id, None)

    def _launch(self, task: Task, pipeline_id: str, reply: Reply | None) -> None:
        self.pipelines[pipeline_id] = (task.task_id, Pipeline(pipeline_id, task.session_id))
        self.launches.append((pipeline_id, reply))

    def index(self) -> CardIndex:
        """How the cards stand now."""
        found: list[StoredCard] = []
        for card in self.places.values():
            task_id, pipeline = self.pipelines[card.place.pipeline_id]
            stored = next(known for known in pipeline.cards if known.question_id == card.place.question_id)
            found.append(
                replace(
                    card,
                    standing=stored.standing,
                    waiting=self.tasks[task_id].state is TaskState.WAITING_INPUT,
                    replied=any(reply.question_id == stored.question_id for reply in pipeline.replies),
                )
            )
        return CardIndex(tuple(found))

    def question(self, received: ReceivedQuestion) -> bool:
        question = received.question
        task_id, pipeline = self.pipelines[question.pipeline_id]
        decision = decide_question(pipeline, received, streams=(), wanted=not self.tasks[task_id].over)
        if not isinstance(decision, ShowCard):
            return False
        self.pipelines[question.pipeline_id] = (task_id, decision.pipeline)
        place = CardPlace(question.question_id, question.pipeline_id, task_id, *self.streams[task_id])
        self.places[question.question_id] = StoredCard(place, question.question or "")
        return True

    def terminal(self, received: ReceivedTerminal, next_id: Callable[[], str]) -> None:
        terminal = received.terminal
        task_id, pipeline = self.pipelines[terminal.pipeline_id]
        task = self.tasks[task_id]
        point = self.points[task.session_id]
        decision = decide_commit(pipeline, point, received, wanted=not task.over)
        if not isinstance(decision, Commit | Refuse):
            return
        self.pipelines[terminal.pipeline_id] = (task_id, decision.pipeline)
        if isinstance(decision, Commit):
            self.points[task.session_id] = decision.restore_point
        for state in after_terminal(task, terminal, decision, deadline_s=100.0):
            self.tasks[task_id] = state
        self._owe(task_id, decision.owed, next_id)

    def reply(
        self, message: ChatMessage | None, reply_id: str, index: CardIndex, now_s: float, next_id: Callable[[], str]
    ) -> ReplyDecision:
        """One delivery of a message: routed on `index`, decided on what is stored."""
        if reply_id in self.answers:
            return self.answers[reply_id]
        place = route(message, index)
        if isinstance(place, NotTaken) or message is None:
            decision: ReplyDecision = place if isinstance(place, NotTaken) else NotTaken("skipped")
        else:
            task_id, pipeline = self.pipelines[place.pipeline_id]
            decision = decide_reply(
                self.tasks[task_id], pipeline, Reply(reply_id, place.question_id, message.text), now_s
            )
            if isinstance(decision, Keep | Wake):
                self.pipelines[place.pipeline_id] = (task_id, decision.pipeline)
            if isinstance(decision, Wake):
                self.tasks[task_id] = decision.task
                self._owe(task_id, decision.owed, next_id)
        self.answers[reply_id] = decision
        return decision

    def cancel(self, task_id: str) -> None:
        self._end(cancel(self.tasks[task_id]))

    def expire(self, task_id: str, now_s: float) -> None:
        self._end(expire(self.tasks[task_id], now_s))

    def _end(self, task: Task | None) -> None:
        if task is None:
            return
        self.tasks[task.task_id] = task
        for pipeline_id, (owner, pipeline) in tuple(self.pipelines.items()):
            if owner == task.task_id:
                withdrawn, owed = withdraw_all(pipeline)
                self.pipelines[pipeline_id] = (owner, withdrawn)
                self.told.extend(owed.tell)

    def _owe(self, task_id: str, owed: Owed, next_id: Callable[[], str]) -> None:
        self.told.extend(owed.tell)
        if owed.launch is not None:
            self._launch(self.tasks[task_id], next_id(), owed.launch)
