"""The table of endpoints: routes and OpenAPI are both made of it, so that neither can say what the other does not."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Parameter(Struct, frozen=True):
    name: str
    where: Literal["path", "query", "header"]
    schema: dict[str, Any]
    meaning: str


class Endpoint(Struct, frozen=True):
    """`body` and `answer` are the models of the JSON; `problems` the statuses that refuse."""

    method: Literal["GET", "POST"]
    path: str
    summary: str
    handler: Handler
    proof: Literal["token", "signature", "none"]
    problems: tuple[int, ...]
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    status: int = 200
    media: str = "application/json"
    parameters: tuple[Parameter, ...] = ()


SIGNED: Final = tuple(
    Parameter(name, "header", {"type": "string"}, meaning)
    for name, meaning in (
        ("webhook-id", "What the body is about; the same for each try"),
        ("webhook-timestamp", "Unix seconds"),
        ("webhook-signature", "v1,<base64 of HMAC-SHA256 over id.timestamp.body>"),
    )
)


def openapi(endpoints: tuple[Endpoint, ...], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the endpoints."""
    from pydantic.json_schema import models_json_schema

    from runner.server.models import ProblemBody

    asked = {endpoint.body for endpoint in endpoints if endpoint.body is not None}
    answered = {endpoint.answer for endpoint in endpoints if endpoint.answer is not None} | {ProblemBody}
    wanted: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = [
        *((model, "validation") for model in sorted(asked, key=lambda model: model.__name__)),
        *((model, "serialization") for model in sorted(answered, key=lambda model: model.__name__)),
    ]
    references, definitions = models_json_schema(wanted, ref_template="#/components/schemas/{model}")
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, references)
    schemes = {
        "token": {"type": "http", "scheme": "bearer", "description": "The server's token file has it."},
        "signature": {
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "Standard Webhooks, symmetric: docs/callbacks.md",
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "pipeline-runner server", "version": version},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": schemes},
    }


def _operation(endpoint: Endpoint, references: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": endpoint.summary, "responses": _responses(endpoint, references)}
    if endpoint.proof != "none":
        operation["security"] = [{endpoint.proof: []}]
    parameters = (*endpoint.parameters, *(SIGNED if endpoint.proof == "signature" else ()))
    if parameters:
        operation["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.where,
                "required": parameter.where == "path",
                "schema": parameter.schema,
                "description": parameter.meaning,
            }
            for parameter in parameters
        ]
    if endpoint.body is not None:
        schema = references[(endpoint.body, "validation")]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _responses(endpoint: Endpoint, references: Any) -> dict[str, Any]:
    from http import HTTPStatus

    from runner.server.models import ProblemBody

    content: dict[str, Any] = {}
    if endpoint.answer is not None:
        content = {"content": {endpoint.media: {"schema": references[(endpoint.answer, "serialization")]}}}
    elif endpoint.media != "application/json":
        content = {"content": {endpoint.media: {"schema": {"type": "string"}}}}
    responses: dict[str, Any] = {str(endpoint.status): {"description": HTTPStatus(endpoint.status).phrase, **content}}
    refusal = {"content": {"application/problem+json": {"schema": references[(ProblemBody, "serialization")]}}}
    for status in endpoint.problems:
        responses[str(status)] = {"description": HTTPStatus(status).phrase, **refusal}
    return responses
