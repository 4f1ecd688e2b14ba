"""Whatever arrives, in whatever order and however often: one commit per pipeline, one line of restore points."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.callback import Terminal
from settlement.commit_rule import (
    Commit,
    JudgedBefore,
    Pipeline,
    Refuse,
    Reply,
    RestorePoint,
    ShowCard,
    ShownBefore,
    decide_commit,
    decide_question,
    keep_reply,
)
from settlement.question import question_id
from settlement.receiving import Problem
from tests.unit.settlement.samples import (
    ASK_USER,
    FAILURE,
    SUCCESS,
    a_question,
    a_terminal,
    asked,
    commit_of,
    digest_of,
    keep_previous,
    received_question,
    received_terminal,
)

PIPELINES = ("p1", "p2")
POINTS = (None, "p1", "p2", "start")


@dataclass(frozen=True)
class Ask:
    pipeline: str
    call: str
    attempt: int


@dataclass(frozen=True)
class Answered:
    pipeline: str
    call: str
    reply: str


@dataclass(frozen=True)
class Ends:
    pipeline: str
    attempt: int
    kind: str
    listed: tuple[str, ...]
    parent: str | None


calls = st.sampled_from(["call-1", "call-2"])
names = st.sampled_from(PIPELINES)
attempts = st.integers(1, 3)
events = st.one_of(
    st.builds(Ask, names, calls, attempts),
    st.builds(Answered, names, calls, st.sampled_from(["r1", "r2"])),
    st.builds(
        Ends,
        names,
        attempts,
        st.sampled_from(["ask_user", "success", "failure", "nothing"]),
        st.lists(calls, unique=True).map(tuple),
        st.sampled_from(POINTS),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(events, max_size=14), st.sampled_from([None, "start"]))
def test_restore_points_form_one_line_and_nobody_is_forgotten(story: list[Ask | Answered | Ends], start: str | None):
    point = None if start is None else RestorePoint(digest_of(start))
    pipelines = {name: Pipeline(name, "s1") for name in PIPELINES}
    commits: dict[str, str] = {}
    for event in story:
        pipeline = pipelines[event.pipeline]
        match event:
            case Ask():
                question = a_question(pipeline_id=event.pipeline, tool_call_id=event.call, attempt=event.attempt)
                shown = decide_question(pipeline, received_question(question), streams=())
                if isinstance(shown, ShowCard | ShownBefore):
                    pipelines[event.pipeline] = shown.pipeline
                if isinstance(shown, ShowCard):
                    assert pipeline.judgement is None
            case Answered():
                identity = question_id(event.pipeline, "e0000001", event.call)
                pipelines[event.pipeline] = keep_reply(pipeline, Reply(event.reply, identity, "x")) or pipeline
            case Ends():
                decision = decide_commit(pipeline, point, received_terminal(record(event)))
                if isinstance(decision, Commit):
                    assert event.pipeline not in commits
                    commits[event.pipeline] = event.kind
                    if event.kind in ("failure", "nothing"):
                        assert decision.owed.launch is None
                    if event.kind == "nothing":
                        assert decision.restore_point == point
                    else:
                        assert (None if point is None else point.digest) == digest(event.parent)
                    point = decision.restore_point
                if isinstance(decision, Commit | Refuse):
                    assert pipeline.judgement is None
                    everybody_is_served(pipeline, decision)
                    pipelines[event.pipeline] = decision.pipeline
                else:
                    assert isinstance(decision, JudgedBefore | Problem)


def record(event: Ends) -> Terminal:
    parent = digest(event.parent)
    return a_terminal(
        pipeline_id=event.pipeline,
        attempt=event.attempt,
        settlement={"ask_user": ASK_USER, "success": SUCCESS}.get(event.kind, FAILURE),
        questions=asked(*event.listed, pipeline_id=event.pipeline) if event.kind == "ask_user" else (),
        checkpoint=keep_previous(parent) if event.kind == "nothing" else commit_of(event.pipeline, parent),
    )


def digest(name: str | None) -> str | None:
    return None if name is None else digest_of(name)


def everybody_is_served(before: Pipeline, decision: Commit | Refuse) -> None:
    owed = decision.owed
    launched = () if owed.launch is None else (owed.launch,)
    assert sorted([*owed.tell, *launched], key=repr) == sorted(before.replies, key=repr)
    standing = {card.question_id: card.standing for card in decision.pipeline.cards}
    for card in before.cards:
        waits = card.question_id in owed.wait_for
        answered = owed.launch is not None and card.question_id == owed.launch.question_id
        withdrawn = card.question_id in owed.withdraw
        assert [waits, answered, withdrawn].count(True) == 1
        assert standing[card.question_id] == ("open" if waits else "answered" if answered else "withdrawn")
