"""The commands that look at sessions: their words and options, and which code they call (docs/inspection.md)."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from runner.replay.arguments import add_replay_options

if TYPE_CHECKING:
    from runner.inspection.source import StoreOptions

AddParser: TypeAlias = Callable[..., argparse.ArgumentParser]
SOURCE = "a head.json, a manifest or a plain session file (also zstd): s3://…, file://… or a path"


def add_session_commands(add_parser: AddParser, secrets_argument: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to the command line; `secrets_argument` adds `--secrets-dir`."""
    inspect = add_parser("inspect", help="show a session: transcript, tree, usage, settlement, damage")
    inspect.add_argument("source", metavar="SOURCE", help=SOURCE)
    inspect.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: %(default)s")
    inspect.add_argument("--output", type=Path, metavar="FILE", help="write to this file (default: standard output)")
    inspect.add_argument("--full", action="store_true", help="fold and cut nothing")

    export = add_parser("export", help="write the plain session file of a source, byte for byte")
    export.add_argument("source", metavar="SOURCE", help=SOURCE)
    export.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    export.add_argument("--force", action="store_true", help="overwrite the file")

    importing = add_parser("import", help="store a plain session file as a checkpoint and print its restore point")
    importing.add_argument(
        "source", metavar="FILE", help="a plain session file (also zstd): s3://…, file://… or a path"
    )
    importing.add_argument("store", metavar="STORE", help="the store's address, as `store.uri`")
    importing.add_argument("--session", required=True, metavar="ID", help="the session's id in the store")

    diff = add_parser("diff", help="compare two sessions or checkpoints: exit 0 if they are the same, 1 if not")
    diff.add_argument("a", metavar="A", help=SOURCE)
    diff.add_argument("b", metavar="B", help="the same")
    diff.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")

    replay = add_parser("replay", help="run a recorded pipeline again, without network or side effects, and compare")
    replay.add_argument("source", metavar="SOURCE", help=SOURCE)
    add_replay_options(replay)

    for parser in (inspect, export, diff, replay):
        damage_argument(parser)
    for parser in (inspect, export, importing, diff, replay):
        store_arguments(parser)
        secrets_argument(parser)


def damage_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-damage",
        choices=("fail", "skip"),
        default="fail",
        help="fail (default) at the first damage, or skip: read what can be read and list the damage",
    )


def store_arguments(parser: argparse.ArgumentParser) -> None:
    """How a store is reached, as in the spec."""
    parser.add_argument("--endpoint-url", metavar="URL", help="S3 endpoint, as `store.endpoint_url`")
    parser.add_argument("--region", metavar="R", help="S3 region, as `store.region`")
    parser.add_argument("--addressing-style", choices=("auto", "path", "virtual"), help="as `store.addressing_style`")


def store_options(options: argparse.Namespace) -> "StoreOptions":
    from runner.inspection.source import StoreOptions

    return StoreOptions(options.secrets_dir, os.environ, options.endpoint_url, options.region, options.addressing_style)


def run_session_command(options: argparse.Namespace) -> int:
    """The exit code of one of the commands above. Raises RunnerError."""
    match options.command:
        case "inspect":
            from runner.inspection.showing import inspect_source

            return inspect_source(
                options.source,
                store_options(options),
                form=options.format,
                output=options.output,
                full=options.full,
                on_damage=options.on_damage,
            )
        case "export":
            from runner.inspection.exporting import export_session

            return export_session(
                options.source,
                options.file,
                store_options(options),
                force=options.force,
                on_damage=options.on_damage,
            )
        case "import":
            from runner.inspection.importing import import_session

            return import_session(options.source, options.store, options.session, store_options(options))
        case _:
            from runner.inspection.comparing import diff_sources

            return diff_sources(
                options.a, options.b, store_options(options), form=options.format, on_damage=options.on_damage
            )
