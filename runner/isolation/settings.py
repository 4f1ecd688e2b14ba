"""What the isolation needs to know of a launch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner.isolation.confinement import Level
from runner.isolation.limits import Limits


@dataclass(frozen=True, slots=True)
class IsolationSettings:
    workspace: Path
    """Is there already."""
    hidden: tuple[tuple[str, Path], ...]
    """What no tool may reach: (what it is, path); `secrets directory`, `session log`, `store`, `launch spec`, `script`
    or `control socket`."""
    secrets: Mapping[str, str]
    """Values by name; the attack looks for them."""
    required: Level = "none"
    network: bool = True
    limits: Limits = field(default_factory=Limits)
    search: tuple[Path, ...] = ()
    """Folders beside the workspace in which the attack looks for secrets' values."""
