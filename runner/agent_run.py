"""The main agent of one pipeline: put together from spec and session, run once, with every message persisted.

Listeners stand in this order: the session log first, so that nothing is counted or announced that is not stored.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.manifest import Counters, PendingQuestion
from checkpoint.session.errors import SessionLogBroken
from checkpoint.session.llm import convert_to_llm
from checkpoint.text import clean_json
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.conversion import IncrementalConversion
from runner.agent.types import AgentEvent, AgentTool, MessageEnd, TurnEnd
from runner.cleaning import clean_stream, clean_tool
from runner.interruption import InterruptionAdapter
from runner.parts import Parts
from runner.preloading import preload_at_first_words
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
from runner.usage import UsageTotals, added, totals_of
from settlement.outcome import AbortReason, BeforeRunFailure, ModelFailure, Outcome

if TYPE_CHECKING:
    from runner.models.failure import Failure
    from runner.run_progress import RunProgress
    from settlement.settle import Settlement

EventListener: TypeAlias = Callable[[AgentEvent, AbortSignal | None], None]


@dataclass(slots=True)
class AgentRun:
    """What is counted while the agent runs."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    input_appended: bool = False
    gate: QuestionGate | None = None
    """Knows which questions went out, also if the run ends in a defect."""

    toolbox: Toolbox | None = None
    progress: "RunProgress | None" = None
    """What saves it while it grows."""

    def transcripts(self) -> dict[str, Path]:
        """The subagents' transcripts by name."""
        return self.toolbox.subagents.transcripts if self.toolbox is not None and self.toolbox.subagents else {}

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
    if session.progress is not None:
        run.usage = totals_of(session.progress.usage)
        parts.standing.count(run.usage)
    gate = run.gate = question_gate(parts, session)
    asking = asking_tools(gate)
    listeners = [persist(parts, session, run), *([announce(parts)] if parts.events is not None else [])]
    if session.input_consumed:
        over = await resume_run(parts, session, run, asking, listeners)
        if over is not None:
            gate.close()
            return over
        begin: Begin | CannotBegin = Begin(None)
    else:
        begin = plan_start(session.messages, session.pending, parts.spec.input, _now_ms())
    if isinstance(begin, CannotBegin):
        return not_started(session, before_run=BeforeRunFailure(begin.reason, begin.message))
    before = session.counters() if parts.spec.limits.scope == "session" else Counters()
    try:
        toolbox = run.toolbox = await open_tools(parts, run.usage, before, subagents_before=len(session.files))
    except ToolSetupError as error:
        return not_started(session, before_run=BeforeRunFailure("setup_failed", str(error)))
    except TimeoutError:
        deadline = parts.stop.reason == "deadline_exceeded"
        return not_started(session, aborted_for="deadline_exceeded" if deadline else "cancelled")
    begin = clean_begin(begin)
    try:
        append_settings(parts, session, begin)
    except SessionLogBroken as error:
        return Outcome(log_broken=str(error))

    spec = parts.spec.agent
    interruption = InterruptionAdapter(gate.note, spec.ask_tools)
    policy = StopPolicy(
        limits=parts.spec.limits,
        counters=lambda: run.counters(before),
        requested=lambda: parts.stop.reason,
        interrupted=lambda: interruption.interruption is not None,
    )
    progress = run.progress = open_progress(parts, session, run, interruption)
    models = tuple(replace(choice, stream=clean_stream(choice.stream)) for choice in parts.models)
    first = models[0]
    agent = Agent(
        stream_fn=first.stream,
        system_prompt=spec.system_prompt if spec.system_prompt is not None else session.system_prompt or "",
        model=first.name,
        thinking_level=first.thinking_level,
        messages=session.messages,
        tools=[clean_tool(tool) for tool in (*asking, *toolbox.tools)],
        convert_to_llm=IncrementalConversion(convert_to_llm),
        before_tool_call=progress.before_calls() if progress is not None else None,
        after_tool_call=interruption.after_tool_call,
        should_stop_after_turn=policy.should_stop_after_turn if progress is None else progress.after_turns(policy),
    )
    for listener in listeners:
        agent.subscribe(listener)
    if parts.spec.server is not None:
        agent.subscribe(preload_at_first_words())
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
            restored_entries=session.kept.entries if session.progress is not None else None,
        ),
    )


def question_gate(parts: Parts, session: OpenSession) -> QuestionGate:
    """The gate of this process. A question that is asked again stands where an earlier attempt has asked it."""
    taken = session.last_turn

    def assistant_entry_id() -> str | None:
        own = session.log.last_assistant_entry_id
        return own if own is not None or taken is None else taken.entry_id

    return QuestionGate(
        sender=parts.question_sender,
        asker=Asker(parts.spec.pipeline_id, parts.spec.attempt, parts.spec.session.id, parts.spec.labels),
        assistant_entry_id=assistant_entry_id,
    )


async def resume_run(
    parts: Parts, session: OpenSession, run: AgentRun, asking: list[AgentTool], listeners: Sequence[EventListener]
) -> Outcome | None:
    """See `resuming.resume`."""
    from runner.resuming import resume  # a pipeline is seldom taken over

    def emit(event: AgentEvent) -> None:
        for listener in listeners:
            listener(event, None)

    return await resume(parts, session, run.usage, asking, emit)


def open_progress(
    parts: Parts, session: OpenSession, run: AgentRun, interruption: InterruptionAdapter
) -> "RunProgress | None":
    """What saves the run's progress, if the spec wants that."""
    if parts.spec.checkpoint.every == "end":
        return None
    from runner.run_progress import RunProgress

    def first_asked() -> str | None:
        first = interruption.interruption
        return None if first is None else first.tool_call_id

    return RunProgress(parts, session, run.usage, transcripts=run.transcripts, first_asked=first_asked)


def not_started(
    session: OpenSession, *, before_run: BeforeRunFailure | None = None, aborted_for: AbortReason | None = None
) -> Outcome:
    """The outcome of a run without an agent: what an earlier attempt has stored is all there is."""
    appended = session.progress is not None and session.log.entries > session.kept.entries
    return Outcome(
        before_run=before_run, aborted_for=aborted_for, appended=appended, input_taken=session.input_consumed
    )


def clean_begin(begin: Begin) -> Begin:
    return begin if begin.prompt is None else Begin(clean_json(begin.prompt), begin.reply_to)


def append_settings(parts: Parts, session: OpenSession, begin: Begin) -> None:
    """What Pi writes before a run: model and thinking level where they change; and which call a reply answers."""
    first, is_new = parts.models[0], not session.log.entries
    model = {"provider": first.name.provider, "modelId": first.name.id}
    if session.model != model:
        session.log.append("model_change", model)
    if session.thinking_level != first.thinking_level or is_new:
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


def persist(parts: Parts, session: OpenSession, run: AgentRun) -> EventListener:
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


def announce(parts: Parts) -> EventListener:
    """The listener that prints events (`--events`)."""
    from runner.events import event_to_json

    events = parts.events
    assert events is not None

    def on_event(event: AgentEvent, _signal: AbortSignal | None) -> None:
        events.write(event_to_json(event))

    return on_event


def _now_ms() -> int:
    return int(time.time() * 1000)
