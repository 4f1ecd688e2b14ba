"""The web page: the files below static/, as they are, and the form to sign in.

There is no build step and no template: all that is shown comes from the API, as text. The files hold nothing of any
session, so that they may be read before somebody has signed in. Refuses every name that is not one of theirs.
"""

from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

PREFIX: Final = "/page/"
WRONG: Final = '<p class="problem" role="alert">This is not the token of this server.</p>'
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent / "static"


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def sign_in_page(*, wrong: bool) -> Response:
    """For a browser that has not shown the token, or a wrong one."""
    page = _read("sign-in.html")
    return HTMLResponse(page.replace("<!-- wrong -->", WRONG if wrong else ""), 401)


def page_routes() -> list[Route]:
    async def index(_request: Request) -> Response:
        return HTMLResponse(_read("index.html"))

    return [Route("/", index, methods=["GET"]), *map(_file, sorted(_FOLDER.iterdir()))]


def _file(path: Path) -> Route:
    async def file(_request: Request) -> Response:
        return Response(_read(path.name), media_type=_TYPES.get(path.suffix, "text/html"))

    return Route(f"{PREFIX}{path.name}", file, methods=["GET"])
