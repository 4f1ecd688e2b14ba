"""What the agent loop, the models, the tools and the hooks pass to each other.

Messages and tool results are plain JSON objects in Pi's shape, so that nothing is lost on the way to the
session log; everything else is a small dataclass. Source of the shapes: Pi 0.83.0's agent core,
`docs/agent.md`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal

ToolResult: TypeAlias = JsonObject
"""`{content: [blocks], details?, terminate?, addedToolNames?, usage?}`"""

ThinkingLevel: TypeAlias = str
"""off, minimal, low, medium, high, xhigh or max."""


class Model(Protocol):
    """What the loop needs of a model. The adapters' own settings class has these and more."""

    @property
    def id(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def api(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model that is nothing but its names (tests, the scripted model)."""

    id: str
    provider: str = "scripted"
    api: str = "scripted"


def is_json_object(value: Any) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_json_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


# --- tools --------------------------------------------------------------------------------------------------

UpdateCallback: TypeAlias = Callable[[ToolResult], None]
ExecuteTool: TypeAlias = Callable[[str, JsonObject, AbortSignal | None, UpdateCallback], Awaitable[ToolResult]]
"""(tool_call_id, validated arguments, signal, on_update) -> result. Raising gives an error result."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AgentTool:
    """A tool. Compared by identity, so that its compiled parameter schema can be kept as long as it lives."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments."""
    execute: ExecuteTool
    label: str = ""
    execution_mode: Literal["sequential", "parallel"] | None = None
    prepare_arguments: Callable[[Any], Any] | None = None
    """Rewrites raw arguments before they are validated; must not change them in place."""


def text_result(text: str, details: Any = None) -> ToolResult:
    return {"content": [{"type": "text", "text": text}], "details": {} if details is None else details}


# --- the model's side ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class LlmContext:
    system_prompt: str
    messages: list[Message]
    tools: Sequence[AgentTool] | None = None


@dataclass(slots=True)
class StreamOptions:
    signal: AbortSignal | None = None
    reasoning: ThinkingLevel | None = None
    """None when thinking is off."""
    api_key: str | None = None


@dataclass(slots=True)
class StreamEvent:
    """One event of a model's answer.

    `type` is start, text_start, text_delta, text_end, thinking_start, thinking_delta, thinking_end,
    toolcall_start, toolcall_delta, toolcall_end, done or error. `partial` is the message so far (start and
    block events); `message` the final one (done, error). Real adapters may hand out the same growing
    `partial` object each time.
    """

    type: str
    partial: Message | None = None
    content_index: int | None = None
    delta: str | None = None
    content: str | None = None
    tool_call: JsonObject | None = None
    reason: str | None = None
    message: Message | None = None


class AssistantStream(Protocol):
    """An answer under way. Model failures are events (`error`), not exceptions."""

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    async def result(self) -> Message:
        """The final message, once the iteration has ended."""
        ...


StreamFn: TypeAlias = Callable[[Model, LlmContext, StreamOptions], AssistantStream | Awaitable[AssistantStream]]


# --- events -------------------------------------------------------------------------------------------------
# `type` has Pi's names. runner/events.py turns them into JSON lines.


@dataclass(frozen=True, slots=True)
class AgentStart:
    type: Literal["agent_start"] = "agent_start"


@dataclass(frozen=True, slots=True)
class AgentEnd:
    messages: list[Message]
    type: Literal["agent_end"] = "agent_end"


@dataclass(frozen=True, slots=True)
class TurnStart:
    type: Literal["turn_start"] = "turn_start"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    message: Message
    tool_results: list[Message]
    type: Literal["turn_end"] = "turn_end"


@dataclass(frozen=True, slots=True)
class MessageStart:
    message: Message
    type: Literal["message_start"] = "message_start"


@dataclass(slots=True)
class MessageUpdate:
    """Not frozen: one is made per streamed delta, and a frozen one costs three times as much."""

    message: Message
    event: StreamEvent
    type: Literal["message_update"] = "message_update"


@dataclass(frozen=True, slots=True)
class MessageEnd:
    message: Message
    type: Literal["message_end"] = "message_end"


@dataclass(frozen=True, slots=True)
class ToolExecutionStart:
    tool_call_id: str
    tool_name: str
    args: Any
    type: Literal["tool_execution_start"] = "tool_execution_start"


@dataclass(frozen=True, slots=True)
class ToolExecutionUpdate:
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: ToolResult
    type: Literal["tool_execution_update"] = "tool_execution_update"


@dataclass(frozen=True, slots=True)
class ToolExecutionEnd:
    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    type: Literal["tool_execution_end"] = "tool_execution_end"


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)

Listener: TypeAlias = Callable[[AgentEvent, AbortSignal | None], Awaitable[None] | None]
"""Called for each event, in subscription order, and awaited if it returns an awaitable."""


# --- hooks --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AgentContext:
    """The running loop's own context."""

    system_prompt: str
    messages: list[Message]
    tools: Sequence[AgentTool] | None = None


@dataclass(frozen=True, slots=True)
class BeforeToolCallContext:
    assistant_message: Message
    tool_call: JsonObject
    args: JsonObject
    """The validated copy; changes in place reach the tool and are not validated again."""
    context: AgentContext


@dataclass(frozen=True, slots=True)
class BeforeToolCallResult:
    block: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AfterToolCallContext:
    assistant_message: Message
    tool_call: JsonObject
    args: JsonObject
    result: ToolResult
    is_error: bool
    context: AgentContext


@dataclass(frozen=True, slots=True)
class AfterToolCallResult:
    """Overrides; None keeps the tool's own value."""

    content: list[JsonObject] | None = None
    details: Any = None
    is_error: bool | None = None
    terminate: bool | None = None
    usage: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What `should_stop_after_turn` and `prepare_next_turn_with_context` see of a finished turn."""

    message: Message
    tool_results: list[Message]
    context: AgentContext
    new_messages: list[Message]


@dataclass(frozen=True, slots=True)
class NextTurn:
    context: AgentContext | None = None
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None


BeforeToolCall: TypeAlias = Callable[
    [BeforeToolCallContext, AbortSignal | None],
    Awaitable[BeforeToolCallResult | None] | BeforeToolCallResult | None,
]
AfterToolCall: TypeAlias = Callable[
    [AfterToolCallContext, AbortSignal | None],
    Awaitable[AfterToolCallResult | None] | AfterToolCallResult | None,
]
ShouldStopAfterTurn: TypeAlias = Callable[[TurnContext, AbortSignal | None], Awaitable[bool] | bool]
PrepareNextTurn: TypeAlias = Callable[[AbortSignal | None], Awaitable[NextTurn | None] | NextTurn | None]
PrepareNextTurnWithContext: TypeAlias = Callable[
    [TurnContext, AbortSignal | None], Awaitable[NextTurn | None] | NextTurn | None
]
TransformContext: TypeAlias = Callable[[list[Message], AbortSignal | None], Awaitable[list[Message]] | list[Message]]
ConvertToLlm: TypeAlias = Callable[[list[Message]], Awaitable[list[Message]] | list[Message]]
GetApiKey: TypeAlias = Callable[[str], Awaitable[str | None] | str | None]
PollMessages: TypeAlias = Callable[[], Awaitable[list[Message] | None] | list[Message] | None]

QueueMode: TypeAlias = Literal["one-at-a-time", "all"]
ToolExecutionMode: TypeAlias = Literal["parallel", "sequential"]


# --- one run ------------------------------------------------------------------------------------------------

EmitEvent: TypeAlias = Callable[[AgentEvent], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class LoopConfig:
    """What one run of the low-level loop is given. Absent hooks are not asked.

    The two hooks after a turn get no signal here, as in Pi; `Agent` binds its own.
    """

    model: Model
    convert_to_llm: ConvertToLlm
    reasoning: ThinkingLevel | None = None
    api_key: str | None = None
    tool_execution: ToolExecutionMode = "parallel"
    before_tool_call: BeforeToolCall | None = None
    after_tool_call: AfterToolCall | None = None
    should_stop_after_turn: Callable[[TurnContext], Awaitable[bool] | bool] | None = None
    prepare_next_turn: Callable[[TurnContext], Awaitable[NextTurn | None] | NextTurn | None] | None = None
    transform_context: TransformContext | None = None
    get_api_key: GetApiKey | None = None
    get_steering_messages: PollMessages | None = None
    get_follow_up_messages: PollMessages | None = None
    in_flight: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    """Parallel tool executions under way. A failed run leaves some behind; nobody else cancels them."""


@dataclass(slots=True)
class Run:
    """What the phases of one run share. `config` and `context` may be replaced between turns."""

    context: AgentContext
    config: LoopConfig
    emit: EmitEvent
    signal: AbortSignal | None
    new_messages: list[Message]

    @property
    def aborted(self) -> bool:
        return self.signal is not None and self.signal.aborted
