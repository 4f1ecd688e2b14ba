"""The user that tools run as where the runner is root: no limit on processes binds root, and root may look anywhere.

The owner of the workspace, so that its files are the tools' own; a workspace of root's is given to a user number that
nobody has. Refuses to follow links, and to give away files that have a second name elsewhere.
"""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass

FIRST, COUNT = 61184, 4000
"""From the range that systemd keeps for short-lived users; below 65536, which is all that a container may have."""


@dataclass(frozen=True, slots=True)
class ToolUser:
    uid: int
    gid: int
    of_the_run: bool = False
    """Made up for this run: nobody else's processes count."""


def choose_user(owner: ToolUser, taken: Collection[int], seed: int) -> ToolUser:
    """The owner of the workspace unless that is root, else a free number. `taken`: users of running processes.

    A number of its own for each run (`seed`: the runner's process id) keeps the tools of two runs apart.
    """
    if owner.uid != 0:
        return owner
    numbers = (FIRST + (seed + step) % COUNT for step in range(COUNT))
    free = next((number for number in numbers if number not in taken), FIRST)
    return ToolUser(free, free, of_the_run=True)


ROOT = ToolUser(0, 0)


def hand_over(folder: str, giver: ToolUser, user: ToolUser) -> None:
    """Give what the giver has in this folder, and the folder itself, to another user. Raises OSError.

    To be called while no tool runs, else a tool could swap what is being given away.
    """
    for _, folders, files, here in os.fwalk(folder, follow_symlinks=False):
        for name in (".", *files, *folders):
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            several_names = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
            if found.st_uid == giver.uid and not several_names:
                os.chown(name, user.uid, user.gid, dir_fd=here, follow_symlinks=False)
