"""What the agent loop, the models, the tools and the hooks pass to each other.

Messages and tool results are plain JSON objects in Pi's shape, so that nothing is lost on the way to the
session log; everything else is a small dataclass. Source of the shapes: Pi 0.83.0's agent core,
`docs/agent.md`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from msgspec import Struct, field

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


class ModelName(Struct, frozen=True):
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


class AgentTool(Struct, frozen=True, eq=False, weakref=True):
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


class LlmContext(Struct):
    system_prompt: str
    messages: list[Message]
    tools: Sequence[AgentTool] | None = None


class StreamOptions(Struct):
    signal: AbortSignal | None = None
    reasoning: ThinkingLevel | None = None
    """None when thinking is off."""
    api_key: str | None = None


class StreamEvent(Struct):
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


class AgentStart(Struct, frozen=True):
    type: Literal["agent_start"] = "agent_start"


class AgentEnd(Struct, frozen=True):
    messages: list[Message]
    type: Literal["agent_end"] = "agent_end"


class TurnStart(Struct, frozen=True):
    type: Literal["turn_start"] = "turn_start"


class TurnEnd(Struct, frozen=True):
    message: Message
    tool_results: list[Message]
    type: Literal["turn_end"] = "turn_end"


class MessageStart(Struct, frozen=True):
    message: Message
    type: Literal["message_start"] = "message_start"


class MessageUpdate(Struct):
    """Not frozen: one is made per streamed delta, and a frozen one costs three times as much."""

    message: Message
    event: StreamEvent
    type: Literal["message_update"] = "message_update"


class MessageEnd(Struct, frozen=True):
    message: Message
    type: Literal["message_end"] = "message_end"


class ToolExecutionStart(Struct, frozen=True):
    tool_call_id: str
    tool_name: str
    args: Any
    type: Literal["tool_execution_start"] = "tool_execution_start"


class ToolExecutionUpdate(Struct, frozen=True):
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: ToolResult
    type: Literal["tool_execution_update"] = "tool_execution_update"


class ToolExecutionEnd(Struct, frozen=True):
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


class AgentContext(Struct):
    """The running loop's own context."""

    system_prompt: str
    messages: list[Message]
    tools: Sequence[AgentTool] | None = None


class BeforeToolCallContext(Struct, frozen=True):
    assistant_message: Message
    tool_call: JsonObject
    args: JsonObject
    """The validated copy; changes in place reach the tool and are not validated again."""
    context: AgentContext


class BeforeToolCallResult(Struct, frozen=True):
    block: bool = False
    reason: str | None = None


class AfterToolCallContext(Struct, frozen=True):
    assistant_message: Message
    tool_call: JsonObject
    args: JsonObject
    result: ToolResult
    is_error: bool
    context: AgentContext


class AfterToolCallResult(Struct, frozen=True):
    """Overrides; None keeps the tool's own value."""

    content: list[JsonObject] | None = None
    details: Any = None
    is_error: bool | None = None
    terminate: bool | None = None
    usage: JsonObject | None = None


class TurnContext(Struct, frozen=True):
    """What `should_stop_after_turn` and `prepare_next_turn_with_context` see of a finished turn."""

    message: Message
    tool_results: list[Message]
    context: AgentContext
    new_messages: list[Message]


class NextTurn(Struct, frozen=True):
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


class LoopConfig(Struct):
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


class Run(Struct):
    """What the phases of one run share. `config` and `context` may be replaced between turns."""

    context: AgentContext
    config: LoopConfig
    emit: EmitEvent
    signal: AbortSignal | None
    new_messages: list[Message]

    @property
    def aborted(self) -> bool:
        return self.signal is not None and self.signal.aborted
