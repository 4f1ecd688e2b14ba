"""The stage of a scenario: what hooks, tools, listeners and the driver share, and the actions they can
take.
"""

from collections.abc import Iterable
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortController
from runner.agent.agent import Agent
from runner.agent.types import AgentTool, UpdateCallback
from tests.conformance.loop.recorder import Recorder, tick
from tests.conformance.loop.shapes import digest, digests, message, messages, model, result


class LowLevel:
    """What takes the agent's place at level low: the signal and the polls of the loop call that runs."""

    def __init__(self) -> None:
        self.controller: AbortController | None = None
        self.steering: list[Message] = []
        self.follow_ups: list[Message] = []


class Stage:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.low = LowLevel()
        self.agent: Agent | None = None
        self.tools: dict[str, AgentTool] = {}
        self.update_callbacks: dict[str, UpdateCallback] = {}

    @property
    def the_agent(self) -> Agent:
        if self.agent is None:
            raise ValueError("the scenario uses the agent at level low")
        return self.agent

    def tools_named(self, names: Iterable[str] | None) -> list[AgentTool]:
        return list(self.tools.values()) if names is None else [self.tools[name] for name in names]

    async def perform(self, actions: list[JsonObject] | None) -> None:
        for action in actions or ():
            for name, value in action.items():
                await self._perform(name, value)

    async def _perform(self, name: str, value: Any) -> None:
        recorder = self.recorder
        match name:
            case "steer":
                self.steer(message(value))
            case "followUp":
                self.follow_up(message(value))
            case "abort":
                self.abort()
            case "mark":
                recorder.trace.append(f"mark {value}")
            case "tick":
                await tick(value)
            case "waitEvent":
                await recorder.wait_event(value)
            case "lateUpdate":
                self.update_callbacks[value["toolCallId"]](result(value["result"]))
            case "setFlag":
                recorder.flag(value)
            case "clearFlag":
                recorder.flags.discard(value)
            case "snapshot":
                recorder.snapshots.append({"label": value, **snapshot(self.the_agent)})
            case "tryPrompt" | "tryContinue" | "tryReset":
                await self._attempt(name, value)
            case _:
                self._change_agent(name, value)

    def _change_agent(self, name: str, value: Any) -> None:
        agent = self.the_agent
        match name:
            case "clearSteering":
                agent.clear_steering_queue()
            case "clearFollowUp":
                agent.clear_follow_up_queue()
            case "clearAll":
                agent.clear_all_queues()
            case "setTools":
                agent.state.tools = self.tools_named(value)
            case "setSystemPrompt":
                agent.state.system_prompt = value
            case "setModel":
                agent.state.model = model(value)
            case "setThinkingLevel":
                agent.state.thinking_level = value
            case "setMessages":
                agent.state.messages = messages(value)
            case "setSteeringMode":
                agent.steering_mode = value
            case "setFollowUpMode":
                agent.follow_up_mode = value
            case "setToolExecution":
                agent.tool_execution = value
            case _:
                raise ValueError(f"unknown action {name}")

    async def _attempt(self, name: str, value: Any) -> None:
        agent = self.the_agent
        outcome: JsonObject = {"call": name.removeprefix("try").lower(), "status": "resolved"}
        try:
            if name == "tryPrompt":
                await agent.prompt(value)
            elif name == "tryContinue":
                await agent.continue_()
            else:
                agent.reset()
        except Exception as error:  # noqa: BLE001 - an attempt's failure is its outcome
            outcome |= {"status": "rejected", "error": str(error)}
        self.recorder.attempts.append(outcome)

    def steer(self, said: Message) -> None:
        if self.agent is None:
            self.low.steering.append(said)
        else:
            self.agent.steer(said)

    def follow_up(self, said: Message) -> None:
        if self.agent is None:
            self.low.follow_ups.append(said)
        else:
            self.agent.follow_up(said)

    def abort(self) -> None:
        if self.agent is not None:
            self.agent.abort()
        elif self.low.controller is not None:
            self.low.controller.abort()


def snapshot(agent: Agent) -> JsonObject:
    state = agent.state
    return {
        "isStreaming": state.is_streaming,
        "streaming": None if state.streaming_message is None else digest(state.streaming_message),
        "pendingToolCalls": list(state.pending_tool_calls),
        "errorMessage": state.error_message,
        "messages": digests(state.messages),
        "hasQueued": agent.has_queued_messages(),
    }
