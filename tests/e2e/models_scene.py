"""A scene whose agent runs on a provider's model at a loopback server, with the key in its secrets folder."""

from typing import Any

from tests.e2e.scene import OWN_TOOLS, Json, Scene
from tests.fakes.model_server import ModelServer

KEY = "sk-very-secret-key-0123456789"
PROVIDER = "acme"
MODEL_ID = "acme-large"
COST = {"input": 1000.0, "output": 2000.0, "cache_read": 100.0}
"""Dollars per million tokens: 100 tokens in and 20 out cost 0.14."""


def model(api: str, server: ModelServer, **changes: Any) -> Json:
    """The spec of a model that is asked again at once."""
    return {
        "api": api,
        "provider": PROVIDER,
        "id": MODEL_ID,
        "base_url": server.base_url,
        "max_tokens": 4096,
        "max_retry_delay_s": 0.01,
        **changes,
    }


def agent(api: str, server: ModelServer, *fallbacks: Json, **changes: Any) -> Json:
    """The spec's `agent`: that model, and the tools of the tests."""
    return {"model": model(api, server, **changes), "tools": OWN_TOOLS["tools"], "fallback_models": list(fallbacks)}


def give_key(scene: Scene, provider: str = PROVIDER, key: str = KEY) -> Scene:
    scene.secrets.mkdir(exist_ok=True)
    (scene.secrets / f"{provider}_api_key").write_text(key + "\n")
    return scene
