"""Builds the real parts of one process from its launch. Decides nothing; touches neither store nor network."""

import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoint.head_writer import HeadWriter
from checkpoint.jsontypes import JsonObject
from checkpoint.keys import head_key
from checkpoint.store.conditions import prove_conditions
from checkpoint.store.s3_store import S3Store
from runner.interruption import ASK_TOOLS
from runner.isolation.from_launch import isolation_settings
from runner.launch import Launch
from runner.logs import Logger
from runner.model_wiring import build_models
from runner.parts import Channel, Parts
from runner.question_gate import QuestionSender
from runner.secrets import Secrets
from runner.signals import StopLatch
from runner.standing import Standing
from runner.stdout import JsonLines
from runner.store_access import store_opener
from runner.timebox import Timebox
from runner.tool_space import ToolSpace
from runner.tools.mcp_settings import with_secrets
from settlement.signing import CallbackSecrets
from settlement.wire import time_text

if TYPE_CHECKING:
    from runner.control import Control
    from settlement.delivery import Delivery, Try


def log_try(log: Logger, event: str, tried: "Try", **more: str) -> None:
    """One try of a callback or a question; nothing in it is secret, and no question's text."""
    from settlement.verdict import Answer, Delivered, Retry

    answer, verdict = tried.answer, tried.verdict
    said: JsonObject = {**more, "number": tried.number, "verdict": type(verdict).__name__}
    said |= {"status": answer.status} if isinstance(answer, Answer) else {"no_answer": answer.what}
    if isinstance(answer, Answer) and answer.problem_type is not None:
        said["problem_type"] = answer.problem_type
    if isinstance(verdict, Retry):
        said["delay_s"] = round(verdict.delay_s, 3)
    say = log.info if isinstance(verdict, Delivered) else log.warning
    say(event, **said)


class HttpCourier:
    """Delivers stored records, and says in the log how each try went."""

    def __init__(self, secrets: CallbackSecrets | None, log: Logger, traceparent: str | None = None) -> None:
        self._secrets = secrets
        self._log = log
        self._traceparent = traceparent

    async def deliver(self, url: str, webhook_id: str, body: bytes, budget_s: float) -> "Delivery":
        from settlement.delivery import deliver

        assert self._secrets is not None, "a launch with a server has the secret"

        def on_try(tried: "Try") -> None:
            log_try(self._log, "callback_try", tried)

        return await deliver(
            url,
            webhook_id,
            body,
            self._secrets,
            budget_s=budget_s,
            on_try=on_try,
            traceparent=self._traceparent,
        )


def build_parts(
    launch: Launch,
    secrets: Secrets,
    folder: Path,
    *,
    stop: StopLatch,
    log: Logger,
    lines: JsonLines,
    events: bool,
    fsync_turns: bool,
    record: Path | None,
    secrets_folder: Path,
    began: float,
) -> Parts:
    """Everything the pipeline needs, from a checked launch. Raises OSError if the tools' folders cannot be made."""
    spec = launch.spec
    open_address = store_opener(spec.store, launch.base, secrets)
    store = open_address(spec.store.uri)
    if isinstance(store, S3Store):
        store.start_loading()
    models = build_models(
        spec,
        secrets,
        launch.path,
        record,
        on_recording_stopped=lambda why: log.warning("recording_stopped", error=why),
    )
    threading.Thread(target=models.preload, daemon=True, name="preload").start()
    timebox, standing = Timebox(stop, spec.limits.grace_s), Standing()
    control, controls = _control(launch, stop, log, lines)
    return Parts(
        spec=spec,
        log=log,
        stop=stop,
        timebox=timebox,
        store=store,
        head=HeadWriter(store, spec.pipeline_id),
        head_key=head_key(spec.pipeline_id),
        prove_store=lambda: prove_conditions(store, unsafe_conditions=spec.store.unsafe_conditions),
        other_store=open_address,
        folder=folder,
        workspace=launch.path(spec.workspace).resolve(),
        ask_tools=ASK_TOOLS | frozenset(spec.agent.ask_tools),
        models=models.choices,
        fresh_model=models.fresh,
        model_ids=models.ids,
        space=ToolSpace(isolation_settings(launch, secrets.values(), secrets_folder, folder), os.environ, log),
        mcp=with_secrets(spec.agent.mcp, secrets.get),
        close_models=models.close,
        ends=began + spec.limits.deadline_s - spec.limits.grace_s,
        question_sender=_question_sender(launch, secrets, timebox, began + spec.limits.deadline_s, log),
        courier=HttpCourier(_callback_secrets(secrets), log, spec.traceparent),
        started_at=time_text(datetime.now(UTC)),
        events=lines if events else None,
        fsync_turns=fsync_turns,
        standing=standing,
        channels=(*_heartbeats(launch, secrets, standing, stop, log), *controls),
        control=control,
    )


def _callback_secrets(secrets: Secrets) -> CallbackSecrets | None:
    text = secrets.get("callback_secret")
    return None if text is None else CallbackSecrets.parse(text)


def _heartbeats(
    launch: Launch, secrets: Secrets, standing: Standing, stop: StopLatch, log: Logger
) -> tuple[Channel, ...]:
    """One, or none."""
    server, signing = launch.spec.server, _callback_secrets(secrets)
    if server is None or server.heartbeat_url is None or signing is None:
        return ()
    from runner.heartbeat import Heartbeat

    return (
        Heartbeat(
            server.heartbeat_url,
            signing,
            period_s=server.heartbeat_s,
            standing=standing,
            stop=stop,
            log=log,
            traceparent=launch.spec.traceparent,
        ),
    )


def _control(
    launch: Launch, stop: StopLatch, log: Logger, lines: JsonLines
) -> "tuple[Control | None, tuple[Channel, ...]]":
    """What commands do, and the channel that they come by; neither where the launch asks for none."""
    where = launch.spec.control
    if where is None:
        return None, ()
    from runner.control import Control

    control = Control(launch.spec.pipeline_id, stop, log)
    if where == "stdin":
        from runner.control_stdin import StdinControl

        return control, (StdinControl(control, lines, log),)
    from runner.control_socket import SocketControl

    return control, (SocketControl(launch.path(where), control, log),)


def _question_sender(
    launch: Launch, secrets: Secrets, timebox: Timebox, ends: float, log: Logger
) -> QuestionSender | None:
    """`ends`: the monotonic time of the deadline; nothing is tried beyond it."""
    server, signing = launch.spec.server, _callback_secrets(secrets)
    if server is None or signing is None:
        return None
    from runner.tools.question_http import HttpQuestionSender

    return HttpQuestionSender(
        server.ask_user_url,
        signing,
        time_left=lambda: timebox.remaining("agent", max(0.0, ends - time.monotonic())),
        traceparent=launch.spec.traceparent,
        on_try=lambda question_id, tried: log_try(log, "question_try", tried, question_id=question_id),
    )
