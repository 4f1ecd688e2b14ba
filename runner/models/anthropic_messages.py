"""The `anthropic-messages` protocol: Anthropic itself and servers that speak like it."""

import json

from checkpoint.jsontypes import JsonObject
from runner.models import anthropic_request
from runner.models.anthropic_stream import AnthropicReader
from runner.models.failure import Failure, http_failure
from runner.models.json_text import js_json
from runner.models.protocol import AnswerReader, Conversation, HttpRequest
from runner.models.settings import CallOptions, ModelSettings


class AnthropicMessages:
    name = "anthropic-messages"
    flags = anthropic_request.FLAGS

    def request(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
        return anthropic_request.build(model, talk, options)

    def reader(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> AnswerReader:
        del talk, options
        return AnthropicReader(model)

    def error(self, model: ModelSettings, status: int, body: str) -> Failure:
        text = f"{status} {_compact(body)}" if body else f"{status} status code (no body)"
        return http_failure(status, text, provider=model.provider)


def _compact(body: str) -> str:
    try:
        parsed: JsonObject = json.loads(body)
    except ValueError:
        return body
    return js_json(parsed)
