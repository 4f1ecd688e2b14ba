"""JSON Schemas of the contracts, made from the models that are used; `docs/schemas/` holds the same texts."""

import json
from collections.abc import Callable
from typing import Any


def _spec() -> dict[str, Any]:
    from runner.spec import Spec

    return Spec.model_json_schema()


def _question() -> dict[str, Any]:
    from settlement.question import Question

    return Question.model_json_schema(mode="serialization")


def _callback() -> dict[str, Any]:
    from settlement.callback import Terminal

    return Terminal.model_json_schema(mode="serialization")


def _heartbeat() -> dict[str, Any]:
    from settlement.heartbeat import Heartbeat

    return Heartbeat.model_json_schema(mode="serialization")


def _heartbeat_answer() -> dict[str, Any]:
    from settlement.heartbeat import HeartbeatAnswer

    return HeartbeatAnswer.model_json_schema()


def _head() -> dict[str, Any]:
    import msgspec

    from checkpoint.head import HeadFields

    return msgspec.json.schema(HeadFields)


def _manifest() -> dict[str, Any]:
    import msgspec

    from checkpoint.manifest import Manifest

    return msgspec.json.schema(Manifest)


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "spec": _spec,
    "question": _question,
    "callback": _callback,
    "heartbeat": _heartbeat,
    "heartbeat_answer": _heartbeat_answer,
    "head": _head,
    "manifest": _manifest,
}


def schema_text(name: str) -> str:
    """The schema as indented JSON with sorted keys, ending in a line feed."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMAS[name]()}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
