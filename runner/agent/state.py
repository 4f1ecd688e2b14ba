"""What an agent shows of itself. The host may assign the first five; the rest follows the events."""

from collections.abc import Iterable

from checkpoint.jsontypes import Message
from runner.agent.types import (
    AgentEnd,
    AgentEvent,
    AgentTool,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Model,
    ModelName,
    ThinkingLevel,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)

NO_MODEL = ModelName(id="unknown", provider="unknown", api="unknown")


class AgentState:
    """`messages` is the transcript and grows in place; assigning `messages` or `tools` copies the list.

    `is_streaming` is true from the start of a run until the listeners of its `agent_end` are done.
    `streaming_message` is the one between its start and its end, whatever its role. `pending_tool_calls`
    holds the ids of calls that have started and not ended. `error_message` is that of the last turn that
    ended with one.
    """

    def __init__(
        self,
        system_prompt: str,
        model: Model | None,
        thinking_level: ThinkingLevel,
        messages: Iterable[Message],
        tools: Iterable[AgentTool],
    ) -> None:
        self.system_prompt = system_prompt
        self.model: Model = NO_MODEL if model is None else model
        self.thinking_level: ThinkingLevel = thinking_level
        self._messages = list(messages)
        self._tools = list(tools)
        self.is_streaming = False
        self.streaming_message: Message | None = None
        self.pending_tool_calls: tuple[str, ...] = ()
        self.error_message: str | None = None

    @property
    def messages(self) -> list[Message]:
        return self._messages

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        self._messages = list(messages)

    @property
    def tools(self) -> list[AgentTool]:
        return self._tools

    @tools.setter
    def tools(self, tools: Iterable[AgentTool]) -> None:
        self._tools = list(tools)

    def run_started(self) -> None:
        self.is_streaming = True
        self.streaming_message = None
        self.error_message = None

    def run_ended(self) -> None:
        self.is_streaming = False
        self.streaming_message = None
        self.pending_tool_calls = ()

    def apply(self, event: AgentEvent) -> None:
        """Follow one event. Comes before the listeners, so that what they see includes it."""
        match event:
            case MessageUpdate() | MessageStart():
                self.streaming_message = event.message
            case MessageEnd():
                self.streaming_message = None
                self._messages.append(event.message)
            case ToolExecutionStart():
                self.pending_tool_calls = (*self._pending_without(event.tool_call_id), event.tool_call_id)
            case ToolExecutionEnd():
                self.pending_tool_calls = self._pending_without(event.tool_call_id)
            case TurnEnd():
                if event.message.get("role") == "assistant" and event.message.get("errorMessage"):
                    self.error_message = event.message["errorMessage"]
            case AgentEnd():
                self.streaming_message = None
            case _:
                pass

    def _pending_without(self, tool_call_id: str) -> tuple[str, ...]:
        return tuple(pending for pending in self.pending_tool_calls if pending != tool_call_id)
