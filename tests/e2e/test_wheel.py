"""What is shipped: the wheel holds every module, and the runner works from it alone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_the_marks_of_typing(wheel: Path) -> None:
    packages = ("runner", "settlement", "checkpoint")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")} | {
        f"{package}/py.typed" for package in packages
    }
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "runner/server/page/static").iterdir()}
    assert len(page) > 10
    assert ours | page <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]


def test_the_demo_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    where = "import runner, settlement, checkpoint; print(runner.__file__, settlement.__file__, checkpoint.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.count(str(installed)) == 3
    done = subprocess.run(
        [sys.executable, "-m", "runner", "demo"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "settled: success" in done.stdout
