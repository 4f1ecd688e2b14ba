"""Replies, cancels, deadlines and callbacks in any order, by two workers: a reply wakes one task, once, or nobody."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from settlement.routing import Keep, NotTaken, Wake, from_chat
from settlement.tasks import Task, TaskState
from tests.fakes.card_index import CardIndex, TaskBook
from tests.unit.settlement.samples import (
    ASK_USER,
    FAILURE,
    SUCCESS,
    a_question,
    a_terminal,
    asked,
    commit_of,
    received_question,
    received_terminal,
)

OVER = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED)
WORKERS = (0, 1)
TASKS = {"t0": ("stream-1", "qq:1"), "t1": ("stream-1", "qq:1"), "t2": ("stream-1", "qq:2"), "t3": ("stream-2", "qq:1")}
task_ids = st.sampled_from(sorted(TASKS))
call_ids = st.sampled_from(["call-1", "call-2"])


class Replies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = TaskBook(dict(TASKS))
        self.numbers = count(1)
        self.over: dict[str, Task] = {}
        self.seen: list[CardIndex] = [CardIndex(), CardIndex()]
        self.now_s = 0.0
        self.deliveries: dict[str, tuple[str, str, str | None]] = {}
        for task_id in TASKS:
            self.book.start(Task(task_id, f"s-{task_id}"), self.pipeline_id())

    def pipeline_id(self) -> str:
        return f"p{next(self.numbers)}"

    def current(self, task_id: str) -> str:
        """The pipeline launched last for the task."""
        return [pipeline for pipeline, (owner, _) in self.book.pipelines.items() if owner == task_id][-1]

    @rule(task_id=task_ids, call_id=call_ids)
    def the_model_asks(self, task_id: str, call_id: str) -> None:
        pipeline_id = self.current(task_id)
        asking = a_question(pipeline_id=pipeline_id, session_id=f"s-{task_id}", tool_call_id=call_id)
        shown = self.book.question(received_question(asking))
        assert not (shown and self.book.tasks[task_id].state in OVER)

    @rule(
        task_id=task_ids, kind=st.sampled_from(["ask_user", "ask_user", "success", "failure"]), calls=st.sets(call_ids)
    )
    def the_pipeline_ends(self, task_id: str, kind: str, calls: set[str]) -> None:
        pipeline_id = self.current(task_id)
        point = self.book.points[f"s-{task_id}"]
        listed = asked(*sorted(calls or {"call-1"}), pipeline_id=pipeline_id) if kind == "ask_user" else ()
        record = a_terminal(
            pipeline_id=pipeline_id,
            session_id=f"s-{task_id}",
            settlement={"ask_user": ASK_USER, "success": SUCCESS, "failure": FAILURE}[kind],
            questions=listed,
            checkpoint=commit_of(pipeline_id, point.digest if point else None),
        )
        self.book.terminal(received_terminal(record), self.pipeline_id)

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_looks(self, worker: int) -> None:
        self.seen[worker] = self.book.index()

    @rule(
        worker=st.sampled_from(WORKERS), user=st.sampled_from("12"), stream=st.sampled_from([1, 2]), names=st.booleans()
    )
    def a_person_writes(self, worker: int, user: str, stream: int, names: bool) -> None:
        named = next(iter(self.book.places), None) if names else None
        reply_id = f"r{len(self.deliveries) + 1}"
        self.deliveries[reply_id] = (f"stream-{stream}", user, named)
        self.deliver(worker, reply_id)

    @precondition(lambda self: bool(self.deliveries))
    @rule(worker=st.sampled_from(WORKERS), data=st.data())
    def it_is_delivered_again(self, worker: int, data: st.DataObject) -> None:
        reply_id = data.draw(st.sampled_from(sorted(self.deliveries)))
        before = self.book.answers[reply_id]
        launches = list(self.book.launches)
        assert self.deliver(worker, reply_id) == before
        assert self.book.launches == launches

    def deliver(self, worker: int, reply_id: str) -> Wake | Keep | NotTaken:
        stream, user, named = self.deliveries[reply_id]
        states = dict(self.book.tasks)
        message = from_chat(stream, "qq", user, "staging", question_id=named)
        found = self.book.reply(message, reply_id, self.seen[worker], self.now_s, self.pipeline_id)
        if isinstance(found, Wake):
            woken = [task_id for task_id, task in self.book.tasks.items() if task != states[task_id]]
            assert len(woken) <= 1
            for task_id in woken:
                assert states[task_id].state is TaskState.WAITING_INPUT
                assert TASKS[task_id] == (stream, f"qq:{user}")
        return found

    @rule(task_id=task_ids)
    def a_person_cancels(self, task_id: str) -> None:
        self.book.cancel(task_id)

    @rule(by_s=st.sampled_from([10.0, 90.0]), task_id=task_ids)
    def time_goes_by(self, by_s: float, task_id: str) -> None:
        self.now_s += by_s
        self.book.expire(task_id, self.now_s)

    @invariant()
    def what_is_over_stays_as_it_ended(self) -> None:
        for task_id, ended in self.over.items():
            assert self.book.tasks[task_id] == ended
        self.over |= {task_id: task for task_id, task in self.book.tasks.items() if task.over}

    @invariant()
    def every_reply_launches_at_most_once_and_is_told_at_most_once(self) -> None:
        launched = [reply for _, reply in self.book.launches if reply is not None]
        assert len({reply.reply_id for reply in launched}) == len(launched)
        assert len({reply.question_id for reply in launched}) == len(launched)
        told = [reply.reply_id for reply in self.book.told]
        assert len(set(told)) == len(told)
        assert not set(told) & {reply.reply_id for reply in launched}

    @invariant()
    def a_kept_reply_is_launched_told_or_still_kept(self) -> None:
        known = {reply.reply_id for reply in self.book.told}
        known |= {reply.reply_id for _, reply in self.book.launches if reply is not None}
        for pipeline_id in self.book.pipelines:
            _, pipeline = self.book.pipelines[pipeline_id]
            known |= {reply.reply_id for reply in pipeline.replies}
        for reply_id, answer in self.book.answers.items():
            assert isinstance(answer, NotTaken) or reply_id in known

    @invariant()
    def cards_of_tasks_that_do_not_wait_or_run_are_closed(self) -> None:
        for card in self.book.index().cards:
            state = self.book.tasks[card.place.task_id].state
            if card.standing == "open":
                assert state in (TaskState.RUNNING, TaskState.WAITING_INPUT)
            if card.waiting and card.standing == "open":
                assert card.place.pipeline_id == self.current(card.place.task_id)

    @invariant()
    def a_task_has_one_pipeline_without_a_record_at_most(self) -> None:
        for task_id, task in self.book.tasks.items():
            open_ones = [
                pipeline.pipeline_id
                for owner, pipeline in self.book.pipelines.values()
                if owner == task_id and pipeline.judgement is None
            ]
            assert len(open_ones) <= 1
            if task.state is TaskState.WAITING_INPUT:
                assert open_ones == []


TestReplies = Replies.TestCase
TestReplies.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
