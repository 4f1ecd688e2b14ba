"""The story of one pipeline, top to bottom.

    claim -> restore -> run main agent -> outcome -> freeze -> settlement -> upload -> commit -> callback -> exit

Every prefix of it is safe: until the head is terminal nothing is promised, and once it is, whoever reads it can finish
the delivery. This file says in which order; what is decided is in the pure modules it calls.
"""

from datetime import UTC, datetime

from checkpoint.errors import DamagedRecord, StoreError
from checkpoint.head import Acknowledged, AlreadyTerminal, Claimant, Claimed, Fenced, Head, OtherSession, RejectedBefore
from checkpoint.head_writer import ClaimResult, new_claim_id
from checkpoint.manifest import RestorePoint
from runner.ending import Ending
from runner.errors import Refused, fenced
from runner.exits import Exit
from runner.parts import SMALL_CALL_S, Parts
from runner.spec import Spec
from runner.work import do_the_work
from settlement.wire import time_text


async def run_pipeline(parts: Parts) -> Ending:
    """Run the pipeline once. Raises RunnerError for every end without a terminal record of ours."""
    try:
        for channel in parts.channels:
            channel.prepare()
        return await _claimed_and_settled(parts)
    finally:
        for channel in parts.channels:
            channel.close()


async def _claimed_and_settled(parts: Parts) -> Ending:
    claim = await claim_pipeline(parts)
    match claim:
        case Claimed(head, over):
            if over is not None and (warning := other_restore_point(parts.spec, head)) is not None:
                parts.log.warning("restore_point_ignored", message=warning)
                parts.warnings.append(warning)
        case AlreadyTerminal(head):
            parts.log.info("already_terminal", hint="nothing is run again; the stored record is delivered")
            return await deliver_record(parts, head)
        case Acknowledged(head):
            return Ending(Exit.ACKNOWLEDGED, _body(head))
        case RejectedBefore(head):
            return _rejected_before(head)
        case Fenced(head):
            raise fenced(head)
        case OtherSession(head):
            raise Refused(
                "other_session",
                [
                    f"pipeline_id {parts.spec.pipeline_id} belongs to session {head.fields.session_id}, not to "
                    f"{parts.spec.session.id}: give every pipeline an id of its own"
                ],
            )
    for channel in parts.channels:
        channel.open(head)
    work = await do_the_work(parts, head)
    if parts.settled_by_another is not None:
        return await deliver_record(parts, parts.settled_by_another)
    from runner.commit import settle_and_commit  # not before the model was asked: it is a third of the start-up

    terminal = await settle_and_commit(parts, work)
    return await deliver_record(parts, terminal)


# --- claim -----------------------------------------------------------------------------------------------------


async def claim_pipeline(parts: Parts) -> ClaimResult:
    """Prove that the store honours conditions, then claim the head."""
    if parts.stop.reason is not None:
        raise parts.stopped_before_commit()
    spec = parts.spec
    me = Claimant(
        pipeline_id=spec.pipeline_id,
        session_id=spec.session.id,
        attempt=spec.attempt,
        claim_id=new_claim_id(),
        claimed_at=time_text(datetime.now(UTC)),
        deadline_s=spec.limits.deadline_s,
        grace_s=spec.limits.grace_s,
        callback_url=spec.server.callback_url if spec.server is not None else None,
        restore=_restore_point(spec),
        labels=spec.labels,
    )

    if parts.space.required:
        await parts.establish_isolation()

    def prove_and_claim() -> ClaimResult:
        parts.prove_store()
        return parts.head.claim(me)

    parts.log.info("claiming", head=parts.store.address(parts.head_key), claim_id=me.claim_id)
    result = await parts.store_call("commit", SMALL_CALL_S, prove_and_claim)
    parts.log.info("claim", result=type(result).__name__, claim_id=me.claim_id)
    return result


def other_restore_point(spec: Spec, head: Head) -> str | None:
    """A claim that is taken over keeps its restore point, whatever this launch names; what to say if they differ."""
    if head.fields.restore == _restore_point(spec):
        return None
    return (
        "session.restore differs from that of the attempt which was taken over, whose restore point counts: give a "
        "pipeline that is to start from another one an id of its own"
    )


def _restore_point(spec: Spec) -> RestorePoint | None:
    restore = spec.session.restore
    return RestorePoint(**restore.model_dump()) if restore is not None else None


# --- callback ----------------------------------------------------------------------------------------------


async def deliver_record(parts: Parts, head: Head) -> Ending:
    """Send the stored body, and note the server's verdict in the head (best effort: the server has it anyway)."""
    from settlement.delivery import Delivery
    from settlement.verdict import Delivered, GaveUp, Rejected
    from settlement.verdict import Refused as ServerRefused

    parts.committed = True
    parts.standing.phase = "callback"
    body, terminal, server = _body(head), head.fields.terminal, parts.spec.server
    if head.fields.state == "rejected":
        return _rejected_before(head)
    if head.fields.state == "acknowledged" or terminal is None:
        return Ending(Exit.ACKNOWLEDGED, body)
    if server is None:
        url = head.fields.callback_url
        if url is None:
            return Ending(Exit.ACKNOWLEDGED, body)
        return _unacknowledged(parts, body, f"the stored record is for {url}, and this launch names no `server`")
    budget_s = parts.timebox.remaining("callback", parts.spec.limits.callback_s)
    sending = parts.courier.deliver(server.callback_url, terminal.webhook_id, terminal.body.encode(), budget_s)
    try:
        delivery = await parts.timebox.within("callback", budget_s + 1.0, sending)
    except TimeoutError:  # a signal came and its grace is over
        delivery = Delivery(GaveUp(None), 0, may_have_arrived=True)
    match delivery.verdict:
        case Delivered():
            await _note(parts, "acknowledge")
            return Ending(Exit.ACKNOWLEDGED, body)
        case Rejected(status, problem):
            await _note(parts, "reject")
            why = f"HTTP {status}{f', {problem}' if problem else ''}"
            return Ending(
                Exit.FENCED,
                body,
                "rejected",
                f"the server rejected the terminal record ({why}): its session has moved on without this pipeline",
            )
        case ServerRefused(status):
            message = f"the server refused the callback with HTTP {status}: {_mend(status)}"
        case GaveUp():
            message = "the server did not acknowledge the callback in the time there was for it"
    return _unacknowledged(parts, body, message)


def _mend(status: int) -> str:
    return "compare both sides' `callback_secret`" if status == 401 else "mend the server or `server.callback_path`"


def ending_so_far(parts: Parts) -> Ending:
    """How the process ends if it is cut off now: for when something holds it beyond its grace."""
    head = parts.head.head
    if parts.committed and head is not None and head.fields.terminal is not None:
        return _unacknowledged(parts, _body(head), "the callback was under way when the grace was over")
    if parts.ending is not None:
        return Ending.of(parts.ending)
    return Ending.of(parts.stopped_before_commit("something held the process beyond its grace, maybe a tool"))


def _unacknowledged(parts: Parts, body: str, message: str) -> Ending:
    again = f"`runner deliver {parts.store.address(parts.head_key)}` sends the stored record again"
    return Ending(Exit.UNACKNOWLEDGED, body, "unacknowledged", f"{message}; {again}")


async def _note(parts: Parts, verdict: str) -> None:
    write = parts.head.acknowledge if verdict == "acknowledge" else parts.head.reject
    try:
        await parts.timebox.blocking("callback", SMALL_CALL_S, write)
    except (StoreError, DamagedRecord, TimeoutError) as error:
        parts.log.warning("verdict_not_noted", verdict=verdict, error=str(error))


def _body(head: Head) -> str:
    assert head.fields.terminal is not None, "a settled head holds its terminal record"
    return head.fields.terminal.body


def _rejected_before(head: Head) -> Ending:
    return Ending(
        Exit.FENCED,
        _body(head),
        "rejected",
        "the server rejected this pipeline's terminal record before: launch a new pipeline for the session",
    )
