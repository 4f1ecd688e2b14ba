"""Agent events as JSON objects, for `--events`.

Names and shapes are those of Pi's JSON mode, with one change that keeps the lines short: a `message_update`
says only what was added. Who wants the message so far adds up the deltas; who wants the whole waits for
`message_end`.
"""

from checkpoint.jsontypes import JsonObject
from runner.agent.types import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)


def event_to_json(event: AgentEvent) -> JsonObject:
    """The event as one JSON object. Shares messages and results with it: write it before they change."""
    match event:
        case AgentStart() | TurnStart():
            return {"type": event.type}
        case AgentEnd():
            return {"type": event.type, "messages": event.messages}
        case TurnEnd():
            return {"type": event.type, "message": event.message, "toolResults": event.tool_results}
        case MessageStart() | MessageEnd():
            return {"type": event.type, "message": event.message}
        case MessageUpdate():
            return {"type": event.type, "assistantMessageEvent": _added(event.event)}
        case ToolExecutionStart():
            return {**_call(event), "args": event.args}
        case ToolExecutionUpdate():
            return {**_call(event), "args": event.args, "partialResult": event.partial_result}
        case ToolExecutionEnd():
            return {**_call(event), "result": event.result, "isError": event.is_error}


def _call(event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> JsonObject:
    return {"type": event.type, "toolCallId": event.tool_call_id, "toolName": event.tool_name}


def _added(event: StreamEvent) -> JsonObject:
    optional = {
        "contentIndex": event.content_index,
        "delta": event.delta,
        "content": event.content,
        "toolCall": event.tool_call,
    }
    return {"type": event.type, **{key: value for key, value in optional.items() if value is not None}}
