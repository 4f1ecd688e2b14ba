"""The scripted hooks of a scenario. Each records its call first, then follows its rules."""

import json
from collections.abc import Callable
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentTool,
    BeforeToolCallContext,
    BeforeToolCallResult,
    NextTurn,
    ToolResult,
    TurnContext,
    is_json_object,
)
from tests.conformance.loop.actions import Stage
from tests.conformance.loop.recorder import aborted
from tests.conformance.loop.shapes import (
    ScriptedFailure,
    copied,
    digest,
    digests,
    is_standard,
    messages,
    model,
    recorded,
)


class ScriptedHooks:
    """`base_prompt` and `base_tools` are what a replaced context has by default."""

    def __init__(self, stage: Stage, scripts: JsonObject) -> None:
        self._stage = stage
        self._scripts = scripts
        self._calls: dict[str, int] = {}
        self.base_prompt = ""
        self.base_tools: Callable[[], list[AgentTool] | None] = list

    def installed(self, name: str) -> bool:
        return name in self._scripts

    def _count(self, name: str) -> int:
        self._calls[name] = self._calls.get(name, 0) + 1
        return self._calls[name]

    # --- around tool calls ---

    async def before_tool_call(
        self, context: BeforeToolCallContext, signal: AbortSignal | None
    ) -> BeforeToolCallResult | None:
        call = context.tool_call
        self._stage.recorder.hook("beforeToolCall", _call_entry(context, signal), call["id"])
        await self._stage.recorder.jitter()
        for rule in self._scripts["beforeToolCall"]:
            if not _for_call(rule, call):
                continue
            context.args.update(copied(rule.get("mutateArgs", {})))
            await self._act(rule)
            if "return" in rule:
                given: JsonObject = rule["return"] or {}
                return BeforeToolCallResult(bool(given.get("block")), given.get("reason"))
        return None

    async def after_tool_call(
        self, context: AfterToolCallContext, signal: AbortSignal | None
    ) -> AfterToolCallResult | None:
        call = context.tool_call
        entry = _call_entry(context, signal)
        entry |= {"result": recorded(context.result), "isError": context.is_error}
        self._stage.recorder.hook("afterToolCall", entry, call["id"])
        await self._stage.recorder.jitter()
        for rule in self._scripts["afterToolCall"]:
            if not (_for_call(rule, call) and _for_result(rule, context)):
                continue
            if "setFlag" in rule:
                self._stage.recorder.flag(rule["setFlag"])
            await self._act(rule)
            if "return" in rule:
                return _override(rule["return"])
        return None

    async def _act(self, rule: JsonObject) -> None:
        await self._stage.perform(rule.get("do"))
        if "throw" in rule:
            raise ScriptedFailure(rule["throw"])

    # --- after a turn ---

    async def should_stop_after_turn(self, turn: TurnContext, signal: AbortSignal | None) -> bool:
        number = self._count("shouldStopAfterTurn")
        script: JsonObject = self._scripts["shouldStopAfterTurn"]
        entry = _turn_entry(turn) | {"aborted": aborted(signal)}
        entry = self._stage.recorder.hook("shouldStopAfterTurn", entry)
        await self._stage.recorder.jitter()
        await self._stage.perform(script.get("do"))
        await self._stage.perform(script.get("doOnCall", {}).get(str(number)))
        if "throw" in script and script.get("onCall", number) == number:
            entry["returned"] = "throw"
            raise ScriptedFailure(script["throw"])
        entry["returned"] = self._stops(script, number, turn)
        return entry["returned"]

    def _stops(self, script: JsonObject, number: int, turn: TurnContext) -> bool:
        names = [result["toolName"] for result in turn.tool_results]
        return bool(
            script.get("always")
            or ("afterTurns" in script and number >= script["afterTurns"])
            or ("whenFlag" in script and script["whenFlag"] in self._stage.recorder.flags)
            or ("whenToolResult" in script and script["whenToolResult"] in names)
            or (script.get("whenNoTools") and not names)
        )

    async def prepare_next_turn(self, signal: AbortSignal | None) -> NextTurn | None:
        self._stage.recorder.hook("prepareNextTurn", {"aborted": aborted(signal)})
        return await self._prepare("prepareNextTurn", [])

    async def prepare_next_turn_low(self, turn: TurnContext) -> NextTurn | None:
        self._stage.recorder.hook("prepareNextTurn", _turn_entry(turn))
        return await self._prepare("prepareNextTurn", turn.context.messages)

    async def prepare_next_turn_with_context(self, turn: TurnContext, signal: AbortSignal | None) -> NextTurn | None:
        entry = _turn_entry(turn) | {"aborted": aborted(signal)}
        self._stage.recorder.hook("prepareNextTurnWithContext", entry)
        return await self._prepare("prepareNextTurnWithContext", turn.context.messages)

    async def _prepare(self, name: str, current: list[Message]) -> NextTurn | None:
        number = self._count(name)
        await self._stage.recorder.jitter()
        for rule in self._scripts[name]:
            if rule.get("call", number) == number:
                await self._act(rule)
                return self._next_turn(rule, current)
        return None

    def _next_turn(self, rule: JsonObject, current: list[Message]) -> NextTurn | None:
        if not rule.keys() & {"context", "model", "thinkingLevel"}:
            return None
        context = None
        if rule.get("context") is not None:
            given: JsonObject = rule["context"]
            kept = _last(current, given.get("keepLast", 0))
            context = AgentContext(
                given.get("systemPrompt", self.base_prompt),
                [*messages(given.get("messages")), *kept],
                self._stage.tools_named(given["tools"]) if "tools" in given else self.base_tools(),
            )
        chosen = None if rule.get("model") is None else model(rule["model"])
        return NextTurn(context, chosen, rule.get("thinkingLevel"))

    # --- before a request ---

    async def transform_context(self, given: list[Message], signal: AbortSignal | None) -> list[Message]:
        script: JsonObject = self._scripts["transformContext"]
        entry = {"in": digests(given), "aborted": aborted(signal), "out": "throw"}
        entry = self._stage.recorder.hook("transformContext", entry)
        await self._stage.recorder.jitter()
        await self._act(script)
        kept = [message for message in given if message["role"] not in script.get("dropRoles", ())]
        if "keepLast" in script:
            kept = _last(kept, script["keepLast"])
        made = [*messages(script.get("prepend")), *kept]
        entry["out"] = digests(made)
        return made

    async def convert_to_llm(self, given: list[Message]) -> list[Message]:
        script: JsonObject = self._scripts.get("convertToLlm", {})
        entry: JsonObject = {}
        if self.installed("convertToLlm"):
            entry = self._stage.recorder.hook("convertToLlm", {"in": digests(given), "out": "throw"})
            await self._stage.recorder.jitter()
        if "throw" in script:
            raise ScriptedFailure(script["throw"])
        made = list(_converted(script, given))
        entry["out"] = digests(made)
        return made

    async def get_api_key(self, provider: str) -> str | None:
        number = self._count("getApiKey")
        keys: list[str | None] = self._scripts["getApiKey"].get("returns", [])
        key = keys[number - 1] if number <= len(keys) else None
        self._stage.recorder.hook("getApiKey", {"provider": provider, "returned": key})
        await self._stage.recorder.jitter()
        return key


def _for_call(rule: JsonObject, call: JsonObject) -> bool:
    return rule.get("tool", call["name"]) == call["name"] and rule.get("id", call["id"]) == call["id"]


def _for_result(rule: JsonObject, context: AfterToolCallContext) -> bool:
    if rule.get("isError", context.is_error) != context.is_error:
        return False
    return "whenResultJson" not in rule or _says(context.result, rule["whenResultJson"])


def _says(result: ToolResult, wanted: JsonObject) -> bool:
    texts = (block["text"] for block in result.get("content") or () if block.get("type") == "text")
    try:
        said: Any = json.loads(next(texts, ""))
    except ValueError:
        return False
    return is_json_object(said) and all(key in said and said[key] == wanted[key] for key in wanted)


def _override(given: JsonObject | None) -> AfterToolCallResult | None:
    if given is None:
        return None
    return AfterToolCallResult(
        content=given.get("content"),
        details=given.get("details"),
        is_error=given.get("isError"),
        terminate=given.get("terminate"),
        usage=given.get("usage"),
    )


def _call_entry(context: BeforeToolCallContext | AfterToolCallContext, signal: AbortSignal | None) -> JsonObject:
    return {
        "toolCallId": context.tool_call["id"],
        "toolName": context.tool_call["name"],
        "args": copied(context.args),
        "message": digest(context.assistant_message),
        "context": digests(context.context.messages),
        "aborted": aborted(signal),
    }


def _turn_entry(turn: TurnContext) -> JsonObject:
    return {
        "message": digest(turn.message),
        "toolResults": digests(turn.tool_results),
        "context": digests(turn.context.messages),
        "newMessages": digests(turn.new_messages),
    }


def _last(items: list[Message], count: int) -> list[Message]:
    return items[-count:] if count else []


def _converted(script: JsonObject, given: list[Message]) -> list[Message]:
    mapped_roles: JsonObject = script.get("mapRoles", {})
    made: list[Message] = []
    for message in given:
        role, content = message["role"], message.get("content")
        if role in script.get("dropRoles", ()):
            continue
        if role in mapped_roles:
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            made.append({"role": mapped_roles[role], "content": blocks})
        elif is_standard(message):
            made.append(message)
    return made
