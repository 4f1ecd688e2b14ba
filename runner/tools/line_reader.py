"""Lines of a stream that may be longer than the stream's own limit, and never longer than ours."""

import asyncio

_READ_BYTES = 64 * 1024


class LineTooLong(Exception):
    """The line has not ended within the limit; the stream cannot be read on."""


class LineReader:
    def __init__(self, stream: asyncio.StreamReader, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0

    async def next(self) -> bytes | None:
        """The next line without its line end; None at the end. An unfinished last line is none."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if len(self._buffer) > self._max_bytes:
                raise LineTooLong
            data = await self._stream.read(_READ_BYTES)
            if not data:
                return None
            self._buffer += data
