"""One try to bring a heartbeat to the server. There is no second: the next beat says more than this one again.

Refuses to follow redirects, to wait longer than it is told to, and to read more of an answer than one can hold.
"""

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from settlement.heartbeat import HeartbeatAction, asked_for
from settlement.signing import CallbackSecrets, webhook_headers

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 4096


class Taken(Struct, frozen=True):
    """2xx, and what the server asks for."""

    action: HeartbeatAction | None


class NotTaken(Struct, frozen=True):
    """`why`: a few words without addresses or secrets, such as `HTTP 503` or `could not connect`."""

    why: str


async def beat_once(
    client: "httpx.AsyncClient",
    url: str,
    webhook_id: str,
    body: bytes,
    secrets: CallbackSecrets,
    unix_time_s: float,
    timeout_s: float,
) -> Taken | NotTaken:
    """One signed POST; the whole of it, answer included, is bounded by `timeout_s`. Never raises for what the server
    does.
    """
    import httpx

    headers = webhook_headers(secrets, webhook_id, int(unix_time_s), body)
    try:
        async with asyncio.timeout(timeout_s):
            async with client.stream("POST", url, content=body, headers=headers) as response:
                if not response.is_success:
                    return NotTaken(f"HTTP {response.status_code}")
                return Taken(asked_for(await _answer(response)))
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError):
        return NotTaken("could not connect")
    except (TimeoutError, httpx.TimeoutException):
        return NotTaken(f"no answer within {timeout_s:.3g} s")
    except httpx.HTTPError as error:
        return NotTaken(f"the connection broke ({type(error).__name__})")


async def _answer(response: "httpx.Response") -> bytes:
    """The body, or nothing where it is too long to be an answer."""
    text = bytearray()
    async for piece in response.aiter_raw():
        text += piece
        if len(text) > MAX_ANSWER_BYTES:
            return b""
    return bytes(text)
