"""The heartbeat on the wire (docs/callbacks.md). It informs; whether it arrives decides nothing."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class HeartbeatUsage(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    total_tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0


class Heartbeat(BaseModel):
    """`POST heartbeat_path`, signed like a callback."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    type: Literal["heartbeat"] = "heartbeat"
    pipeline_id: str
    attempt: int
    session_id: str
    phase: Literal["claim", "restore", "agent", "freeze", "upload", "commit", "callback"]
    turn: int
    usage: HeartbeatUsage
    sent_at: str
    """RFC 3339 UTC with milliseconds."""
