"""The agent: a transcript, two queues, listeners, and one run at a time.

It puts the loop into a life cycle: state follows the events before the listeners see them, a failure of the
loop is reported as a failure message, and whatever happens the agent ends up idle. It refuses a second run
while one is active. It knows nothing of sessions, questions or settlements.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import time
from typing import Any

from msgspec import Struct, field

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortController, AbortSignal
from runner.agent.calling import error_text, resolved
from runner.agent.conversion import IncrementalConversion, standard_messages
from runner.agent.errors import assistant_tail, busy_continuing, busy_prompting, no_messages, outside_run
from runner.agent.loop import run_agent_loop, run_agent_loop_continue
from runner.agent.queues import MessageQueue
from runner.agent.state import AgentState
from runner.agent.types import (
    AfterToolCall,
    AgentContext,
    AgentEnd,
    AgentEvent,
    AgentTool,
    BeforeToolCall,
    ConvertToLlm,
    GetApiKey,
    Listener,
    LoopConfig,
    MessageEnd,
    MessageStart,
    Model,
    NextTurn,
    PrepareNextTurn,
    PrepareNextTurnWithContext,
    QueueMode,
    ShouldStopAfterTurn,
    StreamFn,
    ThinkingLevel,
    ToolExecutionMode,
    TransformContext,
    TurnContext,
    TurnEnd,
)


class _ActiveRun(Struct):
    controller: AbortController = field(default_factory=AbortController)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Agent:
    """One agent. Options and hooks may be reassigned; a run reads them once, when it starts.

    `stream_fn` asks the model. Hooks may be plain or async functions; None is not asked:

    - `before_tool_call(context, signal)` may block a call; `after_tool_call(context, signal)` may override
      its result.
    - `should_stop_after_turn(turn, signal)`: true ends the run after a complete turn and leaves the queues
      as they are.
    - `prepare_next_turn(signal)` or, taking precedence, `prepare_next_turn_with_context(turn, signal)`:
      another context, model or thinking level for the rest of the run.
    - `transform_context(messages, signal)`, then `convert_to_llm(messages)`: what a request is sent.
    - `get_api_key(provider)` before each request.
    """

    def __init__(
        self,
        *,
        stream_fn: StreamFn,
        system_prompt: str = "",
        model: Model | None = None,
        thinking_level: ThinkingLevel = "off",
        messages: Iterable[Message] = (),
        tools: Iterable[AgentTool] = (),
        tool_execution: ToolExecutionMode = "parallel",
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        before_tool_call: BeforeToolCall | None = None,
        after_tool_call: AfterToolCall | None = None,
        should_stop_after_turn: ShouldStopAfterTurn | None = None,
        prepare_next_turn: PrepareNextTurn | None = None,
        prepare_next_turn_with_context: PrepareNextTurnWithContext | None = None,
        transform_context: TransformContext | None = None,
        convert_to_llm: ConvertToLlm | None = None,
        get_api_key: GetApiKey | None = None,
    ) -> None:
        self.stream_fn = stream_fn
        self.tool_execution: ToolExecutionMode = tool_execution
        self.before_tool_call = before_tool_call
        self.after_tool_call = after_tool_call
        self.should_stop_after_turn = should_stop_after_turn
        self.prepare_next_turn = prepare_next_turn
        self.prepare_next_turn_with_context = prepare_next_turn_with_context
        self.transform_context = transform_context
        self.convert_to_llm = convert_to_llm
        self.get_api_key = get_api_key
        self.state = AgentState(system_prompt, model, thinking_level, messages, tools)
        self.in_flight: set[asyncio.Task[Any]] = set()
        """Tool executions under way. Empty after a good run; a failed one may leave some, for the host to
        cancel.
        """
        self.failure: Exception | None = None
        """What ended the last run instead of its model: raised by a listener, a hook, the stream function."""
        self._steering = MessageQueue(steering_mode)
        self._follow_ups = MessageQueue(follow_up_mode)
        self._listeners: dict[Listener, None] = {}
        self._active: _ActiveRun | None = None

    # --- runs ---

    async def prompt(
        self, prompt: str | Message | Sequence[Message], images: Sequence[JsonObject] | None = None
    ) -> None:
        """Run with new messages: a text (and image blocks), one message, or a list of them.

        Returns when the run is over and its listeners are done, also when it failed: see
        `state.error_message` and the last message. Raises `AgentRefused` while a run is active, and what a
        listener raised if it kept even the failure message from being reported.
        """
        if self._active is not None:
            raise busy_prompting()
        await self._run_prompts(_prompt_messages(prompt, images))

    async def continue_(self) -> None:
        """A new run on the transcript as it is; nothing of an earlier run is resumed.

        After an assistant message only queued messages can go on: steering first, else follow-ups. Raises
        `AgentRefused` while a run is active, or if there is nothing to answer.
        """
        if self._active is not None:
            raise busy_continuing()
        if not self.state.messages:
            raise no_messages("No messages to continue from")
        if self.state.messages[-1].get("role") != "assistant":
            await self._run_continuation()
        elif steering := self._steering.drain():
            await self._run_prompts(steering, skip_first_poll=True)
        elif follow_ups := self._follow_ups.drain():
            await self._run_prompts(follow_ups)
        else:
            raise assistant_tail()

    def abort(self) -> None:
        """Ask the active run to stop. Cooperative: who does not look at the signal is not stopped."""
        if self._active is not None:
            self._active.controller.abort()

    async def wait_for_idle(self) -> None:
        """Return when no run is active, listeners of `agent_end` included."""
        if self._active is not None:
            await self._active.idle.wait()

    def reset(self) -> None:
        """Forget transcript, error and queues. Not refused during a run, which goes on with its own
        context.
        """
        self.state.messages = []
        self.state.error_message = None
        self.state.run_ended()
        self.clear_all_queues()

    @property
    def signal(self) -> AbortSignal | None:
        """The active run's."""
        return self._active.controller.signal if self._active is not None else None

    # --- listeners and queues ---

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event, signal)` called, and awaited, for every event. Returns the way to take it
        back.
        """
        self._listeners[listener] = None
        return lambda: self._listeners.pop(listener, None)

    def steer(self, message: Message) -> None:
        """Queue a message for the next turn of this run, or the first of the next."""
        self._steering.put(message)

    def follow_up(self, message: Message) -> None:
        """Queue a message for when the agent would otherwise end."""
        self._follow_ups.put(message)

    def has_queued_messages(self) -> bool:
        return bool(self._steering) or bool(self._follow_ups)

    @property
    def steering_queue(self) -> tuple[Message, ...]:
        return self._steering.messages

    @property
    def follow_up_queue(self) -> tuple[Message, ...]:
        return self._follow_ups.messages

    def clear_steering_queue(self) -> None:
        self._steering.clear()

    def clear_follow_up_queue(self) -> None:
        self._follow_ups.clear()

    def clear_all_queues(self) -> None:
        self._steering.clear()
        self._follow_ups.clear()

    @property
    def steering_mode(self) -> QueueMode:
        return self._steering.mode

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self._steering.mode = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        return self._follow_ups.mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self._follow_ups.mode = mode

    # --- inside a run ---

    async def _run_prompts(self, messages: list[Message], *, skip_first_poll: bool = False) -> None:
        context, config = self._context(), self._config(skip_first_poll=skip_first_poll)
        await self._run(lambda signal: run_agent_loop(messages, context, config, self._process, signal, self.stream_fn))

    async def _run_continuation(self) -> None:
        context, config = self._context(), self._config()
        await self._run(lambda signal: run_agent_loop_continue(context, config, self._process, signal, self.stream_fn))

    async def _run(self, loop: Callable[[AbortSignal], Awaitable[object]]) -> None:
        run = self._active = _ActiveRun()
        self.state.run_started()
        self.failure = None
        try:
            await loop(run.controller.signal)
        except Exception as error:  # noqa: BLE001 - a run's failure is a message, whatever failed
            self.failure = error
            await self._report_failure(error, aborted=run.controller.signal.aborted)
        finally:
            self.state.run_ended()
            self._active = None
            run.idle.set()

    async def _report_failure(self, error: Exception, *, aborted: bool) -> None:
        message = _failure_message(self.state.model, error_text(error), aborted=aborted)
        for event in (
            MessageStart(message),
            MessageEnd(message),
            TurnEnd(message, []),
            AgentEnd([message]),
        ):
            await self._process(event)

    async def _process(self, event: AgentEvent) -> None:
        self.state.apply(event)
        run = self._active
        if run is None:
            raise outside_run()
        for listener in tuple(self._listeners):
            if listener in self._listeners:
                answer = listener(event, run.controller.signal)
                if answer is not None:
                    await answer

    def _context(self) -> AgentContext:
        return AgentContext(self.state.system_prompt, list(self.state.messages), list(self.state.tools))

    def _config(self, *, skip_first_poll: bool = False) -> LoopConfig:
        skips = [None] if skip_first_poll else []

        def poll_steering() -> list[Message]:
            if skips:
                skips.clear()
                return []
            return self._steering.drain()

        level = self.state.thinking_level
        return LoopConfig(
            model=self.state.model,
            convert_to_llm=self.convert_to_llm or IncrementalConversion(standard_messages),
            reasoning=None if level == "off" else level,
            tool_execution=self.tool_execution,
            before_tool_call=self.before_tool_call,
            after_tool_call=self.after_tool_call,
            should_stop_after_turn=self._stop_hook(),
            prepare_next_turn=self._prepare_hook(),
            transform_context=self.transform_context,
            get_api_key=self.get_api_key,
            get_steering_messages=poll_steering,
            get_follow_up_messages=self._follow_ups.drain,
            in_flight=self.in_flight,
        )

    def _stop_hook(self) -> Callable[[TurnContext], Awaitable[bool] | bool] | None:
        hook = self.should_stop_after_turn
        return None if hook is None else lambda turn: hook(turn, self.signal)

    def _prepare_hook(self) -> Callable[[TurnContext], Awaitable[NextTurn | None]] | None:
        if self.prepare_next_turn is None and self.prepare_next_turn_with_context is None:
            return None

        async def prepare(turn: TurnContext) -> NextTurn | None:
            if self.prepare_next_turn_with_context is not None:
                return await resolved(self.prepare_next_turn_with_context(turn, self.signal))
            if self.prepare_next_turn is not None:
                return await resolved(self.prepare_next_turn(self.signal))
            return None

        return prepare


def _prompt_messages(prompt: str | Message | Sequence[Message], images: Sequence[JsonObject] | None) -> list[Message]:
    if isinstance(prompt, str):
        content = [{"type": "text", "text": prompt}, *(images or ())]
        return [{"role": "user", "content": content, "timestamp": _now_ms()}]
    if isinstance(prompt, dict):
        return [prompt]
    return list(prompt)


def _failure_message(model: Model, text: str, *, aborted: bool) -> Message:
    counters = ("input", "output", "cacheRead", "cacheWrite")
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": ""}],
        "api": model.api,
        "provider": model.provider,
        "model": model.id,
        "usage": {
            **dict.fromkeys((*counters, "totalTokens"), 0),
            "cost": dict.fromkeys((*counters, "total"), 0),
        },
        "stopReason": "aborted" if aborted else "error",
        "errorMessage": text,
        "timestamp": _now_ms(),
    }


def _now_ms() -> int:
    return int(time() * 1000)
