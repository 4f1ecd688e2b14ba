"""An attempt takes over what an earlier one has stored: it clears the doubts, and settles what was over already.

The run that follows is an ordinary one, which goes on from the transcript as `continue_()` does; the input is part of
it and is not taken again. What is decided is in `takeover.py`.
"""

import asyncio
import time
from collections.abc import Callable

from checkpoint.jsontypes import Message
from checkpoint.session.errors import SessionLogBroken
from runner.agent.abort import AbortController
from runner.agent.types import AgentEvent, AgentTool, MessageEnd, MessageStart
from runner.doubts import resolve_doubts
from runner.parts import Parts
from runner.session import OpenSession
from runner.takeover import LastTurn, settled_before, tool_calls
from runner.usage import UsageTotals
from settlement.outcome import Outcome


async def resume(
    parts: Parts,
    session: OpenSession,
    usage: UsageTotals,
    asking: list[AgentTool],
    emit: Callable[[AgentEvent], None],
) -> Outcome | None:
    """The outcome, if the run that was taken over has ended; None if it is to go on from `session.messages`.

    `asking`: the asking tools over this process's gate; `emit`: what persists and announces messages.
    """
    progress, turn = session.progress, session.last_turn
    assert progress is not None, "something was taken over"
    if turn is not None and turn.doubtful:
        try:
            turn = await _without_doubts(parts, session, turn, asking, emit)
        except SessionLogBroken as error:
            return Outcome(log_broken=str(error))
        usage.turns += 1
        parts.standing.count(usage)
    question_ids = {} if turn is None else _question_ids(parts, turn)
    outcome = settled_before(turn, progress, parts.ask_tools, question_ids)
    parts.log.info("resumed", entries=progress.entries, stop=progress.stop, goes_on=outcome is None)
    return outcome


async def _without_doubts(
    parts: Parts,
    session: OpenSession,
    turn: LastTurn,
    asking: list[AgentTool],
    emit: Callable[[AgentEvent], None],
) -> LastTurn:
    names = ", ".join(str(call.get("name")) for call in turn.doubtful)
    parts.log.warning("calls_in_doubt", calls=names)
    parts.warnings.append(
        f"it is not known whether these calls of the attempt that was taken over were carried out: {names}"[:500]
    )

    def append(message: Message) -> None:
        emit(MessageStart(message))
        emit(MessageEnd(message))
        session.messages.append(message)

    stopping = AbortController()

    async def abort_with_the_run() -> None:
        await parts.stop.wait_abort()
        stopping.abort()

    watching = asyncio.ensure_future(abort_with_the_run())
    try:
        return await resolve_doubts(turn, asking, append, stopping.signal, lambda: int(time.time() * 1000))
    finally:
        watching.cancel()


def _question_ids(parts: Parts, turn: LastTurn) -> dict[str, str]:
    from settlement.question import question_id

    call_ids = [str(call.get("id")) for call in tool_calls(turn.assistant)]
    call_ids += [str(result.get("toolCallId")) for result in turn.results]
    return {call_id: question_id(parts.spec.pipeline_id, turn.entry_id, call_id) for call_id in call_ids}
