"""Level `process`: limits, no privileges, a clean environment, a supervisor that loses no descendant; another user
where the runner is root. Files and network are as the user's.
"""

from collections.abc import Sequence

from runner.isolation.confinement import Level, Wrapped
from runner.isolation.launched import LaunchSettings, confined, who


class ProcessLevel:
    level: Level = "process"

    def __init__(self, settings: LaunchSettings) -> None:
        self._settings = settings

    @property
    def description(self) -> str:
        return f"limits and no privileges, {who(self._settings.user)}"

    def wrap(self, command: Sequence[str], cwd: str) -> Wrapped:
        return confined(self._settings, command, cwd, None)
