"""One model request: context → messages for the model → stream → the assistant message in the context."""

from collections.abc import AsyncIterator

from checkpoint.jsontypes import Message
from runner.agent.calling import resolved
from runner.agent.types import (
    AssistantStream,
    LlmContext,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Run,
    StreamEvent,
    StreamFn,
    StreamOptions,
)

_BLOCK_EVENTS = frozenset(
    f"{block}_{phase}" for block in ("text", "thinking", "toolcall") for phase in ("start", "delta", "end")
)


async def stream_answer(run: Run, stream_fn: StreamFn) -> Message:
    """Ask the model and return its final message, which is then the last one of the context.

    While the answer streams, its partial message holds that place; the final message replaces it whole.
    Block events before `start` are ignored, and without a `start` the final message is announced late. A
    failed request is a message with stopReason `error` or `aborted`; an exception means that the stream
    function broke its contract.
    """
    stream = await _request(run, stream_fn)
    events = aiter(stream)
    partial: Message | None = None
    try:
        async for event in events:
            if event.type in ("done", "error"):
                break
            partial = await _take(run, partial, event)
        final = await stream.result()
    finally:
        await _close(events)
    return await _finish(run, final, announced=partial is not None)


async def _request(run: Run, stream_fn: StreamFn) -> AssistantStream:
    config, context = run.config, run.context
    messages = context.messages
    if config.transform_context is not None:
        messages = await resolved(config.transform_context(messages, run.signal))
    converted = await resolved(config.convert_to_llm(messages))
    api_key: str | None = None
    if config.get_api_key is not None:
        api_key = await resolved(config.get_api_key(config.model.provider))
    return await resolved(
        stream_fn(
            config.model,
            LlmContext(context.system_prompt, converted, context.tools),
            StreamOptions(signal=run.signal, reasoning=config.reasoning, api_key=api_key or config.api_key),
        )
    )


async def _take(run: Run, partial: Message | None, event: StreamEvent) -> Message | None:
    """Put one event's partial message into the context and report it. Returns the partial message now
    there.
    """
    if event.type == "start" and event.partial is not None:
        run.context.messages.append(event.partial)
        await run.emit(MessageStart(event.partial))
        return event.partial
    if partial is None or event.type not in _BLOCK_EVENTS:
        return partial
    current = partial if event.partial is None else event.partial
    run.context.messages[-1] = current
    await run.emit(MessageUpdate(current, event))
    return current


async def _finish(run: Run, final: Message, *, announced: bool) -> Message:
    if announced:
        run.context.messages[-1] = final
    else:
        run.context.messages.append(final)
        await run.emit(MessageStart(final))
    await run.emit(MessageEnd(final))
    return final


async def _close(events: AsyncIterator[StreamEvent]) -> None:
    """Let a generator that was left early clean up now, not when it is collected."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
