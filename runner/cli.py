"""The command line: words in, one of the documented exit codes out (docs/launch.md).

Each command's code is imported when it is asked for; `runner run` pays for nothing else.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from runner.cli_sessions import add_session_commands, run_session_command, store_options
from runner.errors import Refused, RunnerError, UsageError
from runner.exits import Exit
from runner.signals import StopLatch
from runner.version import VERSION

SCHEMAS = ("spec", "question", "callback", "heartbeat", "heartbeat_answer", "head", "manifest")


LONGEST_S = 30 * 86400.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="runner",
        description="Run one agent pipeline: restore, run, settle, checkpoint, call back.",
        epilog="`runner COMMAND --help` has the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"pipeline-runner {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="run a pipeline from its launch spec")
    _spec_argument(run)
    _secrets_argument(run)
    run.add_argument("--events", action="store_true", help="print the agent's events on standard output, as JSON lines")
    run.add_argument(
        "--fsync",
        choices=("freeze", "turn"),
        default="freeze",
        help="sync the session log at the freeze (default) or each turn",
    )

    run.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="keep each model request and its answer here, secrets removed; DIR/script.json plays the run again",
    )

    check = commands.add_parser("check", help="find what would be refused, without side effects")
    _spec_argument(check)
    _secrets_argument(check)

    schema = commands.add_parser("schema", help="print the JSON Schema of a contract")
    schema.add_argument("name", choices=SCHEMAS, metavar="NAME", help=", ".join(SCHEMAS))

    deliver = commands.add_parser(
        "deliver", help="send the stored terminal record of a pipeline, if the server has not taken it yet"
    )
    deliver.add_argument("head", metavar="HEAD", help="address of its head.json: s3://…, file://… or a path")
    _s3_arguments(deliver)
    deliver.add_argument(
        "--callback-s", type=_seconds, metavar="S", default=600.0, help="time for all tries, in seconds (default 600)"
    )
    deliver.add_argument("--insecure", action="store_true", help="allow http:// to other hosts, as `server.insecure`")
    _secrets_argument(deliver)

    reconcile = commands.add_parser(
        "reconcile", help="send all records again that no server has taken, and settle pipelines whose process is dead"
    )
    reconcile.add_argument(
        "prefix", metavar="STORE", help="address of the store: s3://bucket/prefix, file:///folder or a path"
    )
    _s3_arguments(reconcile)
    reconcile.add_argument("--unsafe-conditions", action="store_true", help="as `store.unsafe_conditions`")
    reconcile.add_argument(
        "--callback-s",
        type=_seconds,
        metavar="S",
        default=60.0,
        help="time for all tries of one record, in seconds (default 60)",
    )
    reconcile.add_argument("--insecure", action="store_true", help="allow http:// to other hosts, as `server.insecure`")
    reconcile.add_argument(
        "--at-once", type=_few, metavar="N", default=8, help="pipelines under way at a time (default 8)"
    )
    reconcile.add_argument("--dry-run", action="store_true", help="say what would be done; write and send nothing")
    reconcile.add_argument("--json", action="store_true", help="print JSON lines")
    _secrets_argument(reconcile)

    doctor = commands.add_parser("doctor", help="show which isolation holds on this machine, and why")
    doctor.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC",
        help="path of the spec, or - for standard input: exit 78 if what it requires does not hold (default: none)",
    )
    _secrets_argument(doctor)

    demo = commands.add_parser("demo", help="the whole story on one machine: ask, answer in a second process, success")
    demo.add_argument(
        "--folder", type=Path, metavar="DIR", help="the server's folder, which stays (default: a temporary one)"
    )
    demo.add_argument("--keep", action="store_true", help="leave the server running for a look, until Ctrl-C")

    serve = commands.add_parser("serve", help="a server and orchestrator for this machine (extra `server`)")
    serve.add_argument(
        "--folder", type=Path, metavar="DIR", required=True, help="everything it keeps: database, store, workspaces"
    )
    serve.add_argument(
        "--template",
        type=Path,
        metavar="SPEC",
        help="launch spec of its pipelines: `agent` at least (default: DIR/template.json)",
    )
    serve.add_argument("--host", metavar="H", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", type=_port, metavar="N", default=0, help="port to listen on (default: the last one, or any)"
    )
    serve.add_argument(
        "--token-file", type=Path, metavar="F", help="what people show; made if missing (default: DIR/private/token)"
    )
    serve.add_argument(
        "--command",
        dest="command_template",
        metavar="TEMPLATE",
        help="how a pipeline is started, such as `docker run … {spec}` (default: runner run)",
    )
    serve.add_argument(
        "--slots", type=_count, metavar="N", default=2, help="pipelines that run at once (default %(default)s)"
    )
    serve.add_argument(
        "--attempts",
        type=_count,
        metavar="N",
        default=3,
        help="processes started for one pipeline, at most (default %(default)s)",
    )
    serve.add_argument("--reply-timeout-s", type=_seconds, metavar="S", help="end a task that waits longer for a reply")

    add_session_commands(commands.add_parser, _secrets_argument)

    commands.add_parser("version", help="print the version")
    return parser


def _s3_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--endpoint-url", metavar="URL", help="S3 endpoint, as `store.endpoint_url`")
    parser.add_argument("--region", metavar="R", help="S3 region, as `store.region`")
    parser.add_argument("--addressing-style", choices=("auto", "path", "virtual"), help="as `store.addressing_style`")


def _few(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 64")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most {LONGEST_S:g} seconds")
    return seconds


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 1000")
    return int(text)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError("must be a whole number up to 65535")
    return int(text)


def _spec_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC",
        help="path of the spec, or - for standard input (default: PIPELINE_SPEC or PIPELINE_SPEC_FILE)",
    )


def _secrets_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secrets-dir",
        type=Path,
        metavar="DIR",
        default=Path("/run/secrets/runner"),
        help="folder with one file per secret (default: %(default)s)",
    )


def run_command(argv: Sequence[str], stop: StopLatch) -> int:
    """Run one command; returns the exit code. Only `run` writes a `settled` line, and it always does."""
    try:
        options = build_parser().parse_args(argv)
    except UsageError as error:
        if argv[:1] == ["run"]:
            return _usage_of_run(error)
        return _explain(error)
    except SystemExit as leaving:  # --help, --version
        return int(leaving.code or 0)
    if options.command == "run":
        from runner.process import RunOptions, run_process

        chosen = RunOptions(options.secrets_dir, options.events, options.fsync, options.record)
        return run_process(options.spec, chosen, stop)
    if not getattr(options, "live", False):  # a fork is a run, which ends in its own way
        stop.release()
    try:
        exit_code = _other_command(options, stop)
        sys.stdout.flush()
    except RunnerError as error:
        return _explain(error)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ACKNOWLEDGED
    except Exception:  # noqa: BLE001 - a defect has its exit code
        sys.stderr.write(traceback.format_exc())
        return Exit.DEFECT
    return exit_code


def _other_command(options: argparse.Namespace, stop: StopLatch) -> int:
    match options.command:
        case "check":
            from runner.process import check_launch

            return check_launch(options.spec, options.secrets_dir)
        case "schema":
            from runner.schemas import schema_text

            sys.stdout.write(schema_text(options.name))
            return Exit.ACKNOWLEDGED
        case "deliver":
            from runner.redeliver import deliver_head

            return deliver_head(
                options.head,
                secrets_folder=options.secrets_dir,
                endpoint_url=options.endpoint_url,
                region=options.region,
                addressing_style=options.addressing_style,
                callback_s=options.callback_s,
                insecure=options.insecure,
                environ=os.environ,
            )
        case "reconcile":
            return _reconcile(options)
        case "doctor":
            from runner.process import examine_isolation

            return examine_isolation(options.spec, options.secrets_dir)
        case "replay":
            from runner.replay.command import replay_command

            return replay_command(options, store_options(options), stop)
        case "demo":
            from runner.demo import run_demo

            return run_demo(options.folder, keep=options.keep)
        case "serve":
            return _serve(options)
        case "version":
            sys.stdout.write(f"pipeline-runner {VERSION}\n")
            return Exit.ACKNOWLEDGED
        case _:
            return run_session_command(options)


def _serve(options: argparse.Namespace) -> int:
    try:
        from runner.server.serve import serve
        from runner.server.settings import ServeOptions
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise Refused(
            "extra_missing", ["`runner serve` needs the extra: pip install 'pipeline-runner[server]'"]
        ) from None
    names = ("folder", "template", "host", "port", "token_file", "slots", "attempts", "reply_timeout_s")
    return serve(ServeOptions(**{name: getattr(options, name) for name in names}, command=options.command_template))


def _reconcile(options: argparse.Namespace) -> int:
    from runner.reconcile import ReconcileOptions, reconcile_store

    chosen = ReconcileOptions(
        secrets_folder=options.secrets_dir,
        endpoint_url=options.endpoint_url,
        region=options.region,
        addressing_style=options.addressing_style,
        unsafe_conditions=options.unsafe_conditions,
        insecure=options.insecure,
        callback_s=options.callback_s,
        at_once=options.at_once,
        dry_run=options.dry_run,
        as_json=options.json,
    )
    return reconcile_store(options.prefix, chosen, os.environ)


def _explain(error: RunnerError) -> int:
    problems = getattr(error, "problems", (error.message,))
    for problem in problems:
        sys.stderr.write(f"runner: {problem}\n")
    return error.exit_code


def _usage_of_run(error: UsageError) -> int:
    from runner.ending import Ending
    from runner.stdout import JsonLines

    lines = JsonLines()
    lines.write(Ending.of(error).settled_line())
    lines.close()
    return _explain(error)
