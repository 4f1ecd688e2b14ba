"""The main agent of one pipeline: put together from spec and session, run once, with every message persisted.

Listeners stand in this order: the session log first, so that nothing is counted or announced that is not stored.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.manifest import Counters, PendingQuestion
from checkpoint.session.errors import SessionLogBroken
from checkpoint.session.llm import convert_to_llm
from checkpoint.text import clean_json
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.conversion import IncrementalConversion
from runner.agent.types import AgentEvent, MessageEnd, TurnEnd
from runner.cleaning import clean_stream, clean_tool
from runner.interruption import InterruptionAdapter
from runner.parts import Parts
from runner.question_gate import Asker, QuestionGate
from runner.retrying import DecidedTurn, ModelChoice, RetryingAgent
from runner.session import OpenSession
from runner.settled import RunParts, StartByContinuing, StartWithPrompt, run_agent_until_settled
from runner.start import REPLY_ENTRY, Begin, CannotBegin, plan_start
from runner.stop import StopPolicy
from runner.tooling import open_tools
from runner.tools.ask_user import asking_tools
from runner.tools.errors import ToolSetupError
from runner.tools.toolbox import Toolbox
from runner.usage import UsageTotals, added
from settlement.outcome import BeforeRunFailure, ModelFailure, Outcome

if TYPE_CHECKING:
    from runner.models.failure import Failure
    from settlement.settle import Settlement


@dataclass(slots=True)
class AgentRun:
    """What is counted while the agent runs."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    input_appended: bool = False
    gate: QuestionGate | None = None
    """Knows which questions went out, also if the run ends in a defect."""

    toolbox: Toolbox | None = None

    def counters(self, before: Counters) -> Counters:
        """The whole session's counters: those from before, and this run's."""
        return added(before, self.usage)

    def pending_questions(self, settlement: "Settlement", session: OpenSession) -> tuple[PendingQuestion, ...]:
        """What the session waits for after this run."""
        from settlement.settle import AskUser

        if isinstance(settlement, AskUser):
            return tuple(
                PendingQuestion(question_id=q.question_id, tool_call_id=q.tool_call_id, entry_id=q.entry_id)
                for q in settlement.questions
            )
        return () if self.usage.requests or self.input_appended else session.pending_questions


async def run_main_agent(parts: Parts, session: OpenSession, run: AgentRun) -> Outcome:
    """Run the agent until it settles. What keeps it from starting is an outcome too."""
    begin = plan_start(session.messages, session.pending, parts.spec.input, _now_ms())
    if isinstance(begin, CannotBegin):
        return Outcome(before_run=BeforeRunFailure(begin.reason, begin.message))
    before = session.counters() if parts.spec.limits.scope == "session" else Counters()
    try:
        toolbox = run.toolbox = await open_tools(parts, run.usage, before)
    except ToolSetupError as error:
        return Outcome(before_run=BeforeRunFailure("setup_failed", str(error)))
    except TimeoutError:
        return Outcome(aborted_for="deadline_exceeded" if parts.stop.reason == "deadline_exceeded" else "cancelled")
    begin = clean_begin(begin)
    try:
        append_settings(parts, session, begin)
    except SessionLogBroken as error:
        return Outcome(log_broken=str(error))

    spec = parts.spec.agent
    gate = run.gate = QuestionGate(
        sender=parts.question_sender,
        asker=Asker(parts.spec.pipeline_id, parts.spec.attempt, parts.spec.session.id, parts.spec.labels),
        assistant_entry_id=lambda: session.log.last_assistant_entry_id,
    )
    interruption = InterruptionAdapter(gate.note, spec.ask_tools)
    policy = StopPolicy(
        limits=parts.spec.limits,
        counters=lambda: run.counters(before),
        requested=lambda: parts.stop.reason,
        interrupted=lambda: interruption.interruption is not None,
    )
    models = tuple(replace(choice, stream=clean_stream(choice.stream)) for choice in parts.models)
    first = models[0]
    agent = Agent(
        stream_fn=first.stream,
        system_prompt=spec.system_prompt if spec.system_prompt is not None else session.system_prompt or "",
        model=first.name,
        thinking_level=first.thinking_level,
        messages=session.messages,
        tools=[clean_tool(tool) for tool in (*asking_tools(gate), *toolbox.tools)],
        convert_to_llm=IncrementalConversion(convert_to_llm),
        after_tool_call=interruption.after_tool_call,
        should_stop_after_turn=policy.should_stop_after_turn,
    )
    agent.subscribe(persist(parts, session, run))
    if parts.events is not None:
        agent.subscribe(announce(parts))
    if parts.control is not None:
        parts.control.attach(agent)
    retrying = RetryingAgent(
        agent,
        models,
        time_left=parts.time_left,
        on_verdict=lambda turn: note_verdict(parts, session, turn),
        jitter=random.random,
    )
    start = StartByContinuing() if begin.prompt is None else StartWithPrompt((begin.prompt,))
    return await run_agent_until_settled(
        retrying,
        start,
        RunParts(
            policy=policy,
            interruption=interruption,
            gate=gate,
            log=session.log,
            requests=parts.stop,
            classify=lambda message: model_failure(retrying.model.failure_of(message)),
            end_wait_s=lambda: parts.timebox.remaining("agent", parts.spec.limits.grace_s),
        ),
    )


def clean_begin(begin: Begin) -> Begin:
    return begin if begin.prompt is None else Begin(clean_json(begin.prompt), begin.reply_to)


def append_settings(parts: Parts, session: OpenSession, begin: Begin) -> None:
    """What Pi writes before a run: model and thinking level where they change; and which call a reply answers."""
    first = parts.models[0]
    model = {"provider": first.name.provider, "modelId": first.name.id}
    if session.model != model:
        session.log.append("model_change", model)
    if session.thinking_level != first.thinking_level or not session.kept.entries:
        session.log.append("thinking_level_change", {"thinkingLevel": first.thinking_level})
    if begin.reply_to is not None:
        session.log.append_custom(REPLY_ENTRY, {"tool_call_id": begin.reply_to, "pipeline_id": parts.spec.pipeline_id})


def note_verdict(parts: Parts, session: OpenSession, turn: DecidedTurn) -> None:
    """A failed turn goes into the process's log; another model also into the session, as a person's change of model
    would.
    """
    from runner.models.retry import GiveUp, NextModel, RetryAfter

    verdict, failed, following = turn.verdict, turn.failed_model, turn.next_model
    said: JsonObject = {"reason": turn.failure.reason, "error": turn.failure.message[:500], "number": turn.attempt}
    match verdict:
        case GiveUp(why):
            parts.log.warning("model_failed", why=why, model=model_text(failed), **said)
        case RetryAfter(delay_s):
            parts.log.warning("model_retry", delay_s=round(delay_s, 3), next_model=model_text(following), **said)
        case NextModel():
            parts.log.warning("model_retry", delay_s=0.0, next_model=model_text(following), **said)
            name = following.name
            session.log.append("model_change", {"provider": name.provider, "modelId": name.id})
            if following.thinking_level != failed.thinking_level:
                session.log.append("thinking_level_change", {"thinkingLevel": following.thinking_level})


def model_text(choice: ModelChoice) -> str:
    return f"{choice.name.provider}/{choice.name.id}"


def model_failure(failure: "Failure | None") -> ModelFailure | None:
    """The adapters' word for a failure, in the settlement's words."""
    return None if failure is None else ModelFailure(failure.reason, failure.message, failure.retryable)


def persist(parts: Parts, session: OpenSession, run: AgentRun) -> Callable[[AgentEvent, AbortSignal | None], None]:
    """The listener that appends every message as it ends. A failure fails the run: the log is latched by then."""

    def on_event(event: AgentEvent, _signal: AbortSignal | None) -> None:
        match event:
            case MessageEnd(message):
                session.log.append_message(message)
                if message.get("role") == "assistant":
                    run.usage.requests += 1
                    run.usage.add(message)
                    parts.standing.count(run.usage)
                    warn_of_unknown_cost(parts, message)
                elif message.get("role") == "user":
                    run.input_appended = True
            case TurnEnd():
                if event.message.get("stopReason") not in ("error", "aborted"):
                    run.usage.turns += 1
                parts.standing.count(run.usage)
                if parts.fsync_turns:
                    session.log.fsync()
            case _:
                pass

    return on_event


def warn_of_unknown_cost(parts: Parts, message: Message) -> None:
    """A limit that cannot be watched, because nobody knows the model's prices, must not pass for one that is."""
    usage: JsonObject = message.get("usage") or {}
    cost: JsonObject = usage.get("cost") or {}
    if parts.spec.limits.max_cost_usd is None or not usage.get("totalTokens") or cost.get("total"):
        return
    model = f"{message.get('provider')}/{message.get('model')}"
    hint = f"limits.max_cost_usd cannot count what {model} costs: give its prices in the model's `cost`"
    if hint not in parts.warnings:
        parts.warnings.append(hint)
        parts.log.warning("cost_unknown", model=model, hint=hint)


def announce(parts: Parts) -> Callable[[AgentEvent, AbortSignal | None], None]:
    """The listener that prints events (`--events`)."""
    from runner.events import event_to_json

    events = parts.events
    assert events is not None

    def on_event(event: AgentEvent, _signal: AbortSignal | None) -> None:
        events.write(event_to_json(event))

    return on_event


def _now_ms() -> int:
    return int(time.time() * 1000)
