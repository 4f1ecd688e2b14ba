"""The options of `runner replay`. Imports nothing heavy: every start of the program reads them."""

import argparse


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """All but the folder of secrets."""
    parser.add_argument("source", help="a head.json, a manifest or a plain session file: a path, file://… or s3://…")
    parser.add_argument("--until", metavar="ENTRY", help="replay up to the entry with this id")
    parser.add_argument("--step", action="store_true", help="turn by turn: Enter goes on, q ends")
    parser.add_argument("--format", choices=("text", "json"), default="text", dest="form", help="default: text")
    parser.add_argument("--on-damage", choices=("fail", "skip"), default="fail", help="skip: read on as Pi does")
    parser.add_argument("--endpoint-url", help="S3 endpoint, as `store.endpoint_url`")
    parser.add_argument("--region", help="S3 region, as `store.region`")
    parser.add_argument("--addressing-style", choices=("auto", "path", "virtual"), help="as `store.addressing_style`")
