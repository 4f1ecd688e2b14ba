"""A whole replay: run after run, until the recording ends or the replay parts from it; then freeze and settlement.

Refuses to go on after a difference: what would follow answers another conversation.
"""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject
from runner.interruption import ASK_TOOLS
from runner.question_gate import Asker
from runner.replay.one_run import Replaying, replay_run
from runner.replay.replay_log import ReplayLog
from runner.replay.segments import Piece, Run, Unasked, segment
from runner.replay.tape import Divergence, ReplayOver, Tape
from runner.replay.told import UNKNOWN, Told
from runner.usage import UsageTotals
from settlement.outcome import Outcome

OnTurn = Callable[[int, int], bool]


class Given(Struct, frozen=True, kw_only=True):
    """What is replayed: the `entries` of a branch, or of the part of it that one pipeline made."""

    entries: Sequence[JsonObject]
    one_pipeline: bool = False
    continues: bool = False
    cut: bool = False
    """Stop at the end of the entries: more follows."""
    asker: Asker
    told: Told = UNKNOWN
    used: UsageTotals
    """What is counted besides the entries: the use of subagents."""


class Replayed(Struct, frozen=True, kw_only=True):
    divergence: Divergence | None
    runs: int
    turns: int
    left: tuple[int, ...]
    """Where runs were left, as the recorded ones were: positions of their last messages."""
    outcome: Outcome | None
    """Of the last run, if it came to its end and nothing differed."""
    usage: UsageTotals
    at: int
    """The position of the last message that was replayed."""


async def replay(given: Given, log: ReplayLog, on_turn: OnTurn) -> Replayed:
    """Run what is given again. `log` holds what lies before it, and takes what the replay makes."""
    told, own = given.told, given.entries
    may_ask: Collection[str] = ASK_TOOLS | told.asking
    pieces = segment(own, may_ask=may_ask, one_pipeline=given.one_pipeline, continues=given.continues, cut=given.cut)
    before, usage = log.entries, given.used
    tape = Tape(own, log, usage, on_turn)
    shared = Replaying(entries=own, log=log, tape=tape, usage=usage, asker=given.asker, may_ask=may_ask, told=told)
    outcome: Outcome | None = None
    left: list[int] = []
    try:
        outcome = await _play(shared, pieces, left)
        if given.cut and left:
            left.pop()  # that is where more follows
        if not tape.over:
            tape.take_over(len(own))
    except ReplayOver:
        outcome = None
    if outcome is not None:
        outcome = replace(outcome, appended=log.entries > before)
    return Replayed(
        divergence=tape.divergence,
        runs=sum(isinstance(piece, Run) for piece in pieces),
        turns=tape.turns,
        left=tuple(left),
        outcome=None if tape.divergence is not None else outcome,
        usage=usage,
        at=tape.at,
    )


async def _play(shared: Replaying, pieces: Sequence[Piece], left: list[int]) -> Outcome | None:
    outcome: Outcome | None = None
    tape = shared.tape
    for number, piece in enumerate(pieces):
        if isinstance(piece, Unasked):
            message = shared.entries[piece.position]["message"]
            if message.get("role") == "assistant":
                what = "nothing asks the model for this answer: the one before it had ended the run"
            else:
                what = f"no call of the answer before it asks for this result (call {message.get('toolCallId')!r})"
            raise tape.diverge("only_recorded", piece.position, what, message)
        outcome = await replay_run(shared, piece, is_last=number + 1 == len(pieces))
        if tape.divergence is not None or tape.stopped:
            return None
        if tape.left:
            left.append(piece.last)
            outcome = None
    return outcome
