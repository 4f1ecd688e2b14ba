"""Plays one scenario from its first operation to its last, and gives what was recorded."""

import asyncio
from collections.abc import Iterator
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortController, AbortSignal
from runner.agent.agent import Agent
from runner.agent.loop import run_agent_loop, run_agent_loop_continue
from runner.agent.types import AgentContext, AgentEvent, Listener, LoopConfig, PollMessages
from tests.conformance.loop.actions import Stage
from tests.conformance.loop.hooks import ScriptedHooks
from tests.conformance.loop.matching import label, matches, traits
from tests.conformance.loop.model import ScriptedModel
from tests.conformance.loop.recorder import Recorder, tick
from tests.conformance.loop.shapes import (
    DEFAULT_MODEL,
    ScriptedFailure,
    digest,
    digests,
    message,
    messages,
    model,
    recorded,
)
from tests.conformance.loop.tools import scripted_tool

SILENT_OPS = frozenset({"steer", "followUp", "abort", "tick", "do", "awaitEvent"})


async def play(scenario: JsonObject, jitter_seed: int | None = None) -> JsonObject:
    """What happened, in the shape of a scenario's `expected`."""
    return await _Driver(scenario, jitter_seed).play()


class _Driver:
    def __init__(self, scenario: JsonObject, jitter_seed: int | None) -> None:
        self._scenario = scenario
        self._recorder = Recorder(jitter_seed)
        self._stage = Stage(self._recorder)
        self._stage.tools = {spec["name"]: scripted_tool(self._stage, spec) for spec in scenario.get("tools", [])}
        self._model = ScriptedModel(self._stage, scenario["model"]["responses"])
        self._hooks = ScriptedHooks(self._stage, scenario.get("hooks", {}))
        self._left_running: dict[int, asyncio.Task[JsonObject]] = {}
        self._executions: set[asyncio.Task[Any]] = set()
        self._matched: dict[int, int] = {}
        if scenario["level"] == "agent":
            self._set_up_agent(scenario.get("agent", {}))

    # --- set-up ---

    def _set_up_agent(self, options: JsonObject) -> None:
        hooks, installed = self._hooks, self._hooks.installed
        given = options.get("model", DEFAULT_MODEL)
        agent = Agent(
            stream_fn=self._model.stream,
            system_prompt=options.get("systemPrompt", ""),
            model=None if given is None else model(given),
            thinking_level=options.get("thinkingLevel", "off"),
            messages=messages(options.get("messages")),
            tools=self._stage.tools_named(options.get("tools")),
            tool_execution=options.get("toolExecution", "parallel"),
            steering_mode=options.get("steeringMode", "one-at-a-time"),
            follow_up_mode=options.get("followUpMode", "one-at-a-time"),
            before_tool_call=hooks.before_tool_call if installed("beforeToolCall") else None,
            after_tool_call=hooks.after_tool_call if installed("afterToolCall") else None,
            should_stop_after_turn=hooks.should_stop_after_turn if installed("shouldStopAfterTurn") else None,
            prepare_next_turn=hooks.prepare_next_turn if installed("prepareNextTurn") else None,
            prepare_next_turn_with_context=(
                hooks.prepare_next_turn_with_context if installed("prepareNextTurnWithContext") else None
            ),
            transform_context=hooks.transform_context if installed("transformContext") else None,
            convert_to_llm=hooks.convert_to_llm if installed("convertToLlm") else None,
            get_api_key=hooks.get_api_key if installed("getApiKey") else None,
        )
        hooks.base_prompt = options.get("systemPrompt", "")
        hooks.base_tools = lambda: list(agent.state.tools)
        self._stage.agent = agent
        self._executions = agent.in_flight
        agent.subscribe(lambda event, _signal: self._listen(event))
        for name in self._scenario.get("listeners", []):
            agent.subscribe(self._extra_listener(name))

    # --- listeners ---

    def _extra_listener(self, name: str) -> Listener:
        async def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
            self._recorder.trace.append(f"{name} {label(event)}")
            await self._follow(self._due(name, traits(event)))

        return listen

    async def _listen(self, event: AgentEvent) -> None:
        await self._follow(self._due(None, self._recorder.event(event)))

    def _due(self, listener: str | None, found: JsonObject) -> list[JsonObject]:
        due: list[JsonObject] = []
        for index, rule in enumerate(self._scenario.get("rules", [])):
            if rule.get("listener") == listener and matches(rule["on"], found):
                self._matched[index] = self._matched.get(index, 0) + 1
                if rule.get("nth", self._matched[index]) == self._matched[index]:
                    due.append(rule)
        return due

    async def _follow(self, rules: list[JsonObject]) -> None:
        try:
            for rule in rules:
                await self._stage.perform(rule.get("do"))
                if "throw" in rule:
                    raise ScriptedFailure(rule["throw"])
        finally:
            await self._recorder.jitter()

    # --- operations ---

    async def play(self) -> JsonObject:
        try:
            for index, op in enumerate(self._scenario["ops"]):
                await self._start(index, op)
            await tick(2)
            return self._recording()
        finally:
            await self._clean_up()

    async def _start(self, index: int, op: JsonObject) -> None:
        if op["op"] == "join":
            target = op["target"]
            self._record_outcome(target, await self._left_running[target])
        elif op.get("await", True):
            self._record_outcome(index, await self._outcome(index, op))
            self._recorder.op_settled(index).set()
        else:
            task = asyncio.create_task(self._outcome(index, op))
            task.add_done_callback(lambda _task: self._recorder.op_settled(index).set())
            self._left_running[index] = task
            await tick()

    async def _outcome(self, index: int, op: JsonObject) -> JsonObject:
        try:
            found = await self._play_op(index, op)
        except Exception as error:  # noqa: BLE001 - an operation's failure is its outcome
            return {"name": op["op"], "status": "rejected", "error": str(error)}
        return {"name": op["op"], "status": "resolved", **found}

    def _record_outcome(self, index: int, outcome: JsonObject) -> None:
        if outcome["name"] in SILENT_OPS:
            if outcome["status"] == "rejected":
                raise ValueError(f"op {index} {outcome['name']}: {outcome['error']}")
            return
        agent = self._stage.agent
        if agent is not None:
            now = {"errorMessage": agent.state.error_message, "hasQueued": agent.has_queued_messages()}
            outcome = {**outcome, **now}
        self._recorder.outcomes.append({"op": index, **outcome})
        self._recorder.trace.append(f"op {index} {outcome['name']} {outcome['status']}")

    async def _play_op(self, index: int, op: JsonObject) -> JsonObject:
        match op["op"]:
            case "prompt":
                await self._prompt(op)
            case "continue":
                await self._stage.the_agent.continue_()
            case "steer":
                self._stage.steer(message(op.get("message", op.get("text"))))
            case "followUp":
                self._stage.follow_up(message(op.get("message", op.get("text"))))
            case "abort":
                self._stage.abort()
            case "reset":
                self._stage.the_agent.reset()
            case "waitIdle":
                await self._stage.the_agent.wait_for_idle()
                state = self._stage.the_agent.state
                last = self._recorder.trace[-1] if self._recorder.trace else None
                return {"at": {"last": last, "isStreaming": state.is_streaming}}
            case "awaitEvent":
                await self._recorder.wait_event(op["event"])
            case "tick":
                await tick(op.get("n", 1))
            case "do":
                await self._stage.perform(op["actions"])
            case "runAgentLoop" | "runAgentLoopContinue":
                return await self._run_low_level(index, op)
            case unknown:
                raise ValueError(f"unknown operation {unknown}")
        return {}

    async def _prompt(self, op: JsonObject) -> None:
        agent = self._stage.the_agent
        if "text" in op:
            await agent.prompt(op["text"], op.get("images"))
        elif "message" in op:
            await agent.prompt(message(op["message"]))
        else:
            await agent.prompt(messages(op["messages"]))

    # --- level low ---

    async def _run_low_level(self, index: int, op: JsonObject) -> JsonObject:
        given: JsonObject = op.get("context", {})
        tools = None
        if "tools" not in given or given["tools"] is not None:
            tools = self._stage.tools_named(given.get("tools"))
        context = AgentContext(given.get("systemPrompt", ""), messages(given.get("messages")), tools)
        self._hooks.base_prompt, self._hooks.base_tools = context.system_prompt, lambda: tools
        config = self._low_config(op)
        controller = self._stage.low.controller = AbortController()
        if op.get("signal") == "aborted":
            controller.abort()
        signal = None if "signal" in op and op["signal"] is None else controller.signal
        emit, stream = self._listen, self._model.stream
        try:
            if op["op"] == "runAgentLoop":
                prompts = messages(op.get("prompts"))
                made = await run_agent_loop(prompts, context, config, emit, signal, stream)
            else:
                made = await run_agent_loop_continue(context, config, emit, signal, stream)
        finally:
            after = [recorded(said) for said in context.messages]
            self._recorder.contexts.append({"op": index, "messages": after})
        return {"messages": [recorded(said) for said in made]}

    def _low_config(self, op: JsonObject) -> LoopConfig:
        hooks, installed = self._hooks, self._hooks.installed
        low = self._stage.low
        config = LoopConfig(
            model=model(op.get("model", DEFAULT_MODEL)),
            convert_to_llm=hooks.convert_to_llm,
            reasoning=op.get("reasoning"),
            api_key=op.get("apiKey"),
            tool_execution=op.get("toolExecution", "parallel"),
            before_tool_call=hooks.before_tool_call if installed("beforeToolCall") else None,
            after_tool_call=hooks.after_tool_call if installed("afterToolCall") else None,
            transform_context=hooks.transform_context if installed("transformContext") else None,
            get_api_key=hooks.get_api_key if installed("getApiKey") else None,
            in_flight=self._executions,
        )
        if installed("shouldStopAfterTurn"):
            config.should_stop_after_turn = lambda turn: hooks.should_stop_after_turn(turn, None)
        if installed("prepareNextTurn"):
            config.prepare_next_turn = hooks.prepare_next_turn_low
        if "steering" in op:
            config.get_steering_messages = self._poll("getSteeringMessages", op["steering"], low.steering)
        if "followUps" in op:
            config.get_follow_up_messages = self._poll("getFollowUpMessages", op["followUps"], low.follow_ups)
        return config

    def _poll(self, name: str, scripted: list[Any], queue: list[Message]) -> PollMessages:
        left: Iterator[Any] = iter(scripted)
        exhausted: list[Any] = []

        async def poll() -> list[Message] | None:
            given = next(left, exhausted)
            found = None if given is None and not queue else [*messages(given), *queue]
            queue.clear()
            self._recorder.hook(name, {"returned": None if found is None else digests(found)})
            await self._recorder.jitter()
            return found

        return poll

    # --- the end ---

    def _recording(self) -> JsonObject:
        recorder = self._recorder
        made: JsonObject = {
            "modelRequests": self._model.requests,
            "outcomes": recorder.outcomes,
            "trace": recorder.trace,
            "events": recorder.events,
            "requests": recorder.requests,
            "hooks": recorder.hooks,
            "tools": recorder.tools,
        }
        agent = self._stage.agent
        if agent is None:
            made["contexts"] = recorder.contexts
        else:
            made["messages"] = [recorded(said) for said in agent.state.messages]
            made["state"] = _state(agent)
        if recorder.snapshots:
            made["snapshots"] = recorder.snapshots
        if recorder.attempts:
            made["attempts"] = recorder.attempts
        return made

    async def _clean_up(self) -> None:
        left = {*self._left_running.values(), *self._executions}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _state(agent: Agent) -> JsonObject:
    state = agent.state
    return {
        "errorMessage": state.error_message,
        "isStreaming": state.is_streaming,
        "streaming": None if state.streaming_message is None else digest(state.streaming_message),
        "pendingToolCalls": list(state.pending_tool_calls),
        "hasQueuedMessages": agent.has_queued_messages(),
        "steeringQueue": digests(list(agent.steering_queue)),
        "followUpQueue": digests(list(agent.follow_up_queue)),
    }
