"""The endpoints that runners call: questions, terminal records, heartbeats. Each is verified, decided and durable
before it is answered (docs/callbacks.md).
"""

import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from runner.server.answers import TooLarge, answer, body_of, refused
from runner.server.endpoints import Endpoint
from runner.server.service import service_of
from runner.server.taking import take_heartbeat, take_question, take_terminal
from settlement.callback import Terminal
from settlement.heartbeat import Heartbeat, HeartbeatAnswer
from settlement.question import Question, for_log
from settlement.receiving import (
    MAX_RECEIVED_BYTES,
    Problem,
    receive_heartbeat,
    receive_question,
    receive_terminal,
)

REFUSALS: Final = (400, 401, 403, 404, 409, 413, 422, 503)
_TOO_LARGE = Problem("too-large", f"more than {MAX_RECEIVED_BYTES} bytes")


async def _body(request: Request) -> bytes | Problem:
    try:
        return await body_of(request, MAX_RECEIVED_BYTES)
    except TooLarge:
        return _TOO_LARGE


async def question(request: Request) -> Response:
    service, body = service_of(request), await _body(request)
    if isinstance(body, Problem):
        return refused(body)
    received = receive_question(service.signing, request.headers, body, time.time())
    if isinstance(received, Problem):
        return _noted(request, received)
    moment = service.moment()
    found = await service.database.write(lambda rows: take_question(rows, received, body.decode(), moment))
    asked = received.question
    service.log.info(
        "question",
        pipeline_id=asked.pipeline_id,
        question_id=asked.question_id,
        question=for_log(asked.question),
        refused=found and found.reason,
    )
    return Response(status_code=204) if found is None else refused(found)


async def terminal(request: Request) -> Response:
    service, body = service_of(request), await _body(request)
    if isinstance(body, Problem):
        return refused(body)
    received = receive_terminal(service.signing, request.headers, body, time.time())
    if isinstance(received, Problem):
        return _noted(request, received)
    moment = service.moment()
    found = await service.database.write(lambda rows: take_terminal(rows, received, body.decode(), moment))
    service.log.info(
        "terminal",
        pipeline_id=received.terminal.pipeline_id,
        attempt=received.terminal.attempt,
        settlement=received.terminal.settlement.kind,
        refused=found and found.reason,
    )
    return Response(status_code=204) if found is None else refused(found)


async def heartbeat(request: Request) -> Response:
    service, body = service_of(request), await _body(request)
    if isinstance(body, Problem):
        return refused(body)
    received = receive_heartbeat(service.signing, request.headers, body, time.time())
    if isinstance(received, Problem):
        return _noted(request, received)
    moment = service.moment()
    found = await service.database.write(lambda rows: take_heartbeat(rows, received, moment))
    if isinstance(found, Problem):
        return refused(found)
    return answer(found)


def _noted(request: Request, found: Problem) -> Response:
    service_of(request).log.warning("request_refused", path=request.url.path, reason=found.reason, detail=found.detail)
    return refused(found)


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/questions",
        "A pipeline asks a person",
        question,
        "signature",
        REFUSALS,
        body=Question,
        status=204,
    ),
    Endpoint(
        "POST",
        "/v1/terminals",
        "A pipeline has settled",
        terminal,
        "signature",
        REFUSALS,
        body=Terminal,
        status=204,
    ),
    Endpoint(
        "POST",
        "/v1/heartbeats",
        "A pipeline is alive",
        heartbeat,
        "signature",
        REFUSALS,
        body=Heartbeat,
        answer=HeartbeatAnswer,
    ),
)
