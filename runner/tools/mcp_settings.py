"""MCP servers of a run, as the tools need them: the spec's, with its secrets put in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TypeAlias

from runner.spec import McpServer, SecretRef, StdioServer


@dataclass(frozen=True, slots=True)
class McpStdio:
    """A server that is started for the run, confined like any tool. Its environment holds only what it is given."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class McpHttp:
    """A server that runs elsewhere (streamable HTTP)."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


McpSettings: TypeAlias = McpStdio | McpHttp


def with_secrets(servers: Mapping[str, McpServer], secret: Callable[[str], str | None]) -> list[McpSettings]:
    """The spec's servers in its order. That a secret is missing was found when the launch was checked: it is empty."""

    def values(given: Mapping[str, str | SecretRef]) -> dict[str, str]:
        return {name: value if isinstance(value, str) else secret(value.secret) or "" for name, value in given.items()}

    return [
        McpStdio(name, server.command, tuple(server.args), values(server.env))
        if isinstance(server, StdioServer)
        else McpHttp(name, server.url, values(server.headers))
        for name, server in servers.items()
    ]


def mcp_problems(servers: Mapping[str, McpServer]) -> list[str]:
    """What keeps the spec's servers from being used, found without starting or connecting anything."""
    if servers and find_spec("mcp") is None:
        return ["agent.mcp: MCP servers need the extra `mcp`: install pipeline-runner[mcp], or leave them out"]
    return []
