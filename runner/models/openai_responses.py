"""The `openai-responses` protocol: OpenAI's Responses and servers that speak like it."""

from runner.models import responses_request
from runner.models.failure import Failure
from runner.models.openai_errors import error_text, openai_failure
from runner.models.protocol import AnswerReader, Conversation, HttpRequest
from runner.models.responses_stream import ResponsesReader
from runner.models.settings import CallOptions, ModelSettings


class OpenAIResponses:
    name = "openai-responses"
    flags = responses_request.FLAGS

    def request(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
        return responses_request.build(model, talk, options)

    def reader(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> AnswerReader:
        return ResponsesReader(model, responses_request.grammar_tools(model, talk), options.service_tier)

    def error(self, model: ModelSettings, status: int, body: str) -> Failure:
        service = "OpenAI" if model.provider == "openai" else model.provider
        text, _ = error_text(status, body)
        return openai_failure(status, f"{service} API error ({status}): {text}", body, model.provider)
