"""`runner replay SOURCE`: from the command line's options to a report and an exit code.

Exit 0 same, 1 different; 64 wrong options, 75 a store that fails, 78 a source that cannot be read or holds nothing to
replay. Nothing but a scratch folder, gone at the end, is written.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
from pathlib import Path
from typing import Literal, TextIO

from msgspec import Struct

from checkpoint.session.index import OnDamage
from runner.errors import UsageError
from runner.inspection.meter import Meter, NoMeter, shown_meter
from runner.inspection.source import Source, StoreOptions, open_source
from runner.replay.opening import Opened, open_replay, replay_log
from runner.replay.replay_log import ReplayLog
from runner.replay.replaying import Replayed, replay
from runner.replay.report import Report, report_json, report_text
from runner.replay.settling import settlement_changes, settlement_of
from runner.replay.stepping import Stepper
from runner.signals import StopLatch

SAME, DIFFERENT = 0, 1


class ReplayOptions(Struct, frozen=True, kw_only=True):
    source: str
    store: StoreOptions
    on_damage: OnDamage = "fail"
    until: str | None = None
    step: bool = False
    form: Literal["text", "json"] = "text"


def run_replay(options: ReplayOptions) -> int:
    """Replay, print the report on standard output, return the exit code. Raises RunnerError."""
    with shown_meter() as meter:
        report = replay_source(options, meter)
    sys.stdout.write(report_json(report) if options.form == "json" else report_text(report))
    return SAME if report.same else DIFFERENT


def replay_source(options: ReplayOptions, meter: Meter | None = None, stdin: TextIO | None = None) -> Report:
    """Replay what the options name. `stdin`: where `--step` reads its lines. Raises RunnerError."""
    meter = meter or NoMeter()
    with open_source(options.source, options.store, on_damage=options.on_damage, meter=meter) as source:
        opened = open_replay(source, options.store, meter, options.until)
        with tempfile.TemporaryDirectory(prefix="runner-replay-") as folder:
            return _replayed(options, source, opened, Path(folder) / "session.jsonl", meter, stdin or sys.stdin)


def _replayed(
    options: ReplayOptions, source: Source, opened: Opened, scratch: Path, meter: Meter, stdin: TextIO
) -> Report:
    given = opened.given
    stepper = None
    if options.step:
        out = sys.stderr if options.form == "json" else sys.stdout
        stepper = Stepper(given.entries, stdin.readline, out, echoes=stdin.isatty())
    else:
        meter.begin("replaying", None, "turns")
    stopped = False

    def on_turn(_answer: int, last: int) -> bool:
        nonlocal stopped
        if stepper is None:
            meter.advance(1)
            return False
        stopped = stepper.after_turn(last)
        return stopped

    log = replay_log(opened)
    gc.freeze()  # the recording stays to the end: looking through it again and again would be a third of the time
    replayed = asyncio.run(replay(given, log, on_turn))
    return _report(options, source, opened, replayed, stopped, scratch, log)


def _report(
    options: ReplayOptions,
    source: Source,
    opened: Opened,
    replayed: Replayed,
    stopped: bool,
    scratch: Path,
    log: ReplayLog,
) -> Report:
    settlement = changes = None
    if replayed.outcome is not None and not stopped:
        settlement = settlement_of(replayed.outcome)
        candidate = log.frozen(scratch)
        if opened.body is not None:
            changes = settlement_changes(opened.body, replayed.outcome, candidate, replayed.usage, source.address)
    return Report(
        source=source.address,
        entries=opened.given.entries,
        replayed=replayed,
        settlement=settlement,
        changes=changes,
        until=options.until,
        stopped=stopped,
        warnings=(*source.warnings, *(f"{damage.place}: {damage.what}" for damage in source.damage)),
    )


def replay_command(options: argparse.Namespace, store: StoreOptions, stop: StopLatch) -> int:
    """The command line's `replay`; `stop` is told of signals only for a fork, which is a run like others."""
    _refuse_contradictions(options)
    if not options.live:
        chosen = ReplayOptions(
            source=options.source,
            store=store,
            on_damage=options.on_damage,
            until=options.until,
            step=options.step,
            form=options.form,
        )
        return run_replay(chosen)
    from runner.replay.live import LiveOptions, run_live

    fork = LiveOptions(
        source=options.source,
        store=store,
        entry=options.entry,
        spec=options.spec,
        message=options.message,
        tools=options.tools or "recorded",
        output=options.output,
        form=options.form,
        on_damage=options.on_damage,
    )
    with shown_meter() as meter:
        return run_live(fork, meter, stop)


def _refuse_contradictions(options: argparse.Namespace) -> None:
    """Raises UsageError for options that say nothing together."""
    if options.live != (options.entry is not None):
        raise UsageError("--from and --live go together: a fork goes on from an entry with a real model")
    if options.live and (options.until is not None or options.step):
        raise UsageError("--until and --step are for a replay of what is recorded, not for a fork")
    given = [name for name in ("spec", "message", "tools", "output") if getattr(options, name) is not None]
    if given and not options.live:
        raise UsageError(f"--{given[0]} is for a fork: give --from ENTRY --live too")
