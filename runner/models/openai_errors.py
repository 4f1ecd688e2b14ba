"""Error answers of servers that speak OpenAI's protocols, as a sentence and as a `Failure`."""

import json
from typing import Any

from runner.models.completions_stream import with_raw
from runner.models.failure import Failure, http_failure
from runner.models.json_text import js_json
from runner.models.shapes import is_object

_MOST_CHARS = 4000


def error_text(status: int, body: str) -> tuple[str, bool]:
    """`(text, True)` for an error object with a message (the text is its JSON), else `(status and text,
    False)`."""
    if not body:
        return f"{status} status code (no body)", False
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        return f"{status} {_cut(body)}", False
    error = parsed.get("error") if is_object(parsed) else None
    error = parsed if error is None else error
    if is_object(error) and error.get("message"):
        return with_raw(_cut(js_json(error)), error), True
    return f"{status} {_cut(js_json(error))}", False


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    return f"{text[:_MOST_CHARS]}... [truncated {len(text) - _MOST_CHARS} chars]"


def openai_failure(status: int, text: str, body: str, provider: str) -> Failure:
    return http_failure(status, text, body=body, provider=provider)
