"""The options of `runner replay`. Imports nothing heavy: every start of the program reads them."""

import argparse
from pathlib import Path


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """All but the source and what the other session commands have too."""
    parser.add_argument("--until", metavar="ENTRY", help="replay up to the entry with this id")
    parser.add_argument("--step", action="store_true", help="turn by turn: Enter goes on, q ends")
    parser.add_argument("--format", choices=("text", "json"), default="text", dest="form", help="default: text")
    live = parser.add_argument_group("going on from an entry with a real model")
    live.add_argument("--from", metavar="ENTRY", dest="entry", help="fork the session at the entry with this id")
    live.add_argument("--live", action="store_true", help="go on with a real model; needs --from")
    live.add_argument("--spec", help="launch spec with model, tools and limits (default: the recorded model)")
    live.add_argument("--message", metavar="TEXT", help="what the user says after the entry")
    live.add_argument(
        "--tools",
        choices=("recorded", "live"),
        help="recorded (default): calls get their recorded results, or an error; live: tools run, as in `runner run`",
    )
    live.add_argument("--output", type=Path, metavar="FILE", help="new session file (default: a temporary one)")
