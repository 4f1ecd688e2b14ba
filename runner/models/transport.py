"""Requests over httpx, loaded at the first one. Knows nothing of models; what goes wrong comes out as a
`Failure`."""

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner.models.failure import Failure, ModelCallFailed, connection_failure
from runner.models.protocol import HttpRequest
from runner.models.settings import Timeouts
from runner.models.watch import Interrupted, Watch

if TYPE_CHECKING:
    import httpx

_WRITE_S = 120.0
_MOST_ERROR_BYTES = 262_144


class HttpTransport:
    """One connection pool for all models of a process. Close it with `aclose`."""

    def __init__(self, new_client: "Callable[[], httpx.AsyncClient] | None" = None) -> None:
        self._new_client = new_client or _new_client
        self._client: httpx.AsyncClient | None = None
        self._making = threading.Lock()

    def preload(self) -> None:
        """Do now what the first request would wait for: loading httpx and the trust store. For a thread."""
        for name in ("anyio._backends._asyncio", "httpx_sse", "msgspec"):
            importlib.import_module(name)
        with contextlib.suppress(ModelCallFailed):  # the first request will say so
            self._ready_client()

    async def send(self, request: HttpRequest, content: bytes, timeouts: Timeouts, watch: Watch) -> "httpx.Response":
        """The answer's head; its body is still to be read. Raises httpx's errors, `Interrupted`, `ModelCallFailed`."""
        import httpx

        client = self._ready_client()
        limits = httpx.Timeout(timeouts.connect_s, read=None, write=_WRITE_S)
        prepared = client.build_request(
            "POST",
            request.url,
            headers=dict(request.headers),
            content=content,
            timeout=limits,
        )
        limit_s = timeouts.connect_s + timeouts.first_byte_s
        return await watch.wait(lambda: client.send(prepared, stream=True), limit_s)

    def _ready_client(self) -> "httpx.AsyncClient":
        """The one client, made by whoever comes first. Raises `ModelCallFailed`."""
        with self._making:
            if self._client is None:
                try:
                    self._client = self._new_client()
                except (OSError, ValueError, ImportError) as error:
                    why = f"No HTTP client can be made ({type(error).__name__}: {error})"
                    text = f"{why}: check SSL_CERT_FILE and the proxy variables"
                    raise ModelCallFailed(Failure("model_unavailable", text)) from error
            return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _new_client() -> "httpx.AsyncClient":
    import httpx

    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs whole URLs, and those may hold keys
    limits = httpx.Limits(max_connections=None, keepalive_expiry=60)
    return httpx.AsyncClient(limits=limits, follow_redirects=False, headers={"user-agent": "pipeline-runner"})


async def read_error_body(response: "httpx.Response", watch: Watch, limit_s: float) -> str:
    """The text of a refusal, as far as it is needed. A broken body is as good as none."""
    import httpx

    pieces: list[bytes] = []
    chunks = response.aiter_bytes()
    try:
        while sum(map(len, pieces)) < _MOST_ERROR_BYTES:
            pieces.append(await watch.wait(chunks.__anext__, limit_s))
    except (StopAsyncIteration, httpx.HTTPError):
        pass
    except Interrupted as why:
        if why.aborted:
            raise
    return b"".join(pieces).decode("utf-8", "replace")


def transport_failure(error: Exception, url: str) -> Failure:
    """By exception type. A wrong address and an untrusted certificate stay wrong; anything else may pass."""
    import httpx

    host = urlsplit(url).hostname or url.split("?", 1)[0]
    said = f"{host}: {type(error).__name__}{f': {error}' if str(error) else ''}"
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | httpx.LocalProtocolError):
        return Failure("model_invalid_request", f"The request could not be sent to {host}: {error}")
    if _is_untrusted(error):
        return Failure("model_unavailable", f"Not connected to {said}")
    return connection_failure(f"Connection error with {said}")


def _is_untrusted(error: BaseException | None) -> bool:
    import ssl

    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def silence_failure(why: Interrupted, url: str) -> Failure:
    host = urlsplit(url).hostname
    if why.total:
        return connection_failure(f"Request to {host} timed out: no end after {why.limit_s:g} s in all")
    return connection_failure(f"Request to {host} timed out: nothing came for {why.limit_s:g} s")


def wanted_delay_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """What `retry-after-ms`, else `retry-after` (seconds or an HTTP date) asks for; None without either."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None
