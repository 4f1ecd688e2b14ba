"""Limits of a tool's process, in the kernel's terms. Pure.

They bind each process by itself, but for the number of processes, which is counted per user (and not for root).
"""

from dataclasses import dataclass

MIB = 1024 * 1024
OPEN_FILES = 1024
MORE_CPU_S = 5
"""Between the signal that says that the CPU time is used up (SIGXCPU) and the kill."""


@dataclass(frozen=True, slots=True)
class Limits:
    memory_mb: int = 2048
    file_mb: int = 1024
    processes: int = 256
    cpu_s: int | None = None


def rlimits(limits: Limits, running: int) -> dict[str, tuple[int, int]]:
    """Soft and hard value by name. `running`: threads of the tools' user that live already and are no tool's."""
    memory, file, processes = limits.memory_mb * MIB, limits.file_mb * MIB, limits.processes + running
    wanted = {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_FSIZE": (file, file),
        "RLIMIT_NPROC": (processes, processes),
        "RLIMIT_NOFILE": (OPEN_FILES, 4 * OPEN_FILES),
    }
    if limits.cpu_s is not None:
        wanted["RLIMIT_CPU"] = (limits.cpu_s, limits.cpu_s + MORE_CPU_S)
    return wanted
