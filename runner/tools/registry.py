"""Which tools the model is given: the asking tools always, and those that the spec names.

A name is one of the built-in tools, or an entry point of the group `runner.tools`; `module:object` loads trusted code
into this process.
"""

import importlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from runner.agent.types import AgentTool
from runner.tools.errors import ToolSetupError
from runner.tools.own_tools import TOOL_NAME, function_tool

ASKING_TOOLS = ("ask_user", "collect_form_input")
BUILT_IN_TOOLS = ("bash", "read", "write", "edit", "grep", "find", "ls", "subagent")
ENTRY_POINTS = "runner.tools"

__all__ = [
    "ASKING_TOOLS",
    "BUILT_IN_TOOLS",
    "ToolSetupError",
    "load_own_tools",
    "selected_built_in",
    "tool_name_problems",
]


def tool_name_problems(names: Iterable[str]) -> list[str]:
    """What is wrong with the spec's `agent.tools`, found without importing any tool."""
    problems: list[str] = []
    seen: set[str] = set()
    for index, name in enumerate(names):
        place = f"agent.tools[{index}]"
        module, colon, path = name.partition(":")
        if name in seen:
            problems.append(f"{place}: {name!r} is named twice")
        elif colon:
            parts = [*module.split("."), *path.split(".")]
            if not all(part.isidentifier() for part in parts):
                problems.append(f"{place}: {name!r} must be `module:object`")
            elif not module_is_there(module):
                problems.append(
                    f"{place}: there is no module {module!r}: install it, or add its folder to the variable PYTHONPATH"
                )
        elif name not in BUILT_IN_TOOLS and name not in ASKING_TOOLS and _entry_point(name) is None:
            problems.append(
                f"{place}: there is no tool {name!r}: name {', '.join(BUILT_IN_TOOLS)}, an installed entry point of "
                f"`{ENTRY_POINTS}`, or `module:object`"
            )
        seen.add(name)
    return problems


def module_is_there(name: str) -> bool:
    """Whether a module can be found, without importing it or its packages. True where only importing would tell."""
    path: Sequence[str] | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        whole = ".".join(parts[:depth])
        if whole in sys.modules:
            path = getattr(sys.modules[whole], "__path__", None)
        else:
            try:
                found = (finder.find_spec(whole, path) for finder in sys.meta_path)
                spec = next((spec for spec in found if spec is not None), None)
            except Exception:  # noqa: BLE001 - finders are anybody's; one that fails has told nothing
                return True
            if spec is None:
                return False
            path = spec.submodule_search_locations
        if path is None:  # a module, which holds no others
            return depth == len(parts)
    return True


def selected_built_in(names: Sequence[str] | None) -> tuple[str, ...]:
    """The built-in tools that the spec's `agent.tools` selects, in their own order; all of them for None."""
    return BUILT_IN_TOOLS if names is None else tuple(name for name in BUILT_IN_TOOLS if name in names)


def load_own_tools(names: Iterable[str]) -> list[AgentTool]:
    """Import what is not built in: functions, AgentTools, or lists of them. Raises ToolSetupError."""
    tools: list[AgentTool] = []
    for name in names:
        if name not in BUILT_IN_TOOLS and name not in ASKING_TOOLS:
            tools += _load(name)
    refuse_taken_names(tools, (*ASKING_TOOLS, *BUILT_IN_TOOLS))
    return tools


def refuse_taken_names(tools: Iterable[AgentTool], taken: Iterable[str]) -> None:
    """Raises ToolSetupError if two tools, or a tool and a taken name, are called the same, or a name is not one that
    models take.
    """
    names = set(taken)
    for tool in tools:
        if not TOOL_NAME.fullmatch(tool.name):
            raise ToolSetupError(f"the tool name {tool.name!r} must be 1 to 64 letters, digits, `_` or `-`")
        if tool.name in names:
            raise ToolSetupError(f"the tool name {tool.name!r} is taken: give your tool another name")
        names.add(tool.name)


def _entry_point(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)


def _load(name: str) -> list[AgentTool]:
    try:
        found = _imported(name)
    except ToolSetupError:
        raise
    except (Exception, SystemExit) as error:
        raise ToolSetupError(f"the tool {name!r} cannot be loaded ({type(error).__name__}: {error})") from error
    items = cast("Sequence[Any]", found) if isinstance(found, list | tuple) else [found]
    tools = [_as_tool(item) for item in items]
    if not tools or None in tools:
        raise ToolSetupError(
            f"the tool {name!r} must be a typed function, a runner.agent.types.AgentTool, or a list of them"
        )
    return [tool for tool in tools if tool is not None]


def _imported(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not colon:
        point = _entry_point(name)
        if point is None:
            raise ToolSetupError(f"there is no tool {name!r}: no entry point of `{ENTRY_POINTS}` has this name")
        return point.load()
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _as_tool(item: Any) -> AgentTool | None:
    if isinstance(item, AgentTool):
        return item
    return function_tool(item) if inspect.isroutine(item) else None
