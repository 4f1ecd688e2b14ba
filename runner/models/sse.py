"""Server-sent events out of a byte stream. The framing is httpx-sse's; here is what it leaves to its
caller.

UTF-8 whatever the headers say, a byte-order mark dropped, broken bytes replaced; a last event without its
blank line is still an event; an answer of another content type is read all the same, since servers mislabel
their streams.
"""

import codecs
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, cast

from runner.models.watch import Watch

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

_HEADERS = {"content-type": "text/event-stream"}


class _Body:
    """The two things httpx-sse asks of a response: its content type, and its text."""

    headers = _HEADERS

    def __init__(self, chunks: AsyncIterator[bytes], watch: Watch, limit_s: Callable[[], float]) -> None:
        self._chunks = chunks
        self._watch = watch
        self._limit_s = limit_s

    async def aiter_text(self) -> AsyncIterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        advance = self._chunks.__anext__
        wait, limit_s = self._watch.wait, self._limit_s
        while True:
            try:
                chunk = await wait(advance, limit_s())
            except StopAsyncIteration:
                break
            text = decoder.decode(chunk)
            if text:
                yield text
        yield decoder.decode(b"", final=True) + "\n\n"


def events(
    chunks: AsyncIterator[bytes], watch: Watch, limit_s: Callable[[], float]
) -> "AsyncGenerator[ServerSentEvent, None]":
    """The stream's events. `limit_s()` is how long the next piece may take; raises what `Watch.wait`
    raises."""
    from httpx_sse import EventSource

    body = cast("httpx.Response", cast(Any, _Body(chunks, watch, limit_s)))
    return EventSource(body).aiter_sse()
