"""What a browser gets at `/`."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Pipeline runner</title></head>
<body><h1>Pipeline runner</h1>
<p><a href="/api/sessions">Sessions</a> as JSON; <a href="/openapi.json">what else can be asked</a>.</p></body></html>
"""


async def index(_request: Request) -> Response:
    return HTMLResponse(INDEX)


def page_routes() -> list[Route]:
    return [Route("/", index, methods=["GET"])]
