"""Which events a rule or a wait means, and how the trace names them."""

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.types import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from tests.conformance.loop.shapes import copied, digest, digests, recorded


def traits(event: AgentEvent) -> JsonObject:
    """What a matcher can ask about."""
    found: JsonObject = {"type": event.type}
    match event:
        case MessageStart() | MessageEnd() | TurnEnd():
            found |= _message_traits(event.message)
        case MessageUpdate():
            found |= _message_traits(event.message) | {"updateType": event.event.type}
        case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
            found |= {"toolCallId": event.tool_call_id, "toolName": event.tool_name}
        case AgentStart() | AgentEnd() | TurnStart():
            pass
    return found


def _message_traits(message: Message) -> JsonObject:
    return {key: message.get(key) for key in ("role", "toolCallId", "toolName", "stopReason")}


def matches(matcher: JsonObject, found: JsonObject) -> bool:
    return all(found.get(key) == value for key, value in matcher.items() if key != "nth")


def label(event: AgentEvent) -> str:
    match event:
        case MessageStart() | MessageEnd():
            tool_call = f" {event.message['toolCallId']}" if event.message["role"] == "toolResult" else ""
            return f"{event.type} {event.message['role']}{tool_call}"
        case MessageUpdate():
            return f"{event.type} {event.event.type}"
        case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
            return f"{event.type} {event.tool_call_id}"
        case AgentStart() | AgentEnd() | TurnStart() | TurnEnd():
            return event.type


def shown(event: AgentEvent) -> JsonObject:
    """The event as `expected.events` has it."""
    match event:
        case AgentStart() | TurnStart():
            return {"type": event.type}
        case AgentEnd():
            return {"type": event.type, "messages": digests(event.messages)}
        case TurnEnd():
            return {
                "type": event.type,
                "message": digest(event.message),
                "toolResults": digests(event.tool_results),
            }
        case MessageStart() | MessageEnd():
            return {"type": event.type, "message": recorded(event.message)}
        case MessageUpdate():
            return {"type": event.type, "update": _update(event), "content": copied(event.message["content"])}
        case ToolExecutionStart():
            return _call(event) | {"args": copied(event.args)}
        case ToolExecutionUpdate():
            return _call(event) | {
                "args": copied(event.args),
                "partialResult": recorded(event.partial_result),
            }
        case ToolExecutionEnd():
            return _call(event) | {"result": recorded(event.result), "isError": event.is_error}


def _call(event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> JsonObject:
    return {"type": event.type, "toolCallId": event.tool_call_id, "toolName": event.tool_name}


def _update(event: MessageUpdate) -> JsonObject:
    said = event.event
    optional = {"delta": said.delta, "content": said.content, "toolCall": said.tool_call}
    return {
        "type": said.type,
        "contentIndex": said.content_index,
        **{key: copied(value) for key, value in optional.items() if value is not None},
    }
