"""Own tools through the real process: by entry point, by `module:object`, and by names that lead nowhere."""

import os
from pathlib import Path

import pytest

from tests.e2e.scene import Json, Scene, call, calls, messages, stored_entries, text, texts

MODULE = """
from typing import Literal

from runner.tools.own_tools import Progress


def forecast(city: str, progress: Progress, unit: Literal["celsius", "kelvin"] = "celsius") -> dict[str, object]:
    "The weather of tomorrow."
    progress(f"asking for {city}")
    return {"city": city, "degrees": 21 if unit == "celsius" else 294}


def cities() -> list[str]:
    "Cities that have a forecast."
    return ["Bern", "Oslo"]


BOTH = [forecast, cities]
"""


def with_package(scene: Scene) -> None:
    """A package as pip would have installed it, with one module and an entry point."""
    folder = scene.folder / "site"
    information = folder / "weather-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "weather_tools.py").write_text(MODULE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[runner.tools]\nforecast = weather_tools:forecast\n")
    scene.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def agent(*tools: str) -> Json:
    return {"model": {"api": "scripted", "script": "script.json"}, "tools": list(tools)}


@pytest.mark.parametrize("name", ["forecast", "weather_tools:forecast", "weather_tools:BOTH"])
def test_a_typed_function_is_called_with_its_types_and_reports(local_scene: Scene, name: str) -> None:
    with_package(local_scene)
    script = [
        calls(call("forecast", "c1", city="Bern"), call("forecast", "c2", city="Bern", unit="fahrenheit")),
        text("Done."),
    ]
    run = local_scene.run(local_scene.spec(script, agent=agent(name)), "--events")

    assert run.settlement["kind"] == "success"
    good, bad = messages(stored_entries(local_scene.store, run.terminal), "toolResult")
    assert texts(good).replace(" ", "").replace("\n", "") == '{"city":"Bern","degrees":21}'
    assert bad["isError"] is True
    updates = [texts(line["partialResult"]) for line in run.lines if line["type"] == "tool_execution_update"]
    assert updates == ["asking for Bern"]


@pytest.mark.parametrize("name", ["no_such_module:x", "weather_tools.inner:x", "storm"])
def test_what_is_not_installed_is_refused_before_the_claim(local_scene: Scene, name: str) -> None:
    with_package(local_scene)
    spec = local_scene.spec([text("never")], agent=agent(name))
    run = local_scene.run(spec)

    assert run.exit == 78
    assert name.partition(":")[0] in run.error["message"]
    assert not (local_scene.store / "pipelines").exists()
    checked = local_scene.command("check", str(local_scene.folder / "spec.json")).finish()
    assert checked.exit == 78


def test_a_module_that_fails_when_it_is_imported_fails_the_set_up(local_scene: Scene) -> None:
    with_package(local_scene)
    Path(local_scene.folder / "site" / "broken_tools.py").write_text("raise RuntimeError('not today')\n")
    run = local_scene.run(local_scene.spec([text("never")], agent=agent("broken_tools:x")))

    assert run.exit == 0
    assert run.settlement["reason"] == "setup_failed"
    assert "not today" in run.settlement["message"]
