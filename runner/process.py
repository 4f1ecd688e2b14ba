"""One process: from the launch argument to the exit code, with the `settled` line as its last word.

Everything that can be refused is refused here, before any side effect; what happens afterwards is the pipeline's.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from checkpoint.jsontypes import JsonObject
from runner.blocking import run_in_loop
from runner.ending import Ending
from runner.errors import InfrastructureError, Refused, RunnerError
from runner.exits import Exit
from runner.isolation.hardening import harden_process, wipe_from_environment
from runner.last_resort import LastResort
from runner.launch import Launch, load_launch
from runner.secrets import Secrets, load_secrets, wanted_names
from runner.signals import StopLatch
from runner.stdout import FLUSH_S, STOPPED_FLUSH_S, JsonLines, take_standard_output

if TYPE_CHECKING:
    from runner.parts import Parts, ToolsInstead

CLOSE_S = 1.0
"""For giving connections to models back."""
KEEPS_THE_LOG = (Exit.DEFECT, Exit.INFRASTRUCTURE, Exit.STOPPED)
"""Ends after which the local session log may hold what the store does not."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line's options of `runner run`."""

    secrets_folder: Path
    events: bool = False
    fsync: Literal["freeze", "turn"] = "freeze"
    record: Path | None = None
    """Where requests to models and their answers are kept."""
    tools_instead: "ToolsInstead | None" = None
    """Not from the command line: see `Parts`."""


def run_process(argument: str | None, options: RunOptions, stop: StopLatch) -> int:
    """Run one pipeline. Always writes the `settled` line, whatever happens."""
    lines = JsonLines(take_standard_output())
    last_resort = LastResort(lines, stop)
    context: JsonObject = {}
    try:
        ending = _run(argument, options, lines, stop, last_resort, context)
    except RunnerError as error:
        ending = Ending.of(error)
    except BaseException as error:  # noqa: BLE001 - the last line must be written, whatever the defect
        ending = _defect(error)
    last_resort.ended(ending)
    lines.write(ending.settled_line())
    _report(ending, context)
    lines.close(FLUSH_S if stop.reason is None else STOPPED_FLUSH_S)
    return ending.exit_code


def _defect(error: BaseException) -> Ending:
    return Ending(
        Exit.DEFECT,
        None,
        "internal",
        f"a defect of the runner ({type(error).__name__}): report it with its log, and relaunch with a higher attempt",
        "".join(traceback.format_exception(error)),
    )


def _report(ending: Ending, context: JsonObject) -> None:
    """Say on standard error, in the form of the logs, why the process does not end well."""
    if ending.message is None:
        return
    from runner.logs import LogOutput

    output = LogOutput()
    if sys.stderr.isatty():
        output.write(f"{ending.traceback or ''}runner: {ending.message}\n")
        return
    said = {"exit": int(ending.exit_code), "reason": ending.reason, "message": ending.message, "timestamp": _now()}
    trace = {} if ending.traceback is None else {"exception": ending.traceback}
    output.write(json.dumps({**context, "event": "ended", "level": "error", **said, **trace}) + "\n")


def _now() -> str:
    """As the logs write it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def check_launch(argument: str | None, secrets_folder: Path) -> int:
    """`runner check`: exit 0, or 78 with every problem on standard error."""
    launch, secrets = _load(argument, secrets_folder)
    _refuse_problems(launch, secrets, secrets_folder)
    sys.stdout.write(f"runner: the launch of pipeline {launch.spec.pipeline_id} is fine\n")
    return Exit.ACKNOWLEDGED


def examine_isolation(argument: str | None, secrets_folder: Path) -> int:
    """`runner doctor`: for the launch, if there is one, else for a made-up one."""
    from runner.doctor import run_doctor

    harden_process()
    settings = None
    with tempfile.TemporaryDirectory(prefix="runner-") as folder:
        if argument is not None:
            from runner.isolation.from_launch import isolation_settings

            launch, secrets = _load(argument, secrets_folder)
            launch.path(launch.spec.workspace).mkdir(parents=True, exist_ok=True)
            settings = isolation_settings(launch, secrets.values(), secrets_folder, Path(folder))
        report, exit_code = run_doctor(settings, os.environ)
    sys.stdout.write(report if report.endswith("\n") else report + "\n")
    return exit_code


def _load(argument: str | None, secrets_folder: Path) -> tuple[Launch, Secrets]:
    launch = load_launch(argument, os.environ)
    for name in ("PIPELINE_SPEC", "PIPELINE_SPEC_FILE"):
        os.environ.pop(name, None)
    names = wanted_names(launch.spec)
    given = [name.upper() for name in names if name.upper() in os.environ]
    secrets = load_secrets(secrets_folder, names, os.environ)
    wipe_from_environment([*given, "PIPELINE_SPEC"])
    return launch, secrets


def _refuse_problems(launch: Launch, secrets: Secrets, secrets_folder: Path) -> None:
    from runner.check import launch_problems

    problems = launch_problems(launch, secrets, secrets_folder)
    if problems:
        raise Refused("launch_refused", problems)


def _refuse_recording(launch: Launch, folder: Path) -> None:
    """A recording needs requests, and a folder of its own: two in one could not be told apart."""
    problem = None
    if launch.spec.agent.model.api == "scripted":
        problem = "a scripted model sends no requests to record: leave it out"
    else:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                problem = f"{folder} is not empty: name a new folder"
        except OSError as error:
            problem = f"{folder} cannot be made ({error.strerror}): name another folder"
    if problem is not None:
        raise Refused("launch_refused", [f"--record: {problem}"])


def _run(
    argument: str | None,
    options: RunOptions,
    lines: JsonLines,
    stop: StopLatch,
    last_resort: LastResort,
    context: JsonObject,
) -> Ending:
    began = time.monotonic()
    with stop.interrupting():
        launch, secrets = _load(argument, options.secrets_folder)
        _refuse_problems(launch, secrets, options.secrets_folder)
        if options.record is not None:
            _refuse_recording(launch, options.record)
    from runner.check import RUN_FOLDER_PREFIX
    from runner.logs import configure_logs
    from runner.pipeline import ending_so_far
    from runner.wiring import build_parts

    spec = launch.spec
    context |= {"pipeline_id": spec.pipeline_id, "attempt": spec.attempt, "session_id": spec.session.id}
    log = configure_logs(secrets, **context)
    if spec.traceparent is not None:
        log = log.bind(trace_id=spec.traceparent.split("-")[1])
    workspace = launch.path(spec.workspace)
    try:
        workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            "workspace_unusable", [f"workspace {workspace} cannot be made ({error.strerror}): name another folder"]
        ) from None
    try:
        folder = Path(tempfile.mkdtemp(prefix=RUN_FOLDER_PREFIX))
    except OSError as error:
        raise InfrastructureError(
            "no_temporary_folder",
            f"there is no room for the session log ({error.strerror}): see to the temporary folder, then relaunch",
        ) from None
    keep = False
    try:
        parts = build_parts(
            launch,
            secrets,
            folder,
            stop=stop,
            log=log,
            lines=lines,
            events=options.events,
            fsync_turns=options.fsync == "turn",
            record=options.record,
            secrets_folder=options.secrets_folder,
            began=began,
        )
        parts.tools_instead = options.tools_instead
        last_resort.start(
            lambda: ending_so_far(parts),
            grace_s=spec.limits.grace_s,
            ends=parts.ends,
            clean_up=lambda: _leave_nothing(parts),
        )
        try:
            ending = run_in_loop(_pipeline(parts))
        except RunnerError as error:
            ending = Ending.of(error)
        except Exception as error:
            log.exception("defect")
            ending = msgspec.structs.replace(_defect(error), traceback=None)
        finally:
            parts.space.remove()
        if ending.message is not None:  # it may quote what a server said
            ending = msgspec.structs.replace(ending, message=secrets.redact(ending.message))
        keep = ending.exit_code in KEEPS_THE_LOG and any(folder.iterdir())
        if keep:
            log.warning("session_log_kept", folder=str(folder))
        return ending
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _leave_nothing(parts: "Parts") -> None:
    for channel in parts.channels:
        channel.close()
    parts.space.remove()


async def _pipeline(parts: "Parts") -> Ending:
    from runner.pipeline import run_pipeline

    loop = asyncio.get_running_loop()
    parts.stop.join_loop(loop)
    deadline = loop.call_later(max(0.0, parts.ends - time.monotonic()), parts.stop.request, "deadline_exceeded")
    noting = asyncio.ensure_future(_note_stop(parts))
    try:
        return await run_pipeline(parts)
    finally:
        deadline.cancel()
        noting.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(parts.close_models(), CLOSE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(parts.space.close(), CLOSE_S)


async def _note_stop(parts: "Parts") -> None:
    await parts.stop.wait()
    if parts.stop.reason == "paused":
        parts.log.warning("pausing", hint="the running turn is awaited")
        await parts.stop.wait_abort()
    parts.log.warning("stopping", reason=parts.stop.reason, signal=parts.stop.signal)
