"""Plays one recorded provider case against the adapters, and compares what came of it.

The case's format is the corpus's own: model, context, options, server script, and the expected requests,
events, final message and classification. `correct` replaces `expected` where the recorded library was
wrong.
"""

import asyncio
import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import httpx

from runner.agent.abort import AbortController
from runner.agent.types import StreamEvent
from runner.models.answer import Answer, Surroundings
from runner.models.calls import wire_protocol
from runner.models.error_text import says_overflow, says_transient
from runner.models.failure import silent_overflow
from runner.models.protocol import Conversation
from runner.models.settings import CallOptions, ModelSettings, Prices, PriceTier
from runner.models.shapes import an_object, is_list, is_object, objects
from runner.models.transport import HttpTransport
from tests.fakes.model_server import ModelServer

_KEPT_HEADERS = ("authorization", "x-api-key", "content-type")
_RECEIVED = "\n\nReceived arguments:\n"
_LIMIT_S = 40.0
_ABORT_DELAY_S = 0.005
Case = dict[str, Any]


# --- the case as settings -------------------------------------------------------------------------------


def snake(name: str) -> str:
    known = {"supportsOpenAIGrammarTools": "supports_openai_grammar_tools"}
    return known.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def settings_of(model: Case) -> ModelSettings:
    cost = an_object(model.get("cost"))
    rates = ("input", "output", "cacheRead", "cacheWrite")
    tiers = tuple(PriceTier(t["inputTokensAbove"], *(t.get(r) or 0 for r in rates)) for t in objects(cost.get("tiers")))
    return ModelSettings(
        id=model["id"],
        provider=model["provider"],
        api=model["api"],
        base_url=model["baseUrl"],
        headers=an_object(model.get("headers")),
        max_tokens=model["maxTokens"],
        reasoning=bool(model.get("reasoning")),
        thinking_levels=an_object(model.get("thinkingLevelMap")),
        context_window=model.get("contextWindow"),
        input=tuple(model.get("input") or ()),
        prices=Prices(*(cost.get(rate) or 0 for rate in rates), tiers=tiers),
        compat={snake(name): value for name, value in an_object(model.get("compat")).items()},
    )


def options_of(case: Case) -> CallOptions:
    given = case["options"]
    renamed = {
        "samplingParams": "sampling",
        "maxRetryDelayMs": "max_retry_delay_s",
        "reasoningEffort": "reasoning",
    }
    known = {field.name for field in fields(CallOptions)}
    values: dict[str, Any] = {"implied": case["entry"] == "streamSimple"}
    for name, value in given.items():
        target = renamed.get(name, snake(name))
        if target in known:
            values[target] = value / 1000 if name == "maxRetryDelayMs" else value
    if given.get("thinkingEnabled"):
        values["reasoning"] = "medium"
        values["thinking_budgets"] = {"medium": given.get("thinkingBudgetTokens", 1024)}
    if given.get("effort"):
        values["reasoning"] = given["effort"]
    return CallOptions(**values)


def conversation_of(case: Case) -> Conversation:
    context = case["context"]
    keys = ("name", "description", "parameters", "constrainedSampling")
    tools = [{key: tool[key] for key in keys if key in tool} for tool in objects(context.get("tools"))]
    return Conversation(context.get("systemPrompt") or "", context["messages"], tools)


# --- the run --------------------------------------------------------------------------------------------


class _ToLoopback(httpx.AsyncHTTPTransport):
    """Sends requests for real hosts to the scripted server; path and query stay."""

    def __init__(self, origin: str) -> None:
        super().__init__(verify=False)  # a trust store takes long to load, and loopback needs none
        self._origin = httpx.URL(origin)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        origin = self._origin
        request.url = request.url.copy_with(scheme=origin.scheme, host=origin.host, port=origin.port)
        return await super().handle_async_request(request)


async def play(case: Case) -> Case:
    """`{requests, events, message, classification}` of the adapter's run."""
    with ModelServer(case["server"]) as server:
        filled = json.loads(json.dumps(case["model"]).replace("{{BASE_URL}}", server.base_url))
        model = settings_of(filled)
        transport = HttpTransport(lambda: httpx.AsyncClient(transport=_ToLoopback(server.base_url)))
        try:
            events, answer = await asyncio.wait_for(_collect(case, model, transport), _LIMIT_S)
        finally:
            await transport.aclose()
        host = server.base_url.removeprefix("http://")
        message = json.loads(json.dumps(await answer.result()).replace(host, "{{HOST}}"))
        requests = [
            {
                "method": request["method"],
                "path": request["path"],
                "headers": request["headers"],
                "body": request["body"],
            }
            for request in server.requests
        ]
    classification = _classification(answer, message, model)
    return {"requests": requests, "events": events, "message": message, "classification": classification}


async def _collect(case: Case, model: ModelSettings, transport: HttpTransport) -> tuple[list[Case], Answer]:
    abort = an_object(case.get("abort"))
    controller = AbortController()
    loop = asyncio.get_running_loop()
    if abort.get("before"):
        controller.abort()
    if "afterMs" in abort:
        loop.call_later(abort["afterMs"] / 1000, controller.abort)
    answer = Answer(
        wire_protocol(model.api),
        model,
        conversation_of(case),
        options_of(case),
        controller.signal,
        Surroundings(transport),
    )
    events: list[Case] = []
    seen = 0
    async for event in answer:
        events.append(_recorded(event))
        seen += event.type == abort.get("onEvent")
        if event.type == abort.get("onEvent") and seen == abort.get("count"):
            loop.call_later(_ABORT_DELAY_S, controller.abort)
    return events, answer


def _recorded(event: StreamEvent) -> Case:
    kept: Case = {"type": event.type}
    if event.content_index is not None:
        kept["contentIndex"] = event.content_index
    for key, value in (("delta", event.delta), ("content", event.content), ("reason", event.reason)):
        if value is not None:
            kept[key] = value
    if event.tool_call is not None:
        kept["toolCall"] = json.loads(json.dumps(event.tool_call))
    if event.partial is not None and event.content_index is not None:
        kept["block"] = json.loads(json.dumps(event.partial["content"][event.content_index]))
    return kept


def _classification(answer: Answer, message: Case, model: ModelSettings) -> Mapping[str, bool]:
    """The failure's own judgement. The recording asks its two questions independently of each other."""
    failure = answer.failure
    overflow = silent_overflow(message, model.context_window)
    if failure is None:
        return {"contextOverflow": overflow, "retryable": False}
    overflow = overflow or failure.reason == "context_overflow"
    return {"contextOverflow": overflow, "retryable": failure.transient}


def classify_text(entry: Case) -> Mapping[str, bool]:
    """An entry of classify.json: error texts and finished messages, without a status to go by."""
    stop = entry.get("stopReason", "error")
    text = entry.get("errorMessage") or ""
    if stop != "error":
        message = {"stopReason": stop, "usage": entry.get("usage")}
        return {"contextOverflow": silent_overflow(message, entry.get("contextWindow")), "retryable": False}
    return {"contextOverflow": says_overflow(text, entry.get("provider")), "retryable": says_transient(text)}


# --- the comparison -------------------------------------------------------------------------------------


def same(want: Any, got: Any, *, lenient: bool = False) -> bool:
    """JSON equality with JavaScript's numbers; `lenient`: infinity was recorded as null."""
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, int | float) and isinstance(got, int | float):
        return math.isclose(want, got, rel_tol=1e-6 if lenient else 1e-9, abs_tol=1e-12)
    if lenient and want is None and isinstance(got, float):
        return math.isinf(got)
    if is_object(want) and is_object(got):
        return want.keys() == got.keys() and all(same(want[k], got[k], lenient=lenient) for k in want)
    if is_list(want) and is_list(got):
        return len(want) == len(got) and all(same(*pair, lenient=lenient) for pair in zip(want, got, strict=True))
    return want == got


def compare(case: Case, got: Case, *, strict_partials: bool = False) -> list[str]:
    """What differs, a line each; empty if the case passes."""
    want = case.get("correct") or case["expected"]
    rules = an_object(case.get("compare"))
    if "throws" in want:
        failed = got["message"]["stopReason"] == "error"
        return [] if failed else [f"want a failure: {want['throws']}"]
    lines = _compare_requests(want["requests"], got["requests"])
    if "events" in want and rules.get("events", "exact") == "exact":
        lines += _compare_events(want["events"], got["events"], rules, strict_partials=strict_partials)
    wanted = want["message"]
    if wanted.get("responseModel") and wanted["responseModel"] not in _script(case):
        # Some corrected messages name a model that their stream never mentions; it cannot be right.
        wanted = {**wanted, "responseModel": got["message"].get("responseModel")}
    lines += _compare_message(wanted, got["message"], rules)
    if dict(want["classification"]) != dict(got["classification"]):
        lines.append(f"classification: want {want['classification']}, got {got['classification']}")
    return lines


def _script(case: Case) -> str:
    """All that the server says, as text."""
    chunks = [chunk for exchange in case["server"] for chunk in exchange.get("chunks", [])]
    return "".join(
        base64.b64decode(chunk["b64"]).decode("utf-8", "replace") if "b64" in chunk else chunk["text"]
        for chunk in chunks
    )


def _compare_requests(want: list[Case], got: list[Case]) -> list[str]:
    lines = [] if len(want) == len(got) else [f"requests: want {len(want)}, got {len(got)}"]
    for number, (w, g) in enumerate(zip(want, got, strict=False)):
        if (w["method"], w["path"].partition("?")[0]) != (g["method"], g["path"].partition("?")[0]):
            lines.append(f"request {number}: want {w['method']} {w['path']}, got {g['method']} {g['path']}")
        for name in _KEPT_HEADERS:
            if w["headers"].get(name) != g["headers"].get(name):
                lines.append(f"request {number}.{name}: want {w['headers'].get(name)}, got {g['headers'].get(name)}")
        wanted = {key: value for key, value in w["body"].items() if key != "thread"}  # message threads: out of scope
        sent = an_object(g["body"])
        lines += [
            f"request {number} {key}: want {json.dumps(wanted.get(key))}, got {json.dumps(sent.get(key))}"
            for key in sorted(wanted.keys() | sent.keys())
            if key not in wanted or key not in sent or not same(wanted[key], sent[key])
        ]
    return lines


def _compare_events(want: list[Case], got: list[Case], rules: Case, *, strict_partials: bool) -> list[str]:
    kinds = [[event["type"] for event in events] for events in (want, got)]
    if kinds[0] != kinds[1]:
        return [f"events: want {' '.join(kinds[0])}, got {' '.join(kinds[1])}"]
    lines: list[str] = []
    for number, (w, g) in enumerate(zip(want, got, strict=True)):
        for key in w.keys() - {"type"} - (set() if strict_partials else {"block"}):
            a, b = _tail(w[key], rules), _tail(g.get(key), rules)
            if not same(a, b, lenient=rules.get("numbers") == "lenient"):
                lines.append(f"event {number} {w['type']}.{key}: want {json.dumps(a)}, got {json.dumps(b)}")
    return lines


def _tail(block: Any, rules: Case) -> Any:
    """Of an `argumentsError` only what was received is compared: its first line is one engine's wording."""
    if rules.get("argumentsError") == "tail" and is_object(block) and "argumentsError" in block:
        return {**block, "argumentsError": str(block["argumentsError"]).rpartition(_RECEIVED)[2]}
    return block


def _compare_message(want: Case, got: Case, rules: Case) -> list[str]:
    lines = [
        f"message.{key}: want {want.get(key)!r}, got {got.get(key)!r}"
        for key in ("stopReason", "rawStopReason", "responseId", "responseModel", "api", "provider", "model")
        if want.get(key) != got.get(key)
    ]
    contents = [[_tail(block, rules) for block in message["content"]] for message in (want, got)]
    if not same(*contents, lenient=rules.get("numbers") == "lenient"):
        lines.append(f"content: want {json.dumps(contents[0])}, got {json.dumps(contents[1])}")
    usage, counted = want["usage"], got["usage"]
    lines += [
        f"usage.{key}: want {usage.get(key)}, got {counted.get(key)}"
        for key in ("input", "output", "cacheRead", "cacheWrite", "totalTokens", "reasoning")
        if (usage.get(key) or 0) != (counted.get(key) or 0)
    ]
    if not same(usage["cost"]["total"], counted["cost"]["total"]):
        lines.append(f"cost.total: want {usage['cost']['total']}, got {counted['cost']['total']}")
    texts = want.get("errorMessage"), got.get("errorMessage")
    if not _text_fits(rules.get("errorMessage", "exact"), *texts):
        lines.append(f"errorMessage: want {texts[0]!r}, got {texts[1]!r}")
    return lines


def _text_fits(rule: str, want: Any, got: Any) -> bool:
    if rule == "any":
        return (want is None) == (got is None)
    if rule.startswith("prefix:"):
        return isinstance(got, str) and got.startswith(rule.removeprefix("prefix:"))
    return want == got
