"""Which confinements there are to try on this machine, strongest first, and who owns the tools' files under each."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.isolation.cgroup import PidsGroup
from runner.isolation.confinement import Confinement, Level
from runner.isolation.grounds import Grounds
from runner.isolation.launched import LaunchSettings
from runner.isolation.level_landlock import LandlockLevel
from runner.isolation.level_namespace import Bubblewrap, NamespaceLevel, find_bubblewrap, find_setpriv
from runner.isolation.level_none import Unconfined
from runner.isolation.level_process import ProcessLevel
from runner.isolation.process_table import users_in_use
from runner.isolation.settings import IsolationSettings
from runner.isolation.tool_user import ROOT, ToolUser, choose_user, hand_over


@dataclass(frozen=True, slots=True)
class Candidate:
    confinement: Confinement
    user: ToolUser | None
    """Whom tools run as; None: as whom the runner runs."""


def candidates(
    settings: IsolationSettings,
    grounds: Grounds,
    user: ToolUser | None,
    group: PidsGroup | None,
    levels: Collection[Level],
) -> Iterator[Candidate]:
    """Under root with the tools' own user (`user`) first, then without, for paths that only root can reach."""
    program = find_bubblewrap()
    launch = LaunchSettings(settings.limits, settings.network, user, None)
    launches = [launch]
    if user is not None:
        # The group only here, where nothing else binds.
        launches.append(LaunchSettings(settings.limits, settings.network, None, group))
    if "namespace" in levels and program is not None:
        for way in bubblewrap_ways(user):
            yield Candidate(NamespaceLevel(launch, grounds, Bubblewrap(program, way)), user)
    if "landlock" in levels:
        for each in launches:
            yield Candidate(LandlockLevel(each, grounds), each.user)
    if "process" in levels:
        for each in launches:
            yield Candidate(ProcessLevel(each), each.user)
    yield Candidate(Unconfined(), None)


Way = Literal["never", "before", "inside"]


def bubblewrap_ways(user: ToolUser | None) -> tuple[Way, ...]:
    """How bubblewrap and the change to the tools' user (under root) go together, the better first."""
    if user is None:
        return ("never",)
    return ("inside", "before") if find_setpriv() is not None else ()


class Ownership:
    """Who owns the workspace and the scratch folders; changes hands between attempts, and only under root."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._owner = ROOT
        self.tool_user: ToolUser | None = None
        """The user that tools get under root."""
        if os.geteuid() == 0:
            found = Path(grounds.workspace).stat()
            self.tool_user = choose_user(ToolUser(found.st_uid, found.st_gid), users_in_use(), os.getpid())

    def give_to(self, user: ToolUser | None) -> None:
        """Let the tools of this user write where they may. Raises OSError."""
        if self.tool_user is None:
            return
        user, scratch = user or ROOT, self._grounds.scratch
        if user == self._owner:
            return
        for folder in (self._grounds.workspace, scratch.home, scratch.temporary):
            hand_over(folder, self._owner, user)
        # Tools come through the first, and may read in the second; other users of the machine may not.
        os.chown(scratch.outputs, 0, user.gid)
        Path(scratch.outputs).chmod(0o2750)
        Path(scratch.base).chmod(0o711)
        self._owner = user
