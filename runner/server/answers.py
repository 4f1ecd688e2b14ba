"""HTTP answers: JSON of a model, a problem (RFC 9457); and bodies of requests, read up to a bound."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from settlement.receiving import Problem
from settlement.wire import json_bytes

PROBLEM = "application/problem+json"
MAX_BODY = 512 * 1024
AnyModel = TypeVar("AnyModel", bound=BaseModel)


class TooLarge(Exception):
    """The body of a request is longer than any may be."""


def answer(model: BaseModel, status: int = 200) -> Response:
    return Response(json_bytes(model.model_dump(mode="json")), status, media_type="application/json")


def problem(status: int, reason: str, detail: str) -> Response:
    body = {"type": f"urn:pipeline-runner:problem:{reason}", "title": reason, "status": status, "detail": detail}
    return Response(json_bytes(body), status, media_type=PROBLEM)


def refused(found: Problem) -> Response:
    return Response(found.to_body(), found.status, media_type=PROBLEM)


async def body_of(request: Request, limit: int = MAX_BODY) -> bytes:
    """The raw body. Raises TooLarge without reading on."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise TooLarge
    return bytes(body)


async def model_of(request: Request, model: type[AnyModel]) -> AnyModel | Response:
    """The body as a model, or the answer that says what is wrong with it."""
    try:
        return model.model_validate_json(await body_of(request))
    except TooLarge:
        return problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
    except ValidationError as error:
        places = [
            f"{'.'.join(str(part) for part in found['loc']) or 'body'}: {found['msg']}"
            for found in error.errors(include_url=False, include_context=False, include_input=False)[:5]
        ]
        return problem(422, "invalid", "; ".join(places))
