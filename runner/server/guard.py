"""Who may ask: the token of people, checks against other sites' pages, and the headers of every answer.

A pure ASGI layer before all routes. A browser shows the cookie that `GET /?token=…` sets, anybody else the header
`Authorization: Bearer …`. What a cookie allows to change needs the header `X-Runner` too, which no other site's page
can send, and an `Origin` that is ours. Paths below /v1/ are the runners': they are signed, and checked there.
"""

import ipaddress
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.server.answers import problem
from runner.server.page import PREFIX, sign_in_page
from runner.server.settings import Token

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS: Final = ("/openapi.json", "/healthz")
YEAR_S: Final = 365 * 86400
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    def __init__(self, app: ASGIApp, token: Token, cookie_name: str, *, loopback: bool) -> None:
        """`loopback`: the server is bound to this machine, so it is asked for by no other name."""
        self._app = app
        self._token = token
        self._cookie_name = cookie_name
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is answered instead of the route's own answer, if anything."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        if self._loopback and not _is_loopback_host(headers.get("host", "")):
            return problem(421, "other-host", "this server answers to a loopback address only")
        if path.startswith(("/v1/", PREFIX)) or path in OPEN_PATHS:
            return None
        browses = path == "/" and "text/html" in headers.get("accept", "")
        if path == "/" and method == "GET" and b"token=" in scope["query_string"]:
            return self._sign_in(scope["query_string"]) or (sign_in_page(wrong=True) if browses else _unauthorized())
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._token.fits(shown.strip()):
            return None
        if not self._token.cookie_fits(_cookie(headers.getlist("cookie"), self._cookie_name)):
            return sign_in_page(wrong=False) if browses else _unauthorized()
        if method not in SAFE_METHODS and not _same_origin(headers):
            return problem(403, "other-origin", "send the header X-Runner: 1, from a page of this server")
        return None

    def _sign_in(self, query: bytes) -> Response | None:
        shown = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        if not self._token.fits(shown):
            return None
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self._cookie_name, self._token.cookie, max_age=YEAR_S, path="/", httponly=True, samesite="strict"
        )
        return answer


def _unauthorized() -> Response:
    answer = problem(
        401, "unauthorized", "send `Authorization: Bearer <token>`, or open /?token=<token> once in a browser"
    )
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def _cookie(headers: list[str], name: str) -> str:
    for header in headers:
        try:
            found = SimpleCookie(header).get(name)
        except CookieError:
            continue
        if found is not None:
            return found.value
    return ""


def _same_origin(headers: Headers) -> bool:
    if "x-runner" not in headers or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _is_loopback_host(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
