"""Keeps what was sent to models and what came back, for finding out later (`--record DIR`). Secrets are
left out.

`DIR/0001.request.json`, `DIR/0001.response.json` (status, headers) and `DIR/0001.response.sse` (the body)
tell of one request; `DIR/script.json` is the whole run as a script that the scripted model plays again.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from checkpoint.jsontypes import JsonObject, Message
from runner.models.json_text import clean
from runner.models.protocol import HttpRequest
from runner.models.secrets_out import REMOVED, is_secret_header, secret_values, without_secrets
from runner.models.settings import ModelSettings
from runner.models.shapes import an_object

T = TypeVar("T")
_SECRET_ANSWER_HEADERS = frozenset(("set-cookie", "authorization", "proxy-authenticate", "www-authenticate"))


class Recorder:
    """Writes into `directory`, which is made if it is missing. One per agent: requests are numbered as they begin.

    A recording is an aid: when the disk is full it stops, tells `on_stop` why, and the run goes on.
    """

    def __init__(self, directory: Path, on_stop: Callable[[str], object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._on_stop = on_stop
        self._stopped = False
        self._count = 0
        self._script: list[JsonObject] = []

    def begin(self, model: ModelSettings) -> "Recording":
        del model  # its name is in the request's body and in the message
        self._count += 1
        self._script.append(_cut_off())
        return Recording(self, self._count)

    def keep(self, write: Callable[[], T]) -> T | None:
        """Do one piece of writing; None if it, or an earlier one, failed."""
        if self._stopped:
            return None
        try:
            return write()
        except OSError as error:
            self._stopped = True
            self._on_stop(f"{self._directory}: {error.strerror or error}")
            return None

    def write(self, number: int, kind: str, content: JsonObject) -> None:
        text = json.dumps(clean(content), ensure_ascii=False, indent=1) + "\n"
        self.keep(lambda: self.path(number, f"{kind}.json").write_text(text, encoding="utf-8"))

    def path(self, number: int, suffix: str) -> Path:
        return self._directory / f"{number:04d}.{suffix}"

    def set_script(self, number: int, response: JsonObject) -> None:
        """Write the script anew, so that it is whole whenever the run stops."""
        self._script[number - 1] = response
        text = json.dumps({"responses": self._script}, ensure_ascii=False, indent=1) + "\n"
        part = self._directory / "script.json.part"
        self.keep(lambda: part.write_text(text, encoding="utf-8"))
        self.keep(lambda: part.replace(self._directory / "script.json"))


class Recording:
    """One request and its answer. Close it: what came last is still to be written."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number
        self._secrets: list[str] = []
        self._body: BinaryIO | None = None
        self._rest = b""

    def sent(self, request: HttpRequest) -> None:
        self._secrets = secret_values(request.headers)
        headers = {name: REMOVED if is_secret_header(name) else value for name, value in request.headers.items()}
        address = request.url.partition("?")[0]
        if "@" in address:
            scheme, _, rest = address.partition("://")
            address = f"{scheme}://{rest.rpartition('@')[2]}"
        body = json.loads(self._safe(json.dumps(clean(request.body), ensure_ascii=False)))
        self._recorder.write(self._number, "request", {"url": address, "headers": headers, "body": body})

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Also called for the answers that were repeated; the last one stays."""
        kept = {
            name: REMOVED if name.lower() in _SECRET_ANSWER_HEADERS else self._safe(value)
            for name, value in headers.items()
        }
        self._recorder.write(self._number, "response", {"status": status, "headers": kept})

    def refused(self, body: str) -> None:
        """The body of an answer that is no stream."""
        self._open_body()
        self._rest = body.encode()

    async def copied(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks; a copy goes to disk, line by line, so that no secret slips through between two chunks."""
        self._open_body()
        async for chunk in chunks:
            lines, end, self._rest = (self._rest + chunk).rpartition(b"\n")
            self._write(lines + end)
            yield chunk

    def close(self) -> None:
        self._write(self._rest)
        if self._body is not None:
            self._recorder.keep(self._body.close)
        self._body, self._rest = None, b""

    def finished(self, message: Message) -> None:
        safe = json.loads(self._safe(json.dumps(clean(message), ensure_ascii=False)))
        self._recorder.set_script(self._number, scripted_response(safe))

    def _open_body(self) -> None:
        path = self._recorder.path(self._number, "response.sse")
        self._body = self._recorder.keep(lambda: path.open("wb", buffering=0))

    def _write(self, data: bytes) -> None:
        for secret in self._secrets:
            data = data.replace(secret.encode(), REMOVED.encode())
        body = self._body
        if body is not None and data:
            self._recorder.keep(lambda: body.write(data))

    def _safe(self, text: str) -> str:
        return without_secrets(text, self._secrets)


def scripted_response(message: Message) -> JsonObject:
    """A message as the scripted model's language says it; what that has no word for (signatures) is left
    out."""
    content = [_scripted_block(block) for block in message["content"]]
    response: JsonObject = {"content": content, "stopReason": message["stopReason"]}
    if message.get("errorMessage") is not None:
        response["errorMessage"] = message["errorMessage"]
    usage = an_object(message.get("usage"))
    counts = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
    response["usage"] = {name: usage.get(name) or 0 for name in counts}
    response["usage"]["cost"] = an_object(usage.get("cost")).get("total") or 0
    return response


def _scripted_block(block: JsonObject) -> JsonObject:
    kind = block["type"]
    if kind == "toolCall":
        return {"type": kind, "id": block["id"], "name": block["name"], "arguments": block["arguments"]}
    return {"type": kind, kind: block[kind]}


def _cut_off() -> JsonObject:
    text = "the recording ends before this answer was complete"
    return {"content": [], "stopReason": "error", "errorMessage": text}
