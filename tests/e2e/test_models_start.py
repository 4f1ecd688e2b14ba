"""What a process loads: a scripted run nothing of the adapters, a real one only what it uses."""

import re

from tests.e2e.models_scene import agent, give_key
from tests.e2e.scene import Scene, text
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, answer

REAL_MODELS_ONLY = re.compile(
    r"(?:httpx|httpx_sse|httpcore|anyio|genai_prices|runner\.models\.(?:answer|calls|transport|recorder|checking)"
    r"|runner\.models\.(?:anthropic|completions|openai|responses)_\w+)$"
)
TELLS_IMPORTS = {"PYTHONPROFILEIMPORTTIME": "1"}


def imported(stderr: str) -> list[str]:
    """Modules in the order in which their loading ended."""
    return re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", stderr, re.MULTILINE)


def test_a_scripted_run_loads_no_adapter_and_no_http_client(local_scene: Scene) -> None:
    local_scene.environ.update(TELLS_IMPORTS)
    run = local_scene.run(local_scene.spec([text("Done.")]))
    assert run.exit == 0
    names = imported(run.stderr)
    assert "runner.models.scripted" in names
    assert [name for name in names if REAL_MODELS_ONLY.match(name)] == []


def test_a_real_models_run_loads_one_adapter_and_prices_only_if_the_spec_has_none(local_scene: Scene) -> None:
    give_key(local_scene).environ.update(TELLS_IMPORTS)
    with ModelServer([answer(APIS[1], "Done.")]) as provider:
        priced = agent(APIS[1], provider, cost={"input": 1.0})
        run = local_scene.run(local_scene.spec(None, agent=priced))
        other = local_scene.run(local_scene.spec(None, pipeline_id="p2", agent=agent(APIS[1], provider)))
    names = imported(run.stderr)
    assert "runner.models.completions_stream" in names
    assert not {"runner.models.anthropic_stream", "runner.models.responses_stream"} & set(names)
    assert not any(name.startswith("genai_prices") for name in names)
    assert any(name.startswith("genai_prices") for name in imported(other.stderr))
