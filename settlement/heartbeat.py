"""The heartbeat on the wire (docs/callbacks.md), and what its answer may ask for.

It informs; whether it arrives decides nothing. An answer that is not understood asks for nothing.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from settlement.wire import Count, Id, Time, WireModel, json_bytes, read

HeartbeatAction: TypeAlias = Literal["cancel", "pause"]


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


class HeartbeatAnswer(WireModel):
    """The JSON body of a 2xx, if there is one. Fields that are not known are ignored."""

    model_config = ConfigDict(extra="ignore")

    action: HeartbeatAction | None = None
    """`cancel`: end the run now, as SIGTERM does; `pause`: end it after the turn that is under way."""


def to_body(heartbeat: Heartbeat) -> bytes:
    return json_bytes(heartbeat.model_dump(mode="json"))


def asked_for(body: bytes) -> HeartbeatAction | None:
    """What the body of a 2xx asks for; None for anything else than a well-formed answer."""
    try:
        return read(HeartbeatAnswer, body).action
    except (ValidationError, RecursionError):
        return None
