from importlib.util import find_spec

from runner.spec import HttpServer, SecretRef, StdioServer
from runner.tools.mcp_settings import McpHttp, McpStdio, mcp_problems, with_secrets


def test_secrets_are_put_where_the_spec_names_them() -> None:
    servers = {
        "local": StdioServer(command="x", args=["-a"], env={"TOKEN": SecretRef(secret="the_token"), "MODE": "fast"}),
        "web": HttpServer(url="https://x.example/mcp", headers={"authorization": SecretRef(secret="the_token")}),
    }
    assert with_secrets(servers, {"the_token": "value"}.get) == [
        McpStdio("local", "x", ("-a",), {"TOKEN": "value", "MODE": "fast"}),
        McpHttp("web", "https://x.example/mcp", {"authorization": "value"}),
    ]


def test_secrets_are_not_part_of_the_settings_text() -> None:
    assert "hidden" not in repr([McpStdio("a", "b", (), {"X": "hidden"}), McpHttp("a", "u", {"X": "hidden"})])


def test_servers_without_the_extra_are_a_problem_of_the_launch() -> None:
    assert mcp_problems({}) == []
    problems = mcp_problems({"web": HttpServer(url="https://x.example")})
    assert len(problems) == (1 if find_spec("mcp") is None else 0)
