"""The endpoints that people, their page and their chats use: sessions, transcript, events, replies, cancel."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from checkpoint.errors import CheckpointError
from runner.server.answers import answer, model_of, problem
from runner.server.endpoints import Endpoint, Parameter
from runner.server.live import Cursor, cursor_now, follow, live_messages, parse_cursor
from runner.server.models import (
    MessageBody,
    NewSession,
    Outcome,
    ReplyBody,
    SessionList,
    SessionView,
    TaskCreated,
    TaskStanding,
    Transcript,
)
from runner.server.people import Denied, NewTask, cancel_task, start_task, take_message, take_reply
from runner.server.rows import Rows
from runner.server.service import service_of
from runner.server.views import session_list, session_view
from settlement.commit_rule import Reply, RestorePoint
from settlement.routing import from_api

DEFAULT_LIMIT, MAX_LIMIT = 200, 1000
STORE_S = 60.0
RECONNECT_MS = 1000
"""After which a browser whose stream broke asks again."""


def _denied(found: Denied) -> Response:
    return problem(found.status, found.reason, found.detail)


def _no_session(session_id: str) -> Response:
    return problem(404, "unknown-session", f"there is no session {session_id}")


async def list_sessions(request: Request) -> Response:
    limit = _number(request, "limit", DEFAULT_LIMIT)
    if isinstance(limit, Response):
        return limit
    return answer(await service_of(request).database.read(lambda rows: session_list(rows, limit or DEFAULT_LIMIT)))


async def new_session(request: Request) -> Response:
    asked = await model_of(request, NewSession)
    if isinstance(asked, Response):
        return asked
    service, moment = service_of(request), service_of(request).moment()
    new_task = NewTask(asked.session_id or f"s-{secrets.token_hex(6)}", f"t-{secrets.token_hex(8)}")
    found = await service.database.write(
        lambda rows: start_task(rows, asked.message, new_task, asked.stream_id, asked.owner, moment)
    )
    if isinstance(found, Denied):
        return _denied(found)
    service.log.info("task_queued", session_id=found.session_id, task_id=found.task_id)
    return answer(TaskCreated(session_id=found.session_id, task_id=found.task_id), 201)


async def one_session(request: Request) -> Response:
    session_id = request.path_params["session_id"]

    def read(rows: Rows) -> SessionView | None:
        return session_view(rows, session_id, str(cursor_now(rows, session_id)))

    found = await service_of(request).database.read(read)
    return _no_session(session_id) if found is None else answer(found)


async def transcript(request: Request) -> Response:
    service, session_id = service_of(request), request.path_params["session_id"]
    limit, before = _number(request, "limit", DEFAULT_LIMIT), _number(request, "before", None)
    if isinstance(limit, Response) or isinstance(before, Response):
        return limit if isinstance(limit, Response) else before if isinstance(before, Response) else Response()

    def read(rows: Rows) -> tuple[RestorePoint | None, Cursor] | None:
        session = rows.session(session_id)
        return None if session is None else (session.restore_point, cursor_now(rows, session_id))

    found = await service.database.read(read)
    if found is None:
        return _no_session(session_id)
    point, cursor = found
    entries_of = asyncio.to_thread(service.transcripts.entries, point, before, min(limit or DEFAULT_LIMIT, MAX_LIMIT))
    try:
        entries, first, total = await asyncio.wait_for(entries_of, STORE_S)
    except (CheckpointError, TimeoutError) as error:
        service.log.warning("transcript_unreadable", session_id=session_id, error=str(error))
        return problem(503, "unreadable", "the checkpoint cannot be read now; the server's log says why")
    live, cursor = await asyncio.to_thread(live_messages, service.folder, cursor)
    return answer(Transcript(entries=entries, first=first, total=total, live=live, cursor=str(cursor)))


async def events(request: Request) -> Response:
    service, session_id = service_of(request), request.path_params["session_id"]
    shown = request.headers.get("last-event-id") or request.query_params.get("after")
    given = None if shown is None else parse_cursor(shown)
    if shown is not None and given is None:
        return problem(422, "invalid", "after: not a cursor of this server")

    def read(rows: Rows) -> Cursor | None:
        return None if rows.session(session_id) is None else given or cursor_now(rows, session_id)

    cursor = await service.database.read(read)
    if cursor is None:
        return _no_session(session_id)

    async def stream() -> AsyncIterator[str]:
        yield f"retry: {RECONNECT_MS}\n: {session_id}\n\n"
        async for event in follow(service.database, service.changes, service.folder, session_id, cursor):
            if event is None:
                yield ": still here\n\n"
            else:
                place, kind, data = event
                yield f"id: {place}\nevent: {kind}\ndata: {data}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def reply(request: Request) -> Response:
    asked = await model_of(request, ReplyBody)
    if isinstance(asked, Response):
        return asked
    service, moment = service_of(request), service_of(request).moment()
    given = Reply(asked.reply_id, request.path_params["question_id"], asked.message)
    return _outcome(request, await service.database.write(lambda rows: take_reply(rows, given, moment)), strict=True)


async def message(request: Request) -> Response:
    asked = await model_of(request, MessageBody)
    if isinstance(asked, Response):
        return asked
    service, moment = service_of(request), service_of(request).moment()
    said = from_api(asked.stream_id, asked.platform, asked.user, asked.text, asked.question_id, asked.quote)
    reply_id = asked.reply_id or f"m-{secrets.token_hex(12)}"
    found = await service.database.write(lambda rows: take_message(rows, said, reply_id, moment))
    return _outcome(request, found, strict=False)


def _outcome(request: Request, found: dict[str, Any] | Denied, *, strict: bool) -> Response:
    """`strict`: whoever named a question is told that nothing comes of the answer; a chat message may be for others."""
    if isinstance(found, Denied):
        return _denied(found)
    outcome = Outcome.model_validate(found)
    service_of(request).log.info("reply", **outcome.model_dump())
    if strict and outcome.outcome == "not_taken":
        return problem(409, outcome.reason or "not_taken", "this question takes no answer any more")
    return answer(outcome)


async def cancel(request: Request) -> Response:
    service, task_id = service_of(request), request.path_params["task_id"]
    moment = service.moment()
    found = await service.database.write(lambda rows: cancel_task(rows, task_id, moment))
    if isinstance(found, Denied):
        return _denied(found)
    service.log.info("task_cancelled", task_id=task_id)
    return answer(TaskStanding(task_id=found.task_id, state=found.state.value))


def _number(request: Request, name: str, default: int | None) -> int | Response | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        return problem(422, "invalid", f"{name}: must be a whole number")
    return int(text)


def _path(name: str) -> Parameter:
    return Parameter(name, "path", {"type": "string", "minLength": 1}, "")


def _count(name: str, meaning: str) -> Parameter:
    return Parameter(name, "query", {"type": "integer", "minimum": 0, "maximum": 999_999_999}, meaning)


_BODY: Final = (401, 403, 413, 422, 503)
_CURSOR: Final = (
    Parameter("after", "query", {"type": "string"}, "A `cursor`; default: what is still to come"),
    Parameter("last-event-id", "header", {"type": "string"}, "The same, as browsers send it; goes before `after`"),
)


def _endpoint(
    method: Any,
    path: str,
    summary: str,
    handler: Any,
    problems: tuple[int, ...],
    answered: type[BaseModel] | None,
    **more: Any,
) -> Endpoint:
    return Endpoint(
        method, path, summary, handler, "token", tuple(sorted({401, 503, *problems})), answer=answered, **more
    )


_SESSION = "/api/sessions/{session_id}"
ENDPOINTS: Final = (
    _endpoint(
        "GET",
        "/api/sessions",
        "The sessions, youngest first",
        list_sessions,
        (422,),
        SessionList,
        parameters=(_count("limit", "How many"),),
    ),
    _endpoint(
        "POST", "/api/sessions", "Start a task", new_session, (409, *_BODY), TaskCreated, body=NewSession, status=201
    ),
    _endpoint(
        "GET",
        _SESSION,
        "A session: tasks, pipelines, questions",
        one_session,
        (404,),
        SessionView,
        parameters=(_path("session_id"),),
    ),
    _endpoint(
        "GET",
        f"{_SESSION}/transcript",
        "What was said in a session",
        transcript,
        (404, 422),
        Transcript,
        parameters=(
            _path("session_id"),
            _count("limit", f"How many entries, at most {MAX_LIMIT}"),
            _count("before", "Entries before this one; default: the last ones"),
        ),
    ),
    _endpoint(
        "GET",
        f"{_SESSION}/events",
        "What happens in a session, as server-sent events",
        events,
        (404, 422),
        None,
        media="text/event-stream",
        parameters=(_path("session_id"), *_CURSOR),
    ),
    _endpoint(
        "POST",
        "/api/questions/{question_id}/reply",
        "Answer a question",
        reply,
        (404, 409, *_BODY),
        Outcome,
        body=ReplyBody,
        parameters=(_path("question_id"),),
    ),
    _endpoint(
        "POST",
        "/api/messages",
        "A chat message, for whichever task waits for it",
        message,
        _BODY,
        Outcome,
        body=MessageBody,
    ),
    _endpoint(
        "POST",
        "/api/tasks/{task_id}/cancel",
        "Cancel a task",
        cancel,
        (403, 404, 409),
        TaskStanding,
        parameters=(_path("task_id"),),
    ),
)
