"""What a run on real models costs, and the limits that stop it after a turn."""

from typing import Any

import pytest

from tests.e2e.models_scene import COST, agent, give_key
from tests.e2e.scene import Json, Scene, messages, restoring
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, Call, Tokens, answer, refusal

ANTHROPIC, COMPLETIONS, RESPONSES = APIS
TURN_USD = 0.14
"""100 tokens in and 20 out at the prices of `COST`."""


def on(api: str, **tokens: int) -> Json:
    return answer(api, Call("echo", "call_1", {"text": "on"}), tokens=Tokens(**tokens))


@pytest.mark.parametrize("api", APIS)
def test_the_specs_prices_count(api: str, local_scene: Scene) -> None:
    give_key(local_scene)
    with ModelServer([on(api, input=100, output=20, cached=40), answer(api, "Done.")]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(api, provider, cost=COST)))
    usage = run.terminal["usage"]
    assert (usage["input"], usage["cache_read"], usage["output"], usage["total_tokens"]) == (160, 40, 40, 240)
    assert usage["cost_usd"] == pytest.approx((160 * 1000 + 40 * 100 + 40 * 2000) / 1e6)
    costs = [message["usage"]["cost"]["total"] for message in messages(local_scene.entries(run.terminal), "assistant")]
    assert sum(costs) == pytest.approx(usage["cost_usd"])


@pytest.mark.parametrize(
    ("api", "provider_name", "model_id"),
    [(ANTHROPIC, "anthropic", "claude-sonnet-4-5"), (COMPLETIONS, "openai", "gpt-4o"), (RESPONSES, "openai", "gpt-4o")],
)
def test_without_prices_in_the_spec_known_models_have_theirs(
    api: str, provider_name: str, model_id: str, local_scene: Scene
) -> None:
    give_key(local_scene, provider_name)
    million = answer(api, "Done.", tokens=Tokens(1_000_000, 0))
    with ModelServer([million]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(api, provider, provider=provider_name, id=model_id)))
    assert 0.5 < run.terminal["usage"]["cost_usd"] < 10


LIMITS: dict[str, tuple[Json, str]] = {
    "turns": ({"max_turns": 2}, "turn_limit"),
    "tokens": ({"max_total_tokens": 240}, "token_limit"),
    "cost": ({"max_cost_usd": 2 * TURN_USD - 0.001}, "cost_limit"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_stops_after_the_turn_and_failed_tries_are_no_turns(name: str, local_scene: Scene) -> None:
    limits, reason = LIMITS[name]
    give_key(local_scene)
    busy = refusal(529, "Overloaded", "overloaded_error")
    with ModelServer([on(COMPLETIONS), busy, on(COMPLETIONS), answer(COMPLETIONS, "Never asked.")]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(COMPLETIONS, provider, cost=COST), limits=limits))
    assert run.settlement["reason"] == reason
    assert len(provider.requests) == 3
    assert (run.terminal["usage"]["turns"], run.terminal["usage"]["requests"]) == (2, 3)
    assert run.terminal["usage"]["total_tokens"] == 240
    assert run.terminal["usage"]["cost_usd"] == pytest.approx(2 * TURN_USD)
    roles = [message["role"] for message in messages(local_scene.entries(run.terminal))]
    assert roles == ["user", "assistant", "toolResult", "assistant", "assistant", "toolResult"]


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("scope", ["session", "pipeline"])
def test_limits_of_the_session_count_what_earlier_processes_used(name: str, scope: str, local_scene: Scene) -> None:
    """One turn in the first process, two more wanted in the second."""
    limits, reason = LIMITS[name]
    give_key(local_scene)
    done = answer(COMPLETIONS, "Done.")
    with ModelServer([done, on(COMPLETIONS), done]) as provider:
        spec: dict[str, Any] = {"agent": agent(COMPLETIONS, provider, cost=COST)}
        first = local_scene.run(local_scene.spec(None, **spec))
        second = local_scene.run(
            local_scene.spec(
                None, pipeline_id="p2", session=restoring(first.terminal), limits={**limits, "scope": scope}, **spec
            )
        )
    assert first.settlement["kind"] == "success"
    if scope == "session":
        assert second.settlement["reason"] == reason
        assert len(provider.requests) == 2
    else:
        assert second.settlement["kind"] == "success"
        assert len(provider.requests) == 3
    assert second.terminal["usage"]["turns"] == len(provider.requests) - 1, "the record tells of this pipeline alone"


def test_a_limit_of_cost_that_cannot_be_watched_is_warned_of(local_scene: Scene) -> None:
    give_key(local_scene)
    with ModelServer([answer(ANTHROPIC, "Done.")]) as provider:
        spec = local_scene.spec(None, agent=agent(ANTHROPIC, provider), limits={"max_cost_usd": 1})
        run = local_scene.run(spec)
    assert run.settlement["kind"] == "success"
    (warning,) = [log for log in run.logs if log["event"] == "cost_unknown"]
    assert warning["model"] == "acme/acme-large"
    assert run.terminal["warnings"] == [warning["hint"]]
    assert "limits.max_cost_usd cannot count what acme/acme-large costs" in warning["hint"]
