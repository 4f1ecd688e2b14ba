"""Models that fail, through the real process: what is asked again, what is not, and what the pipeline says of it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.models_scene import KEY, agent, give_key
from tests.e2e.scene import AT_ONCE, Json, Run, Scene, messages, texts
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, Call, Tokens, answer, begun, cut_after, garbage, refusal

ANTHROPIC, COMPLETIONS, RESPONSES = APIS
BUSY = refusal(529, "Overloaded", "overloaded_error")
LIMITED = refusal(429, "Slow down", "rate_limit_error", retry_after="0")
NO_ANSWER: Json = {"beforeHeaders": "hang"}
CUT: Json = {"beforeHeaders": "cut"}
RUNS_NO_TOOL = answer(ANTHROPIC, Call("echo", "call_1", {"text": "never run"}))
QUICK = {"first_byte_s": 0.3, "between_events_s": 0.3}


def good(api: str) -> Json:
    return answer(api, "Done.")


@dataclass(frozen=True)
class Case:
    exchanges: list[Json]
    reason: str = ""
    """Of the failure; empty: the run succeeds with the text `Done.`"""
    api: str = ANTHROPIC
    requests: int = 1
    says: str = ""
    changes: Json = field(default_factory=dict[str, Any])
    limits: Json = field(default_factory=dict[str, Any])


def refused(status: int, message: str, kind: str, reason: str, says: str = "", **more: Any) -> Case:
    return Case([refusal(status, message, kind)], reason, says=says or message, **more)


CASES = {
    **{f"529 three times ({api})": Case([BUSY, BUSY, BUSY, good(api)], api=api, requests=4) for api in APIS},
    **{f"cut before the answer ({api})": Case([CUT, good(api)], api=api, requests=2) for api in APIS},
    **{f"cut inside ({api})": Case([begun(api, "Half", "cut"), good(api)], api=api, requests=2) for api in APIS},
    "cut inside a tool call": Case([cut_after(RUNS_NO_TOOL, 3), good(ANTHROPIC)], requests=2),
    "no first byte": Case([NO_ANSWER, good(ANTHROPIC)], requests=2, changes={"timeouts": QUICK}),
    "headers and no byte": Case(
        [{"headers": {}, "end": "hang"}],
        "model_unavailable",
        says="0.3 s",
        changes={"timeouts": QUICK, "max_retries": 0},
    ),
    "silence inside": Case(
        [begun(COMPLETIONS, "Half", "hang"), good(COMPLETIONS)],
        api=COMPLETIONS,
        requests=2,
        changes={"timeouts": QUICK},
    ),
    "an endless answer": Case(
        [{**good(RESPONSES), "gapMs": 200}],
        "model_unavailable",
        api=RESPONSES,
        says="no end after 0.6 s in all",
        changes={"timeouts": {"total_s": 0.6}, "max_retries": 0},
    ),
    "a server that stays down": Case([BUSY], "model_overloaded", requests=3, changes={"max_retries": 2}),
    "a rate limit that passes": Case(
        [LIMITED, good(COMPLETIONS)], api=COMPLETIONS, requests=2, changes={"max_retry_delay_s": 60}
    ),
    "a rate limit for longer than we wait": Case(
        [refusal(429, "Slow down", "rate_limit_error", retry_after="61")],
        "model_rate_limited",
        changes={"max_retry_delay_s": 60},
    ),
    "a rate limit for longer than the deadline": Case(
        [refusal(429, "Slow down", "rate_limit_error", retry_after="50")],
        "model_rate_limited",
        changes={"max_retry_delay_s": 60},
        limits={"deadline_s": 40, "grace_s": 2},
    ),
    "a spent quota": refused(
        429, "You exceeded your current quota", "insufficient_quota", "model_rate_limited", api=RESPONSES
    ),
    "a wrong key": refused(401, f"bad key {KEY}", "authentication_error", "model_auth", "[secret removed]"),
    "a wrong request": refused(400, "tools.0: no", "invalid_request_error", "model_invalid_request"),
    "an unknown model": refused(404, "no such model", "not_found_error", "model_invalid_request", api=COMPLETIONS),
    "a full context": refused(400, "prompt is too long: 9 tokens", "invalid_request_error", "context_overflow"),
    "a page": Case([{"chunks": [{"text": "<html>Welcome</html>"}]}], "model_unavailable", changes={"max_retries": 0}),
    "garbage": Case([garbage("event: message_start\ndata: {]\n\n")], "model_unavailable", says="parse"),
    "a redirect": Case([{"status": 307, "headers": {"location": "http://127.0.0.1:1/"}}], "model_unavailable"),
    "an error inside": Case(
        [garbage('data: {"error":{"message":"boom","code":502}}\n\n'), good(COMPLETIONS)], api=COMPLETIONS, requests=2
    ),
    **{
        f"a refusal ({api})": Case([answer(api, "I", stop=word)], "model_refused", api=api)
        for api, word in zip(APIS, ("refusal", "content_filter", "content_filter"), strict=True)
    },
    **{
        f"a cut answer ({api})": Case([answer(api, "Half", stop=word)], "output_truncated", api=api)
        for api, word in zip(APIS, ("max_tokens", "length", "max_output_tokens"), strict=True)
    },
    "a page of error": Case(
        [{"status": 400, "chunks": [{"text": "<p>no</p>" * 20_000}]}], "model_invalid_request", says="<p>no</p>"
    ),
}


@dataclass(frozen=True)
class Played:
    scene: Scene
    run: Run
    provider: ModelServer


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    folder = tmp_path_factory.mktemp("failing")

    def play(case: Case, number: int) -> Played:
        scene = give_key(Scene(folder).at(f"case{number}"))
        with ModelServer(case.exchanges) as provider:
            spec = scene.spec(None, agent=agent(case.api, provider, **case.changes), limits=case.limits)
            return Played(scene, scene.run(spec, "--events"), provider)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(CASES, pool.map(play, CASES.values(), range(len(CASES))), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of(name: str, played: dict[str, Played]) -> None:
    case, run, provider = CASES[name], played[name].run, played[name].provider
    assert run.exit == 0
    assert len(provider.requests) == case.requests, run.settlement
    assert run.terminal["usage"]["requests"] == case.requests
    if case.reason:
        assert (run.settlement["kind"], run.settlement["reason"]) == ("failure", case.reason), run.settlement
        assert case.says in run.settlement["message"]
        assert run.checkpoint["decision"] == "commit"
    else:
        assert run.settlement == {"kind": "success", "text": "Done.", "structured": None}
        assert run.terminal["usage"]["turns"] == 1, "failed turns do not count against the limit of turns"
    assert KEY not in run.output + run.stderr


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.requests > 1])
def test_a_failed_answer_stays_in_the_log_and_is_not_sent_again(name: str, played: dict[str, Played]) -> None:
    case, scene, run = CASES[name], played[name].scene, played[name].run
    first, *others = [request["raw"] for request in played[name].provider.requests]
    assert all(raw == first for raw in others)
    answers = messages(scene.entries(run.terminal), "assistant")
    failed = case.requests if case.reason else case.requests - 1
    assert [message["stopReason"] for message in answers[:failed]] == ["error"] * failed
    assert all(message["errorMessage"] for message in answers[:failed])
    assert len(answers) == case.requests
    assert not messages(scene.entries(run.terminal), "toolResult")
    if "cut inside (" in name or name == "silence inside":
        assert texts(answers[0]) == "Half"
    assert [line["type"] for line in run.lines if line["type"].startswith("agent_")] == [
        "agent_start",
        "agent_end",
    ] * case.requests, "each retry is a run of its own"
    assert [log["event"] for log in run.logs].count("model_retry") == case.requests - 1


def test_a_long_error_page_fits_into_the_callback(played: dict[str, Played]) -> None:
    scene = played["a page of error"].scene
    assert len(scene.head()["terminal"]["body"]) <= 20_000


def test_attempts_are_counted_anew_once_a_turn_went_well(local_scene: Scene) -> None:
    give_key(local_scene)
    on = answer(ANTHROPIC, Call("echo", "call_1", {"text": "on"}))
    with ModelServer([BUSY, BUSY, on, BUSY, BUSY, good(ANTHROPIC)]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(ANTHROPIC, provider, max_retries=2)))
    assert run.settlement["kind"] == "success"
    assert run.terminal["usage"]["turns"] == 2
    assert len(provider.requests) == 6
    assert len(messages(local_scene.entries(run.terminal), "toolResult")) == 1, "the tool ran once"


def test_the_next_model_is_asked_when_the_first_is_down(local_scene: Scene) -> None:
    give_key(local_scene)
    give_key(local_scene, "other", "sk-other-secret-key-0123456789")
    on = answer(COMPLETIONS, "On ", Call("echo", "call_1", {"text": "on"}), tokens=Tokens(10, 5))
    with ModelServer([BUSY]) as down, ModelServer([on, good(COMPLETIONS)]) as up:
        gone = {
            "api": RESPONSES,
            "provider": "ollama",
            "id": "gone",
            "base_url": "http://127.0.0.1:9",
            "max_retries": 0,
        }
        other = {
            "api": COMPLETIONS,
            "provider": "other",
            "id": "spare",
            "base_url": up.base_url,
            "thinking_level": "low",
        }
        spec = local_scene.spec(None, agent=agent(ANTHROPIC, down, gone, other, max_retries=1))
        run = local_scene.run(spec)
    assert run.settlement["text"] == "Done."
    assert (len(down.requests), len(up.requests)) == (2, 2)
    assert up.requests[0]["headers"]["authorization"] == "Bearer sk-other-secret-key-0123456789"
    assert up.requests[0]["body"]["reasoning_effort"] == "low"
    entries = local_scene.entries(run.terminal)
    assert [(entry["provider"], entry["modelId"]) for entry in entries if entry["type"] == "model_change"] == [
        ("acme", "acme-large"),
        ("ollama", "gone"),
        ("other", "spare"),
    ]
    assert [entry["thinkingLevel"] for entry in entries if entry["type"] == "thinking_level_change"] == ["off", "low"]
    answers = messages(entries, "assistant")
    assert [(message["provider"], message["model"]) for message in answers] == [
        ("acme", "acme-large"),
        ("acme", "acme-large"),
        ("ollama", "gone"),
        ("other", "spare"),
        ("other", "spare"),
    ]


def test_when_all_models_are_down_the_last_one_is_named(local_scene: Scene) -> None:
    give_key(local_scene)
    with ModelServer([BUSY]) as down, ModelServer([refusal(503, "still booting")]) as second:
        other = {"api": COMPLETIONS, "provider": "vllm", "id": "spare", "base_url": second.base_url, "max_retries": 0}
        run = local_scene.run(local_scene.spec(None, agent=agent(ANTHROPIC, down, other, max_retries=0)))
    assert run.settlement["reason"] == "model_overloaded"
    assert "still booting" in run.settlement["message"]
    assert run.settlement["retryable"] is True
