"""Loads what the end of a run needs while the model talks, so that the end does not wait for imports.

Not before the model's first words: the start of a process is budgeted, and every import takes a share of it.
"""

import threading
from collections.abc import Callable
from importlib import import_module

from runner.agent.abort import AbortSignal
from runner.agent.types import AgentEvent, MessageStart

AT_THE_END = (
    "runner.commit",
    "settlement.delivery",
    "httpx",
    # What httpx itself loads only with its first request: two thirds of what a callback would wait for.
    "httpcore",
    "anyio.streams.tls",
    "anyio._backends._asyncio",
)


def preload_at_first_words(
    load: Callable[[str], object] = import_module,
) -> Callable[[AgentEvent, AbortSignal | None], None]:
    """A listener of the agent. Whatever goes wrong comes out where the module is used."""
    begun: list[threading.Thread] = []

    def work() -> None:
        for name in AT_THE_END:
            try:
                load(name)
            except Exception:  # noqa: BLE001 - the one who needs it meets the same, and reports it
                return

    def on_event(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if not begun and isinstance(event, MessageStart) and event.message.get("role") == "assistant":
            begun.append(threading.Thread(target=work, daemon=True, name="preload-end"))
            begun[0].start()

    return on_event
