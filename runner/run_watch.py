"""What a run's events tell the stop decision and the outcome: a listener that only remembers.

Refuses to raise: a listener that does fails the run.
"""

from typing import Any, cast

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentEvent, MessageEnd, ToolExecutionEnd, TurnEnd, TurnStart


class RunWatch:
    """Facts of one run; `begin` forgets those of the run before.

    The results' `terminate` hints are seen here and nowhere else: a tool result message does not carry them.
    """

    def __init__(self) -> None:
        self.begin(prompts=0)

    def begin(self, *, prompts: int) -> None:
        """A run starts with `prompts` new messages."""
        self._prompts_left = prompts
        self._ended = 0
        self._terminating = 0
        self.last_assistant: Message | None = None
        """The last assistant message of this run, the report of a failure included."""
        self.succeeded_calls: set[str] = set()
        """Ids of the calls whose successful result became part of the transcript."""
        self.terminating_texts: tuple[str, ...] = ()
        """Texts of the last turn's results, if all of them asked for the end of the tool loop."""

    @property
    def prompts_taken(self) -> bool:
        """Every message that the run was started with is part of the transcript."""
        return self._prompts_left == 0

    @property
    def all_terminate(self) -> bool:
        """Every result of the turn so far has `terminate: true`, and there is one."""
        return 0 < self._ended == self._terminating

    def observe(self, event: AgentEvent, _signal: AbortSignal | None = None) -> None:
        match event:
            case TurnStart():
                self._ended = self._terminating = 0
                self.terminating_texts = ()
            case ToolExecutionEnd():
                self._ended += 1
                self._terminating += event.result.get("terminate") is True
            case MessageEnd():
                self._message_ended(event.message)
            case TurnEnd():
                if self.all_terminate:
                    self.terminating_texts = tuple(message_text(result) for result in event.tool_results)
            case _:
                pass

    def _message_ended(self, message: Message) -> None:
        # The loop ends the prompts before anything else, so the first messages of the run are theirs.
        if self._prompts_left:
            self._prompts_left -= 1
        elif message.get("role") == "assistant":
            self.last_assistant = message
        elif message.get("role") == "toolResult" and message.get("isError") is not True:
            self.succeeded_calls.add(str(message.get("toolCallId")))


def text_blocks(content: Any) -> list[str]:
    """The texts of a message's or a tool result's content, whatever shape it came in."""
    if isinstance(content, str):
        return [content]
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    objects = [cast("JsonObject", block) for block in blocks if isinstance(block, dict)]
    texts = [block.get("text") for block in objects if block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


def message_text(message: Message) -> str:
    return "".join(text_blocks(message.get("content")))


def has_tool_calls(message: Message) -> bool:
    """By content, as the loop decides it; the stop reason says nothing about calls."""
    content = message.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return any(isinstance(block, dict) and cast("JsonObject", block).get("type") == "toolCall" for block in blocks)
