"""The loop: turns while there are tool results or steering, and again while there are follow-ups.

A turn is one model answer and the tool calls in it. After each one: tool results in the context, `turn_end`,
`prepare_next_turn`, `should_stop_after_turn`, then (unless stopped) the steering queue. The rules are pinned
by the recordings in `tests/corpus/loop`.

It refuses to handle failures: whatever a hook, a listener or the stream function raises leaves from here.
`Agent` turns that into a failure message; a caller of this module gets it raw. It does not look at the abort
signal either: the stream answers an abort with an aborted message, and that ends the run.
"""

from collections.abc import Sequence
from enum import Enum, auto

from msgspec.structs import replace

from checkpoint.jsontypes import Message
from runner.agent.abort import AbortSignal
from runner.agent.answer import stream_answer
from runner.agent.calling import resolved
from runner.agent.errors import assistant_tail, no_messages
from runner.agent.tool_calls import run_tool_calls
from runner.agent.types import (
    AgentContext,
    AgentEnd,
    AgentStart,
    EmitEvent,
    LoopConfig,
    MessageEnd,
    MessageStart,
    NextTurn,
    PollMessages,
    Run,
    StreamFn,
    TurnContext,
    TurnEnd,
    TurnStart,
)


async def run_agent_loop(
    prompts: Sequence[Message],
    context: AgentContext,
    config: LoopConfig,
    emit: EmitEvent,
    signal: AbortSignal | None,
    stream_fn: StreamFn,
) -> list[Message]:
    """Run on `context` plus `prompts` until nothing is left to do. Returns the new messages, prompts
    included.

    The caller's context is not changed. Raises whatever a hook, `emit` or the stream function raised.
    """
    working = AgentContext(context.system_prompt, [*context.messages, *prompts], context.tools)
    run = Run(working, config, emit, signal, new_messages=list(prompts))
    await emit(AgentStart())
    await emit(TurnStart())
    for prompt in prompts:
        await emit(MessageStart(prompt))
        await emit(MessageEnd(prompt))
    await _run_turns(run, stream_fn)
    return run.new_messages


async def run_agent_loop_continue(
    context: AgentContext,
    config: LoopConfig,
    emit: EmitEvent,
    signal: AbortSignal | None,
    stream_fn: StreamFn,
) -> list[Message]:
    """A new run on the transcript as it is. Works on the caller's message list: new messages appear there.

    Raises `AgentRefused` before any event if there is nothing a model could answer.
    """
    if not context.messages:
        raise no_messages("Cannot continue: no messages in context")
    if context.messages[-1].get("role") == "assistant":
        raise assistant_tail()
    working = AgentContext(context.system_prompt, context.messages, context.tools)
    run = Run(working, config, emit, signal, new_messages=[])
    await emit(AgentStart())
    await emit(TurnStart())
    await _run_turns(run, stream_fn)
    return run.new_messages


class _After(Enum):
    """What a turn says about the next one."""

    RUN_ENDS = auto()
    TOOL_RESULTS = auto()
    NOTHING_LEFT = auto()


async def _run_turns(run: Run, stream_fn: StreamFn) -> None:
    pending = await _poll(run.config.get_steering_messages)
    first = True
    while True:
        after = _After.TOOL_RESULTS
        while after is _After.TOOL_RESULTS or pending:
            if not first:
                await run.emit(TurnStart())
            first = False
            await _inject(run, pending)
            after = await _turn(run, stream_fn)
            if after is _After.RUN_ENDS:
                await run.emit(AgentEnd(run.new_messages))
                return
            pending = await _poll(run.config.get_steering_messages)
        pending = await _poll(run.config.get_follow_up_messages)
        if not pending:
            break
    await run.emit(AgentEnd(run.new_messages))


async def _poll(poll: PollMessages | None) -> list[Message]:
    if poll is None:
        return []
    return await resolved(poll()) or []


async def _inject(run: Run, messages: list[Message]) -> None:
    for message in messages:
        await run.emit(MessageStart(message))
        await run.emit(MessageEnd(message))
        run.context.messages.append(message)
        run.new_messages.append(message)


async def _turn(run: Run, stream_fn: StreamFn) -> _After:
    message = await stream_answer(run, stream_fn)
    run.new_messages.append(message)
    if message.get("stopReason") in ("error", "aborted"):
        await run.emit(TurnEnd(message, []))
        return _After.RUN_ENDS

    batch = await run_tool_calls(run, message)
    run.context.messages.extend(batch.messages)
    run.new_messages.extend(batch.messages)
    await run.emit(TurnEnd(message, batch.messages))

    if run.config.prepare_next_turn is not None:
        turn = TurnContext(message, batch.messages, run.context, run.new_messages)
        _apply(run, await resolved(run.config.prepare_next_turn(turn)))
    if run.config.should_stop_after_turn is not None:
        turn = TurnContext(message, batch.messages, run.context, run.new_messages)
        if await resolved(run.config.should_stop_after_turn(turn)):
            return _After.RUN_ENDS
    return _After.TOOL_RESULTS if batch.asks_model_again else _After.NOTHING_LEFT


def _apply(run: Run, following: NextTurn | None) -> None:
    if following is None:
        return
    if following.context is not None:
        run.context = following.context
    if following.model is not None:
        run.config = replace(run.config, model=following.model)
    if following.thinking_level is not None:
        level = following.thinking_level
        run.config = replace(run.config, reasoning=None if level == "off" else level)
