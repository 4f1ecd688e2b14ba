"""`--from ENTRY --live`: a fork of a recorded session that goes on with a real model, and with real tools if asked to.

The fork is a session of its own in a scratch store, run there by the same code as `runner run`, without a server:
nobody is asked, and the recorded session, its store and its pipeline are never touched. What came of it is written to
a new session file.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from checkpoint.session.encoding import encode
from checkpoint.session.header import new_header
from runner.errors import Refused, UsageError
from runner.inspection.meter import Meter
from runner.inspection.new_file import new_file
from runner.inspection.session_file import SessionFile
from runner.inspection.source import StoreOptions, open_source
from runner.inspection.visible_text import visible_line
from runner.launch import Launch, load_launch
from runner.replay.opening import position_of
from runner.replay.recorded_tools import RecordedResults
from runner.replay.recording import Recording, read_branch
from runner.replay.segments import part_of
from runner.signals import StopLatch
from runner.tools.registry import selected_built_in

PIPELINE = SESSION = "fork"


class LiveOptions(Struct, frozen=True, kw_only=True):
    source: str
    store: StoreOptions
    entry: str
    spec: str | None = None
    message: str | None = None
    """What the user says after the entry."""
    tools: Literal["recorded", "live"] = "recorded"
    output: Path | None = None
    form: Literal["text", "json"] = "text"
    on_damage: Literal["fail", "skip"] = "fail"


def run_live(options: LiveOptions, meter: Meter, stop: StopLatch) -> int:
    """Fork, go on, write the fork; returns the exit code of the run. Raises RunnerError."""
    from runner.process import RunOptions, run_process

    if options.output is not None and options.output.exists():
        raise Refused("output_exists", [f"{options.output} exists: name another file"])
    with tempfile.TemporaryDirectory(prefix="runner-replay-") as scratch:
        folder = Path(scratch)
        with open_source(
            options.source, options.store, on_damage=options.on_damage, meter=meter, files=False
        ) as source:
            if source.session is None:
                raise Refused("nothing_recorded", [f"{source.address} has no session: there is nothing to fork"])
            session, address = source.session, source.address
            recording = read_branch(session.path, session.index, address)
            end = _end_of_turn(recording.entries, position_of(recording.entries, options.entry, address))
            _refuse_finished(recording.entries[: end + 1], options)
            _write_fork(session, recording.until(end), address, folder / "fork.jsonl")
        results = RecordedResults(recording.entries) if options.tools == "recorded" else None
        (folder / "spec.json").write_text(json.dumps(_spec(options, recording.entries, folder)))
        with _standard_output_in(folder / "settled") as settled:
            run = RunOptions(
                options.store.secrets_folder, tools_instead=results.instead_of if results is not None else None
            )
            exit_code = run_process(str(folder / "spec.json"), run, stop)
        ending: JsonObject = json.loads(settled.read_text().splitlines()[-1])
        if ending["terminal"] is None:
            return exit_code  # why is on standard error already
        output = options.output or Path(tempfile.mkdtemp(prefix="runner-fork-")) / "session.jsonl"
        _write_output(folder, ending["terminal"], options, output, meter)
    sys.stdout.write(_report(options, ending["terminal"], output))
    return exit_code


# --- the fork -----------------------------------------------------------------------------------------------


def _end_of_turn(entries: Sequence[JsonObject], position: int) -> int:
    """The last result of the calls that the entry is among, so that no call is left without the one it has."""
    if part_of(entries[position]) not in ("assistant", "toolResult"):
        return position
    while position + 1 < len(entries) and part_of(entries[position + 1]) == "toolResult":
        position += 1
    return position


def _refuse_finished(entries: Sequence[JsonObject], options: LiveOptions) -> None:
    """Raises UsageError where the model has nothing to answer."""
    spoken = [entry for entry in entries if part_of(entry) not in ("none", "summary")]
    if options.message is None and (not spoken or part_of(spoken[-1]) == "assistant"):
        raise UsageError(
            f"there is nothing to answer after entry {options.entry}: say something with --message, or name an "
            "earlier entry"
        )


def _write_fork(session: SessionFile, recording: Recording, address: str, path: Path) -> None:
    """The branch up to its last entry, lines as they are, below a header of its own."""
    cwd: Any = session.index.header.get("cwd")
    header = {**new_header(cwd if isinstance(cwd, str) else "/"), "parentSession": address}
    with session.path.open("rb") as source, path.open("xb") as fork:
        fork.write(encode(header) + b"\n")
        for line in recording.lines:
            source.seek(line.start)
            fork.write(source.read(line.end - line.start).rstrip(b"\r\n") + b"\n")


# --- the launch ---------------------------------------------------------------------------------------------


def _spec(options: LiveOptions, entries: Sequence[JsonObject], folder: Path) -> JsonObject:
    """The spec that was given, or one for the recorded model, turned to the fork."""
    launch = None if options.spec is None else load_launch(options.spec, {})
    given: JsonObject = {} if launch is None else launch.spec.model_dump(mode="json", exclude_unset=True)
    agent = _recorded_agent(entries) if launch is None else _agent(given["agent"], launch)
    live = options.tools == "live"
    if not live:
        agent["tools"] = list(selected_built_in(agent.get("tools")))
        agent |= {"mcp": {}, "ask_tools": []}
    workspace = folder / "workspace"
    if live and launch is not None:
        workspace = launch.path(launch.spec.workspace)
    spec: JsonObject = {
        "version": 1,
        "pipeline_id": PIPELINE,
        "session": {
            "id": SESSION,
            "restore": {"jsonl": (folder / "fork.jsonl").as_uri()},
            "on_damage": options.on_damage,
        },
        "store": {"uri": str(folder / "store")},
        "agent": agent,
        "limits": given.get("limits", {}),
        "isolation": given.get("isolation", {}) if live else {},
        "workspace": str(workspace),
    }
    if options.message is not None:
        spec["input"] = {"message": options.message}
    return spec


def _agent(agent: JsonObject, launch: Launch) -> JsonObject:
    """The spec's agent, with the paths of scripts made absolute."""
    for model in (agent["model"], *agent.get("fallback_models", ())):
        if model.get("script") is not None:
            model["script"] = str(launch.path(model["script"]))
    return agent


def _recorded_agent(entries: Sequence[JsonObject]) -> JsonObject:
    """The model that answered last, at its provider's usual address, with the built-in tools."""
    for entry in reversed(entries):
        if part_of(entry) != "assistant":
            continue
        message = entry["message"]
        api, provider, model = (message.get(name) for name in ("api", "provider", "model"))
        if all(isinstance(name, str) and name for name in (api, provider, model)) and api != "scripted":
            return {"model": {"api": api, "provider": provider, "id": model}}
        break
    raise UsageError("the recorded model cannot be asked again: give a spec with one (--spec SPEC)")


@contextlib.contextmanager
def _standard_output_in(path: Path) -> Generator[Path]:
    """What the run prints goes to a file; then standard output is what it was."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
        yield path
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


# --- what came of it ----------------------------------------------------------------------------------------


def _write_output(folder: Path, terminal: JsonObject, options: LiveOptions, output: Path, meter: Meter) -> None:
    """The checkpoint of the run as a plain file; the fork itself where it has none."""
    if terminal["checkpoint"]["decision"] != "commit":
        with (folder / "fork.jsonl").open("rb") as fork, new_file(output, force=False) as file:
            shutil.copyfileobj(fork, file)
        return
    head = str(folder / "store" / "pipelines" / PIPELINE / "head.json")
    with open_source(head, options.store, on_damage=options.on_damage, meter=meter, files=False) as source:
        assert source.session is not None, "a committed checkpoint has a session"
        with source.session.stored.open("rb") as stored, new_file(output, force=False) as file:
            shutil.copyfileobj(stored, file)


def _report(options: LiveOptions, terminal: JsonObject, output: Path) -> str:
    if options.form == "json":
        value = {
            "type": "fork",
            "source": options.source,
            "entry_id": options.entry,
            "output": str(output),
            "settlement": terminal["settlement"],
            "usage": terminal["usage"],
        }
        return json.dumps(value) + "\n"
    settlement = terminal["settlement"]
    said = settlement.get("reason") or settlement.get("text") or ""
    return (
        f"fork of {visible_line(options.source)} at entry {visible_line(options.entry)}\n"
        f"went on for {terminal['usage']['turns']} turns: {settlement['kind']} ({visible_line(str(said))})\n"
        f"the fork is in {visible_line(str(output))}\n"
    )
