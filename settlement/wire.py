"""What the wire models of questions and callbacks share: scalar types, strictness, and one way to bytes.

Refuses unknown fields when a model is built here. Reading is lenient (`read`): a newer sender may say more
than this version knows, and that must not stop a server from committing.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Id: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
QuestionId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^ask_[0-9a-f]{32}$")]
Time: TypeAlias = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""RFC 3339, UTC, milliseconds."""
Count: TypeAlias = Annotated[int, Field(ge=0)]


class WireModel(BaseModel):
    """Its schema is `model_json_schema(mode="serialization")`: what we send, every field there."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        json_schema_serialization_defaults_required=True,
    )


AnyWireModel = TypeVar("AnyWireModel", bound=WireModel)


def read(model: type[AnyWireModel], body: bytes) -> AnyWireModel:
    """Parse JSON. Unknown fields are ignored; anything else that is off raises pydantic's ValidationError."""
    return model.model_validate_json(body, extra="ignore")


def json_bytes(value: Any) -> bytes:
    """UTF-8 JSON without spaces, keys in their given order: the same value gives the same bytes.

    Text must be clean (`checkpoint.text`): a lone surrogate raises ValueError, as NaN does.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def time_text(moment: datetime) -> str:
    """An aware datetime as RFC 3339 UTC with milliseconds (cut, not rounded)."""
    if moment.tzinfo is None:
        raise ValueError("a time on the wire needs a time zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
