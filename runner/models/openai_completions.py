"""The `openai-completions` protocol: OpenAI's Chat Completions and every server that speaks like it."""

from runner.models import completions_request
from runner.models.completions_compat import FLAGS
from runner.models.completions_stream import CompletionsReader
from runner.models.failure import Failure
from runner.models.openai_errors import error_text, openai_failure
from runner.models.protocol import AnswerReader, Conversation, HttpRequest
from runner.models.settings import CallOptions, ModelSettings


class OpenAICompletions:
    name = "openai-completions"
    flags = FLAGS

    def request(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
        return completions_request.build(model, talk, options)

    def reader(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> AnswerReader:
        del talk, options
        return CompletionsReader(model)

    def error(self, model: ModelSettings, status: int, body: str) -> Failure:
        text, is_object = error_text(status, body)
        return openai_failure(status, f"{status}: {text}" if is_object else text, body, model.provider)
