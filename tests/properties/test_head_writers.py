"""Whatever order the calls of competing processes come in, and whichever of them are lost, late or answered
in vain: one owner at a time, one terminal record for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.errors import StoreError
from checkpoint.head import (
    Acknowledged,
    AlreadyTerminal,
    Claimed,
    Fenced,
    Progress,
    RejectedBefore,
    Terminal,
    Updated,
    parse_head,
)
from checkpoint.head_writer import HeadWriter
from checkpoint.keys import head_key
from checkpoint.manifest import chain_of
from tests.fakes.memory_store import MemoryStore
from tests.fakes.stage import ActorStore, Fault, Stage
from tests.unit.checkpoint.checkpoints import claimant

KEY = head_key("p1")
TRIES = 3


@dataclass
class History:
    """Every state of the head, and what the processes were told."""

    heads: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    claimed: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    fenced: list[tuple[str, Fenced]] = field(default_factory=list[tuple[str, Fenced]])
    committed: list[str] = field(default_factory=list[str])
    delivered: list[str] = field(default_factory=list[str])
    acknowledged: list[str] = field(default_factory=list[str])


class Recording(MemoryStore):
    def __init__(self, history: History) -> None:
        super().__init__(after=self._note)
        self._history = history

    def _note(self, operation: str, key: str) -> None:
        data = self.objects.get(key)
        if operation.startswith("put") and data is not None:
            head = parse_head(data, key).json
            if not self._history.heads or self._history.heads[-1] != head:
                self._history.heads.append(head)


def process(history: History, claim_id: str, attempt: int, turns: int) -> Callable[[ActorStore], None]:
    """What a pipeline process does with its head: claim, progress, commit, deliver, acknowledge."""

    def run(store: ActorStore) -> None:
        writer = HeadWriter(store, "p1", pause=lambda _: None)
        try:
            claim = tried(lambda: writer.claim(claimant(claim_id, attempt=attempt)))
            body = settle(writer, claim)
            if body is not None:
                history.delivered.append(body)
                if isinstance(tried(writer.acknowledge), Acknowledged):
                    history.acknowledged.append(body)
        except StoreError:
            return  # the process gave up: exit 75

    def settle(writer: HeadWriter, claim: object) -> str | None:
        if isinstance(claim, Claimed):
            history.claimed.append((claim_id, attempt))
            counted = count()  # a later try has more to say
            for _ in range(turns):
                stopped = tried(lambda: writer.update(progress(next(counted))))
                if isinstance(stopped, Fenced):
                    history.fenced.append((claim_id, stopped))
            bodies = [
                f'{{"by": "{claim_id}, try {number}"}}' for number in range(TRIES)
            ]  # a later try may say another thing
            tries = iter(bodies)
            claim = tried(lambda: writer.commit_terminal(terminal(next(tries))))
            if isinstance(claim, Updated):
                stored = claim.head.fields.terminal
                assert stored is not None
                assert stored.body in bodies
                history.committed.append(stored.body)
                return stored.body
            if isinstance(claim, Fenced):
                history.fenced.append((claim_id, claim))
        if isinstance(claim, AlreadyTerminal):
            stored = claim.head.fields.terminal
            assert stored is not None
            return stored.body
        return None

    return run


def tried(write: Callable[[], object]) -> object:
    for _ in range(TRIES - 1):
        try:
            return write()
        except StoreError:
            continue
    return write()


def terminal(body: str) -> Terminal:
    return Terminal(body=body, webhook_id="term_p1", manifest=None, digest=None)


def progress(turn: int) -> Progress:
    return Progress(segments=(), entries=turn, leaf_id=None, chain=chain_of(()), input_consumed=True, usage={})


processes = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2)), min_size=2, max_size=3)
schedule = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([Fault.NONE, Fault.NONE, Fault.NONE, *Fault])), max_size=40
)


@settings(max_examples=300, deadline=None)
@given(processes, schedule)
def test_one_owner_at_a_time_and_one_terminal_for_ever(
    launched: list[tuple[int, int]], steps: list[tuple[int, Fault]]
) -> None:
    history = History()
    actors = [process(history, f"claim{number}", attempt, turns) for number, (attempt, turns) in enumerate(launched)]
    stage = Stage(Recording(history), actors)
    for choice, fault in steps:
        stage.step(choice, fault)
    stage.finish()
    check_changes(history.heads)
    check_beliefs(history)


def check_changes(heads: list[dict[str, Any]]) -> None:
    order = ["claimed", "terminal", "acknowledged", "rejected"]
    for before, after in pairwise(heads):
        assert after["revision"] > before["revision"]
        assert order.index(after["state"]) >= order.index(before["state"])
        assert before["state"] not in ("acknowledged", "rejected")
        if before["terminal"] is not None:
            assert after["terminal"] == before["terminal"]
        if after["claim_id"] != before["claim_id"]:  # a takeover, of a mere claim, by a higher attempt
            assert after["attempt"] > before["attempt"]
            assert (before["state"], after["state"]) == ("claimed", "claimed")
            assert after["progress"] == before["progress"]
        else:
            assert after["attempt"] == before["attempt"]


def check_beliefs(history: History) -> None:
    attempts = [attempt for _, attempt in history.claimed]
    assert len(attempts) == len(set(attempts))  # of two processes of one attempt, one runs
    for claim_id, fenced in history.fenced:  # nobody is fenced but by another's claim
        assert fenced.head is not None
        assert fenced.head.fields.claim_id != claim_id
    assert len(history.committed) <= 1
    last = history.heads[-1] if history.heads else None
    bodies = {*history.committed, *history.delivered, *history.acknowledged}
    if bodies:
        assert last is not None
        assert bodies == {last["terminal"]["body"]}


@settings(max_examples=150, deadline=None)
@given(schedule, st.booleans())
def test_redeliveries_agree_on_the_servers_word(steps: list[tuple[int, Fault]], refuse: bool) -> None:
    """Two deliverers of one stored record, one of which may have heard a refusal: both end with what was
    noted first.
    """
    store = MemoryStore()
    owner = HeadWriter(store, "p1")
    owner.claim(claimant())
    owner.commit_terminal(terminal('{"by": "owner"}'))
    heard: list[object] = []

    def deliver(note: str) -> Callable[[ActorStore], None]:
        def run(actor_store: ActorStore) -> None:
            writer = HeadWriter(actor_store, "p1", pause=lambda _: None)
            try:
                if tried(writer.read) is not None:
                    heard.append(tried(writer.reject if note == "reject" else writer.acknowledge))
            except StoreError:
                return

        return run

    stage = Stage(store, [deliver("acknowledge"), deliver("reject" if refuse else "acknowledge")])
    for choice, fault in steps:
        stage.step(choice, fault)
    stage.finish()
    noted = parse_head(store.objects[KEY], KEY).fields
    assert noted.terminal == terminal('{"by": "owner"}')
    for word in heard:
        assert isinstance(word, Acknowledged | RejectedBefore)
        assert word.head.fields.state == noted.state
