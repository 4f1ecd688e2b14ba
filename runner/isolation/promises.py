"""What each level promises, and which level holds by what the attack managed. Pure.

The table is the one of docs/isolation.md; a test compares them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from runner.isolation.confinement import LEVELS, Level

Attack: TypeAlias = Literal[
    "secret_found",
    "runner_environment",
    "runner_memory",
    "runner_descriptors",
    "runner_files",
    "runner_traced",
    "limits",
    "survivor",
    "process_limit",
    "runner_signals",
    "secrets_directory",
    "session_log",
    "store",
    "launch_spec",
    "program_writable",
    "runner_visible",
    "network",
    "abstract_sockets",
]

_PROCESS: frozenset[Attack] = frozenset[Attack](
    {
        "secret_found",
        "runner_environment",
        "runner_memory",
        "runner_descriptors",
        "runner_files",
        "runner_traced",
        "limits",
        "survivor",
        "process_limit",
    }
)
_LANDLOCK: frozenset[Attack] = _PROCESS | frozenset[Attack](
    {"runner_signals", "secrets_directory", "session_log", "store", "launch_spec", "program_writable"}
)

PROMISES: Mapping[Level, frozenset[Attack]] = {
    "none": frozenset(),
    "process": _PROCESS,
    "landlock": _LANDLOCK,
    "namespace": _LANDLOCK | frozenset[Attack]({"runner_visible"}),
}
"""Attacks that must fail at a level."""

NETWORK: Mapping[Level, frozenset[Attack]] = {
    "none": frozenset(),
    "process": frozenset({"network"}),
    "landlock": frozenset({"network", "abstract_sockets"}),
    "namespace": frozenset({"network", "abstract_sockets"}),
}
"""What must fail beside with `network: false`."""

MEANINGS: Mapping[Attack, str] = {
    "secret_found": "find a secret's value in a file, an environment or a command line",
    "runner_environment": "read the runner's environment",
    "runner_memory": "read the runner's memory",
    "runner_descriptors": "open the runner's descriptors",
    "runner_files": "get at files through the runner's root",
    "runner_traced": "trace the runner",
    "limits": "run without the limits on memory, file size and core files",
    "survivor": "leave a process behind",
    "process_limit": "start more processes than the limit",
    "runner_signals": "send signals to the runner",
    "secrets_directory": "read the secrets directory",
    "session_log": "read or write the session log",
    "store": "read or write the store's folder, and the head in it",
    "launch_spec": "read or write the launch spec and the script",
    "program_writable": "change the program",
    "runner_visible": "see the runner among the processes",
    "network": "reach the network",
    "abstract_sockets": "reach abstract sockets of other programs",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    claimed: Level
    """The level that was set up."""
    description: str
    managed: Mapping[str, str]
    """What the attack managed, with what exactly."""
    unusable: str | None
    """Why no tool could work under it; such a confinement is not used."""
    network: bool
    """Whether tools are meant to have the network."""

    @property
    def holds(self) -> Level:
        return "none" if self.unusable is not None else holding_level(self.claimed, self.managed, network=self.network)


def holding_level(claimed: Level, managed: Collection[str], *, network: bool) -> Level:
    """The highest level, up to the one that was set up, all of whose promises are kept."""
    kept: Level = "none"
    for level in LEVELS[: LEVELS.index(claimed) + 1]:
        if broken_promises(level, managed, network=network):
            break
        kept = level
    return kept


def broken_promises(level: Level, managed: Collection[str], *, network: bool) -> list[Attack]:
    """In the order of the table."""
    promised = PROMISES[level] if network else PROMISES[level] | NETWORK[level]
    return [attack for attack in MEANINGS if attack in promised and attack in managed]


def is_enough(required: Level, verdict: Verdict) -> bool:
    """Whether the launch may go on. A network that was to be off and is not is never enough, whatever the level."""
    if not verdict.network and "network" in verdict.managed:
        return False
    return LEVELS.index(verdict.holds) >= LEVELS.index(required)


def rank(verdict: Verdict) -> tuple[bool, bool, int, int]:
    """Larger is better: usable, keeping the network off if asked, holding more; of equals, set up to hold more."""
    network_kept = verdict.network or "network" not in verdict.managed
    return verdict.unusable is None, network_kept, LEVELS.index(verdict.holds), LEVELS.index(verdict.claimed)
