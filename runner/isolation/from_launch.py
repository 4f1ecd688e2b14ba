"""From a launch to what the isolation needs to know of it."""

from collections.abc import Mapping
from pathlib import Path

from runner.check import protected_places
from runner.isolation.limits import Limits
from runner.isolation.settings import IsolationSettings
from runner.launch import Launch

SESSION_LOG = "session log"
PROGRAM = "program"


def isolation_settings(
    launch: Launch, secrets: Mapping[str, str], secrets_folder: Path, run_folder: Path
) -> IsolationSettings:
    """`secrets`: values by name. `run_folder`: private to the process; the session log is in it."""
    spec = launch.spec.isolation
    hidden = [
        (what, path) for what, path in protected_places(launch, secrets_folder) if what not in (SESSION_LOG, PROGRAM)
    ]
    return IsolationSettings(
        workspace=launch.path(launch.spec.workspace),
        hidden=((SESSION_LOG, run_folder), *hidden),
        secrets=secrets,
        required=spec.required,
        network=spec.network,
        limits=Limits(spec.memory_mb, spec.file_mb, spec.processes, spec.cpu_s),
        search=tuple(dict.fromkeys((launch.base, Path.cwd()))),
    )
