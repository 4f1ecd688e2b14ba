"""The loop's `StreamFn` for real models: picks the wire protocol, fills in what every request of this run
has.

Protocols are imported at the first request that needs them, so that a run on a scripted model pays for
none.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from checkpoint.jsontypes import Message
from runner.agent.types import AssistantStream, LlmContext, Model, StreamOptions
from runner.models.settings import CallOptions, ModelSettings

if TYPE_CHECKING:
    from runner.models.answer import Answer, Surroundings
    from runner.models.failure import Failure
    from runner.models.protocol import WireProtocol
    from runner.models.recorder import Recorder

APIS = ("anthropic-messages", "openai-completions", "openai-responses")


def wire_protocol(api: str) -> "WireProtocol":
    """The protocol of that name. Raises `LookupError` for a name that is none of `APIS`."""
    if api == "anthropic-messages":
        from runner.models.anthropic_messages import AnthropicMessages

        return AnthropicMessages()
    if api == "openai-completions":
        from runner.models.openai_completions import OpenAICompletions

        return OpenAICompletions()
    if api == "openai-responses":
        from runner.models.openai_responses import OpenAIResponses

        return OpenAIResponses()
    raise LookupError(f"no such model api: {api}; use one of {', '.join(APIS)}")


class ModelCalls:
    """Callable as a `StreamFn`. One per agent; the surroundings may be shared.

    `keys` maps a provider to its API key; a key in the call's own options wins. `options` holds for every
    request.
    """

    def __init__(
        self,
        surroundings: "Surroundings",
        *,
        options: CallOptions | None = None,
        keys: Mapping[str, str] | None = None,
        recorder: "Recorder | None" = None,
    ) -> None:
        self._surroundings = surroundings
        self._options = options or CallOptions()
        self._keys = dict(keys or {})
        self._recorder = recorder
        self._last: Answer | None = None

    @property
    def last_failure(self) -> "Failure | None":
        """Why the latest answer failed, once its last event is out; None if it did not."""
        return self._last.failure if self._last is not None else None

    def failure_of(self, message: Message) -> "Failure | None":
        """What a failed message means: as its adapter knew it, or by its text for one that was restored."""
        from runner.models.failure import failure_of_message

        last = self._last
        if last is not None and last.failure is not None and last.is_about(message):
            return last.failure
        return failure_of_message(message)

    def __call__(self, model: Model, context: LlmContext, options: StreamOptions) -> AssistantStream:
        """An answer under way. Raises `TypeError` for a model that is no `ModelSettings`, which is a
        defect."""
        from runner.models.answer import Answer
        from runner.models.protocol import Conversation
        from runner.models.tools import declarations

        if not isinstance(model, ModelSettings):
            raise TypeError(f"a real model needs ModelSettings, not {type(model).__name__}")
        call = replace(
            self._options,
            api_key=options.api_key or self._options.api_key or self._keys.get(model.provider),
            reasoning=options.reasoning,
            cache_retention=model.cache_retention,
        )
        talk = Conversation(context.system_prompt or "", context.messages, declarations(context.tools))
        recording = self._recorder.begin(model) if self._recorder is not None else None
        answer = Answer(wire_protocol(model.api), model, talk, call, options.signal, self._surroundings, recording)
        self._last = answer
        return answer
