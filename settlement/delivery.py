"""Brings a signed body to the server: tries, waits and gives up as `verdict.py` says.

Every try carries the same bytes and the same webhook-id, so that a server can tell a repetition from a second
event; only the time and the signature are new. Refuses to follow redirects (the signature was made for one
address), to wait longer than the budget, and to read answers without a bound. Never logs: `on_try` tells.
"""

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from settlement.errors import AddressInvalid
from settlement.signing import CallbackSecrets, webhook_headers
from settlement.verdict import (
    Answer,
    Delivered,
    FinalVerdict,
    GaveUp,
    NoAnswer,
    Retry,
    Verdict,
    may_be_taken,
    verdict,
)

if TYPE_CHECKING:
    import httpx

TRY_S = 15.0
MAX_ANSWER_BYTES = 64 * 1024
MAX_HEADER_CHARS = 128
"""What a server says goes into logs, so it is kept short."""
_PROBLEM_TYPE = re.compile("[!-~]{1,512}")
"""A URI reference; it is shown to people, so neither blanks nor control characters."""


class Surroundings(Struct, frozen=True):
    """Everything that `deliver` takes from outside besides the network."""

    monotonic: Callable[[], float] = time.monotonic
    unix_time: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.SystemRandom().random


REAL_WORLD = Surroundings()


class Try(Struct, frozen=True):
    """One finished try, for logs: nothing in here is secret."""

    number: int
    answer: Answer | NoAnswer
    verdict: Verdict


class Delivery(Struct, frozen=True):
    verdict: FinalVerdict
    tries: int
    may_have_arrived: bool
    """The server may hold it although no answer said so. Always True for Delivered."""


async def deliver(
    url: str,
    webhook_id: str,
    body: bytes,
    secrets: CallbackSecrets,
    *,
    budget_s: float,
    on_try: Callable[[Try], None] | None = None,
    go_on: Callable[[], bool] | None = None,
    traceparent: str | None = None,
    transport: "httpx.AsyncBaseTransport | None" = None,
    around: Surroundings = REAL_WORLD,
) -> Delivery:
    """POST `body` until there is a final verdict; takes `budget_s` at most, each try 15 s at most.

    `traceparent` (W3C Trace Context) goes along as a header, outside the signature.
    `go_on` is asked before every further try: False ends it as GaveUp, without cutting the try under way.
    Raises AddressInvalid for a URL that nothing can be sent to; never for what the server does. May be
    cancelled at any time.
    """
    began_s = around.monotonic()
    last: Answer | NoAnswer | None = None
    number, may_have_arrived = 0, False
    async with new_client(url, transport) as client:
        if traceparent is not None:
            client.headers["traceparent"] = traceparent
        while (left_s := budget_s - (around.monotonic() - began_s)) > 0:
            if number > 0 and go_on is not None and not go_on():
                break
            number += 1
            last = await post_once(client, url, webhook_id, body, secrets, around.unix_time(), min(TRY_S, left_s))
            may_have_arrived = may_have_arrived or may_be_taken(last)
            decided = verdict(
                last,
                tries=number,
                elapsed_s=around.monotonic() - began_s,
                budget_s=budget_s,
                chance=around.chance(),
                now_s=around.unix_time(),
            )
            if on_try is not None:
                on_try(Try(number, last, decided))
            if not isinstance(decided, Retry):
                return Delivery(decided, number, may_have_arrived or isinstance(decided, Delivered))
            await around.sleep(decided.delay_s)
    return Delivery(GaveUp(last), number, may_have_arrived)


def check_address(url: str) -> None:
    """Raises AddressInvalid unless `url` is absolute, http or https, without a user or a fragment."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        usable = usable and parts.username is None and not parts.fragment
    if not usable or re.search(r"[\x00-\x20\x7f]", url):
        raise AddressInvalid("the address must be http:// or https:// with a host, without a user or fragment")


def new_client(url: str, transport: "httpx.AsyncBaseTransport | None" = None) -> "httpx.AsyncClient":
    """A client for `post_once`. The environment's proxy is used, except for this machine's own addresses.

    Raises AddressInvalid, as `check_address` does.
    """
    import httpx

    check_address(url)
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise AddressInvalid(f"not an address: {error}") from error
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    # Plain HTTP needs no certificates, and reading them takes 30 ms: an empty set trusts nobody.
    verify = True if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Answers come uncompressed, so that the bound on their size is one.
    headers = {"accept-encoding": "identity", "user-agent": "pipeline-runner"}
    return httpx.AsyncClient(
        transport=transport,
        verify=verify,
        headers=headers,
        follow_redirects=False,
        timeout=TRY_S,
        trust_env=not local,
    )


async def post_once(
    client: "httpx.AsyncClient",
    url: str,
    webhook_id: str,
    body: bytes,
    secrets: CallbackSecrets,
    unix_time_s: float,
    timeout_s: float,
) -> Answer | NoAnswer:
    """One signed try. The whole of it, answer included, is bounded by `timeout_s`."""
    import httpx

    headers = webhook_headers(secrets, webhook_id, int(unix_time_s), body)
    try:
        async with asyncio.timeout(timeout_s):
            async with client.stream("POST", url, content=body, headers=headers) as response:
                return Answer(
                    status=response.status_code,
                    problem_type=await _problem_type(response) if response.status_code == 409 else None,
                    retry_after=response.headers.get("retry-after", "")[:MAX_HEADER_CHARS] or None,
                )
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError):
        return NoAnswer("could not connect", may_have_arrived=False)
    except (TimeoutError, httpx.TimeoutException):
        return NoAnswer(f"no answer within {timeout_s:.3g} s", may_have_arrived=True)
    except httpx.HTTPError as error:
        return NoAnswer(f"the connection broke ({type(error).__name__})", may_have_arrived=True)


async def _problem_type(response: "httpx.Response") -> str | None:
    """`type` of the problem document; None if there is none or one of them is too long to be true.

    A body that breaks off raises: what a 409 means is not guessed, the try is made again.
    """
    text = bytearray()
    async for piece in response.aiter_raw():
        text += piece
        if len(text) > MAX_ANSWER_BYTES:
            return None
    try:
        document: Any = json.loads(bytes(text))
    except (ValueError, RecursionError):
        return None
    found = cast("dict[str, Any]", document).get("type") if isinstance(document, dict) else None
    return found if isinstance(found, str) and _PROBLEM_TYPE.fullmatch(found) else None
