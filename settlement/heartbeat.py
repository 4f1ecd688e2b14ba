"""The heartbeat on the wire (docs/callbacks.md). It informs; whether it arrives decides nothing."""

from typing import Annotated, Literal

from pydantic import Field

from settlement.wire import Count, Id, Time, WireModel


class HeartbeatUsage(WireModel):
    total_tokens: Count = 0
    cost_usd: Annotated[float, Field(ge=0)] = 0.0
    requests: Count = 0


class Heartbeat(WireModel):
    """`POST heartbeat_path`, signed like a callback."""

    version: Literal[1] = 1
    type: Literal["heartbeat"] = "heartbeat"
    pipeline_id: Id
    attempt: Annotated[int, Field(ge=1)]
    session_id: Id
    phase: Literal["claim", "restore", "agent", "freeze", "upload", "commit", "callback"]
    turn: Count
    usage: HeartbeatUsage
    sent_at: Time
