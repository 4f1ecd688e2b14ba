"""MCP servers of a run, as the tools need them: the spec's, with its secrets put in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


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
