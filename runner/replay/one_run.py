"""Runs the loop once on what is recorded of one run: the real agent, retries, stop policy, question gate and outcome,
put together as `runner/agent_run.py` does it, with the recording in the place of model and tools.

The transcript before the run is not given to it: the recording answers by place, whatever it is sent.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.agent import Agent
from runner.agent.types import ModelName
from runner.interruption import InterruptionAdapter
from runner.question_gate import Asker, QuestionGate
from runner.replay.player import LostQuestions, Player
from runner.replay.replay_log import ReplayLog
from runner.replay.segments import Run
from runner.replay.tape import Tape
from runner.replay.told import Told
from runner.retrying import DecidedTurn, ModelChoice, RetryingAgent
from runner.settled import RunParts, Start, StartByContinuing, StartWithPrompt, run_agent_until_settled
from runner.stop import StopPolicy
from runner.usage import UsageTotals
from settlement.outcome import ModelFailure, Outcome

END_WAIT_S = 10.0
"""For what ends an aborted run. Nothing of a replay waits for anybody, so this is never used up."""
_CUT_OFF_S = 0.2
"""The same where the recorded run had to be cut off."""
_SOMETHING_TO_ANSWER: Message = {"role": "user", "content": []}


class Limits(Struct, frozen=True):
    """What the recorded run was stopped by (`RunLimits`)."""

    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None


class Replaying(Struct, frozen=True, kw_only=True):
    """What all runs of one replay share."""

    entries: Sequence[JsonObject]
    log: ReplayLog
    tape: Tape
    usage: UsageTotals
    """What has been used so far; grows."""
    asker: Asker
    may_ask: Collection[str]
    told: Told


async def replay_run(shared: Replaying, run: Run, *, is_last: bool) -> Outcome:
    """Run once. What differed is in the tape; if that is over, the outcome says nothing."""
    told = shared.told if is_last else None
    shared.tape.begin(run)
    player = Player(shared.entries, run, shared.tape, told)
    gate = QuestionGate(
        sender=LostQuestions(),
        asker=shared.asker,
        assistant_entry_id=lambda: shared.log.last_assistant_entry_id,
    )
    interruption = InterruptionAdapter(gate.note, shared.may_ask)
    policy = StopPolicy(
        limits=_limits(told),
        counters=lambda: shared.usage,
        requested=lambda: player.stop.reason,
        interrupted=lambda: interruption.interruption is not None,
    )
    agent = Agent(
        stream_fn=player.stream,
        model=ModelName("recorded", "recorded", "recorded"),
        messages=() if run.prompts else (_SOMETHING_TO_ANSWER,),
        tools=player.tools,
        tool_execution="sequential" if player.sequential else "parallel",
        convert_to_llm=_unchanged,
        before_tool_call=player.before_tool_call if player.aborts_calls else None,
        after_tool_call=player.after_tool_call,
        should_stop_after_turn=policy.should_stop_after_turn,
    )
    agent.steering_mode = agent.follow_up_mode = "all"
    agent.subscribe(shared.tape.observe)
    player.agent, player.interruption, player.gate = agent, interruption, gate
    others = sum(turn.after == "next_model" for turn in run.turns)
    choice = ModelChoice(ModelName("recorded"), player.stream, player.failure_of, max_retries=2**31)
    retrying = RetryingAgent(
        agent,
        (choice,) * (1 + others),
        time_left=player.time_left,
        on_verdict=_nothing,
        jitter=_no_jitter,
        sleep=player.pause,
    )
    cut_off = is_last and run.end == "unanswered" and told is not None and told.ended == "requested"
    outcome = await run_agent_until_settled(
        retrying,
        _start(shared.entries, run),
        RunParts(
            policy=policy,
            interruption=interruption,
            gate=gate,
            log=shared.log,
            requests=player.stop,
            classify=lambda message: _model_failure(player, message),
            end_wait_s=lambda: _CUT_OFF_S if cut_off else END_WAIT_S,
        ),
    )
    if agent.failure is not None and not shared.tape.over:
        shared.tape.diverge("only_replayed", shared.tape.at, f"the loop failed here: {agent.failure!r}")
    shared.tape.finish(run)
    return outcome


def _start(entries: Sequence[JsonObject], run: Run) -> Start:
    if run.prompts:
        return StartWithPrompt(tuple(entries[position]["message"] for position in run.prompts))
    return StartByContinuing()


def _limits(told: Told | None) -> Limits:
    """A limit that the recorded run reached with its last turn, and not before."""
    match None if told is None or told.ended != "limit" else told.reason:
        case "turn_limit":
            return Limits(max_turns=told.turns if told is not None else None)
        case "token_limit":
            return Limits(max_total_tokens=told.total_tokens if told is not None else None)
        case "cost_limit":
            return Limits(max_cost_usd=told.cost_usd * (1 - 1e-9) if told is not None else None)
        case _:
            return Limits()


def _model_failure(player: Player, message: Message) -> ModelFailure | None:
    failure = player.failure_of(message)
    return None if failure is None else ModelFailure(failure.reason, failure.message, failure.retryable)


def _unchanged(messages: list[Message]) -> list[Message]:
    return messages


def _nothing(_turn: DecidedTurn) -> None:
    pass


def _no_jitter() -> float:
    return 0.0
