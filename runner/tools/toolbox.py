"""All tools of a run: made from what the spec selects, closed together at the end.

The order of the tools never changes for one spec (built-in, own, MCP), so that a resumed session sends the model the
same list. Asking tools are not in here: they belong to the run's question gate and come first in the model's list.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from runner.agent.types import AgentTool
from runner.isolation.port import Spawner
from runner.subagent import SubagentParts, Subagents
from runner.tools.bash import bash_tool
from runner.tools.file_tools import file_tools
from runner.tools.file_worker import FileWorker
from runner.tools.folders import ToolFolders
from runner.tools.mcp_servers import McpServers, connect_servers
from runner.tools.mcp_settings import McpSettings
from runner.tools.registry import ASKING_TOOLS, BUILT_IN_TOOLS, load_own_tools, refuse_taken_names, selected_built_in
from runner.tools.result_limits import bounded_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSelection:
    """What the spec says about tools."""

    names: Sequence[str] | None
    """`agent.tools`; None for all built-in ones."""
    mcp: Sequence[McpSettings] = ()
    ask_tools: Collection[str] = ()
    """Further tools whose result may be a question; subagents do not get them."""


@dataclass(slots=True)
class Toolbox:
    """`close` ends what the tools started, except what the spawner's own `close` ends."""

    tools: list[AgentTool]
    subagents: Subagents | None
    _files: FileWorker
    _servers: McpServers

    async def close(self) -> None:
        """End the file worker and the MCP servers, within a bound. Safe to call twice."""
        await self._files.close()
        await self._servers.close()


async def open_toolbox(
    selection: ToolSelection, spawner: Spawner, folders: ToolFolders, subagent_parts: SubagentParts | None
) -> Toolbox:
    """The tools that are selected. Raises ToolSetupError (`setup_failed`), with nothing left running."""
    selected = selected_built_in(selection.names)
    own = load_own_tools(selection.names or ())
    files = FileWorker(spawner, folders)
    built_in = [bash_tool(spawner, folders), *file_tools(files)]
    servers = await connect_servers(selection.mcp, spawner, folders.workspace)
    try:
        refuse_taken_names([*own, *servers.tools], (*ASKING_TOOLS, *BUILT_IN_TOOLS))
    except BaseException:
        await servers.close()
        raise
    chosen = [*(tool for tool in built_in if tool.name in selected), *own, *servers.tools]
    tools = [bounded_tool(tool, folders) for tool in chosen]
    subagents = None
    if subagent_parts is not None and "subagent" in selected:
        may_ask = {*ASKING_TOOLS, *selection.ask_tools}
        subagents = Subagents(subagent_parts, [tool for tool in tools if tool.name not in may_ask])
        at = sum(tool.name in BUILT_IN_TOOLS for tool in tools)
        tools.insert(at, bounded_tool(subagents.tool(), folders))
    return Toolbox(tools, subagents, files, servers)
