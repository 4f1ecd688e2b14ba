"""Which tools the model is given: the asking tools always, and those that the spec names.

`module:object` loads trusted code into this process; a name is one of the built-in tools.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from runner.agent.types import AgentTool

ASKING_TOOLS = ("ask_user", "collect_form_input")
PLANNED_TOOLS = ("bash", "read", "write", "edit", "grep", "find", "ls", "subagent")
"""Names that belong to tools of a later release; nothing else may take them."""


class ToolSetupError(Exception):
    """A tool that the spec names cannot be set up; the message says which and why."""


def tool_name_problems(names: Iterable[str]) -> list[str]:
    """What is wrong with the spec's `agent.tools`, found without importing anything."""
    problems: list[str] = []
    for index, name in enumerate(names):
        place = f"agent.tools[{index}]"
        module, colon, path = name.partition(":")
        if colon:
            parts = [*module.split("."), *path.split(".")]
            if not all(part.isidentifier() for part in parts):
                problems.append(f"{place}: {name!r} must be `module:object`")
        elif name in PLANNED_TOOLS:
            problems.append(f"{place}: {name!r} is not available yet: leave it out, or give your own `module:object`")
        elif name not in ASKING_TOOLS:
            problems.append(f"{place}: there is no tool {name!r}: name {' or '.join(ASKING_TOOLS)}, or `module:object`")
    return problems


def load_own_tools(names: Iterable[str]) -> list[AgentTool]:
    """Import the `module:object` tools: an AgentTool or a sequence of them each. Raises ToolSetupError."""
    tools: list[AgentTool] = []
    for name in names:
        if ":" in name:
            tools += _load(name)
    taken: set[str] = {*ASKING_TOOLS, *PLANNED_TOOLS}
    for tool in tools:
        if tool.name in taken:
            raise ToolSetupError(f"the tool name {tool.name!r} is taken: give your tool another name")
        taken.add(tool.name)
    return tools


def _load(name: str) -> Sequence[AgentTool]:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise ToolSetupError(f"the tool {name!r} cannot be loaded ({type(error).__name__}: {error})") from error
    if isinstance(found, AgentTool):
        return [found]
    if isinstance(found, list | tuple) and found:
        items = cast("Sequence[Any]", found)
        if all(isinstance(item, AgentTool) for item in items):
            return items
    raise ToolSetupError(f"the tool {name!r} must be a runner.agent.types.AgentTool or a list of them")
