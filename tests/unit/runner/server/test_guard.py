"""Who is let in, what other sites' pages cannot do, and what is never shown."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.server.settings import Token
from settlement.callback import to_body
from settlement.signing import webhook_headers
from tests.unit.runner.server.application import BEARER, TOKEN, a_service, client_of
from tests.unit.settlement.samples import SECRETS, a_terminal

COOKIE = {"cookie": f"runner_8080={Token(TOKEN).cookie}"}
PAGE = {**COOKIE, "x-runner": "1", "origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}
NEW = {"message": "Deploy."}


def asked(path: Path, method: str, url: str, **request: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        with a_service(path) as service:
            async with client_of(service) as client:
                return await client.request(method, url, **request)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong-token-wrong-token"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer "},
        {"cookie": f"runner_8080={TOKEN}"},
        {"cookie": f"runner_9999={Token(TOKEN).cookie}"},
        {"cookie": "runner_8080="},
    ],
)
@pytest.mark.parametrize("url", ["/api/sessions", "/", "/api/sessions/s1/events", "/nowhere"])
def test_without_the_token_nothing_is_shown(tmp_path: Path, url: str, headers: dict[str, str]) -> None:
    refused = asked(tmp_path, "GET", url, headers=headers)
    assert (refused.status_code, refused.json()["title"]) == (401, "unauthorized")


@pytest.mark.parametrize("headers", [BEARER, COOKIE], ids=["header", "cookie"])
def test_the_token_or_the_cookie_lets_one_in(tmp_path: Path, headers: dict[str, str]) -> None:
    assert asked(tmp_path, "GET", "/api/sessions", headers=headers).json() == {"sessions": []}


def test_the_link_sets_a_cookie_that_scripts_and_other_sites_do_not_get(tmp_path: Path) -> None:
    answer = asked(tmp_path, "GET", f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert asked(tmp_path, "GET", "/?token=wrong-token").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        COOKIE,
        {**PAGE, "origin": "http://evil.example"},
        {**PAGE, "origin": "null"},
        {**PAGE, "sec-fetch-site": "cross-site"},
        {name: value for name, value in PAGE.items() if name != "x-runner"},
    ],
)
def test_a_cookie_alone_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    refused = asked(tmp_path, "POST", "/api/sessions", headers=headers, json=NEW)
    assert (refused.status_code, refused.json()["title"]) == (403, "other-origin")


@pytest.mark.parametrize("headers", [PAGE, BEARER], ids=["the page", "a program"])
def test_the_page_and_programs_change_things(tmp_path: Path, headers: dict[str, str]) -> None:
    assert asked(tmp_path, "POST", "/api/sessions", headers=headers, json=NEW).status_code == 201


def test_another_name_for_this_machine_is_refused(tmp_path: Path) -> None:
    refused = asked(tmp_path, "GET", "/api/sessions", headers={**BEARER, "host": "evil.example"})
    assert refused.status_code == 421


@pytest.mark.parametrize("url", ["/", "/api/sessions", "/openapi.json", "/nowhere", "/v1/terminals"])
def test_every_answer_has_the_security_headers(tmp_path: Path, url: str) -> None:
    headers = asked(tmp_path, "GET", url, headers=BEARER).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/v1/questions", "/v1/terminals", "/v1/heartbeats"])
def test_what_runners_send_is_taken_with_their_signature_only(tmp_path: Path, path: str) -> None:
    body = to_body(a_terminal())
    good = webhook_headers(SECRETS, "term_p1", int(time.time()), body)
    old = webhook_headers(SECRETS, "term_p1", int(time.time()) - 1000, body)
    assert asked(tmp_path, "POST", path, headers=BEARER, content=body).status_code == 401
    assert asked(tmp_path, "POST", path, headers=old, content=body).status_code == 401
    assert asked(tmp_path, "POST", path, headers=good, content=body + b" ").status_code == 401
    assert asked(tmp_path, "POST", "/v1/terminals", headers=good, content=body).status_code == 404


def test_a_body_without_end_is_not_read(tmp_path: Path) -> None:
    long = b"x" * (600 * 1024)
    assert asked(tmp_path, "POST", "/v1/terminals", content=long).status_code == 413
    assert asked(tmp_path, "POST", "/api/sessions", headers=BEARER, content=long).status_code == 413


def test_a_token_shows_itself_in_no_repr() -> None:
    assert TOKEN not in repr(Token(TOKEN))
