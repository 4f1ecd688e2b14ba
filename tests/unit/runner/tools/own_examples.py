"""What the registry's tests load by name."""

from runner.agent.types import AgentTool, text_result
from runner.tools.own_tools import function_tool


def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper()


async def whisper(text: str) -> str:
    """Says it quietly."""
    return text.lower()


async def _execute(*_args: object) -> dict[str, object]:
    return text_result("made")


MADE = AgentTool("made", "Made by hand.", {"type": "object"}, _execute)
ALL = [shout, whisper, MADE]
TAKEN = function_tool(shout, name="bash")
BADLY_NAMED = AgentTool("no name!", "x", {"type": "object"}, _execute)
NOTHING: list[object] = []
NUMBER = 5
