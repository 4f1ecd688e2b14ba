"""The web application: the endpoints' table and the page, behind the guard. Knows no process and opens no port."""

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runner.server import people_api, runners_api
from runner.server.answers import problem
from runner.server.endpoints import Endpoint, openapi
from runner.server.errors import DatabaseFailed
from runner.server.guard import Guard
from runner.server.page import page_routes
from runner.server.service import Service, service_of
from runner.version import VERSION
from settlement.wire import json_bytes

ENDPOINTS = (*runners_api.ENDPOINTS, *people_api.ENDPOINTS)


def build_app(service: Service, *, port: int, loopback: bool) -> ASGIApp:
    """The whole application. `port` makes the cookie's name, as browsers do not tell ports of one host apart."""
    app = Starlette(
        routes=[
            *(_route(endpoint) for endpoint in ENDPOINTS),
            Route("/openapi.json", _openapi, methods=["GET"]),
            Route("/healthz", _health, methods=["GET"]),
            *page_routes(),
        ],
        exception_handlers={HTTPException: _http_problem, DatabaseFailed: _busy, Exception: _defect},
    )
    app.state.service = service
    return Guard(app, service.token, f"runner_{port}", loopback=loopback)


def openapi_document() -> dict[str, Any]:
    return openapi(ENDPOINTS, VERSION)


def _route(endpoint: Endpoint) -> Route:
    return Route(endpoint.path, endpoint.handler, methods=[endpoint.method])


async def _openapi(_request: Request) -> Response:
    return Response(json_bytes(openapi_document()), media_type="application/json")


async def _health(_request: Request) -> Response:
    return Response(status_code=204)


async def _http_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for these"
    found = problem(error.status_code, error.detail.lower().replace(" ", "-"), error.detail)
    found.headers.update(error.headers or {})
    return found


async def _busy(request: Request, error: Exception) -> Response:
    service_of(request).log.error("database_failed", error=str(error))
    found = problem(503, "database", "the server could not store this; try again")
    found.headers["retry-after"] = "1"
    return found


async def _defect(request: Request, error: Exception) -> Response:
    service_of(request).log.error("defect", path=request.url.path, error=f"{type(error).__name__}: {error}")
    return problem(500, "internal", "a defect of the server; its log says more")
