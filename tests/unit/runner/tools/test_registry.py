import sys
from pathlib import Path

import pytest

from runner.tools.registry import (
    BUILT_IN_TOOLS,
    ToolSetupError,
    load_own_tools,
    selected_built_in,
    tool_name_problems,
)
from tests.fakes.importable import importable

HERE = "tests.unit.runner.tools.own_examples"


def test_all_built_in_tools_are_selected_by_default_in_one_order() -> None:
    assert selected_built_in(None) == BUILT_IN_TOOLS
    assert selected_built_in(["ls", f"{HERE}:shout", "bash"]) == ("bash", "ls")
    assert selected_built_in([]) == ()


def test_known_names_are_no_problem() -> None:
    assert tool_name_problems([*BUILT_IN_TOOLS, "ask_user", f"{HERE}:ALL"]) == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nothing"], "agent.tools[0]: there is no tool 'nothing': name bash, read"),
        (["bash", "bash"], "agent.tools[1]: 'bash' is named twice"),
        (["a b:c"], "agent.tools[0]: 'a b:c' must be `module:object`"),
        ([":x"], "must be `module:object`"),
        (["no.such.module:x"], "agent.tools[0]: there is no module 'no.such.module': install it"),
        (["json.nothing:x"], "there is no module 'json.nothing'"),
        (["math.inner:x"], "there is no module 'math.inner'"),
    ],
)
def test_other_names_are_problems_with_their_place(names: list[str], said: str) -> None:
    (problem,) = tool_name_problems(names)
    assert said in problem


def test_whether_a_module_is_there_is_found_out_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "not_to_be_imported"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "inner.py").write_text("raise RuntimeError('imported')")
    with importable(tmp_path):
        assert tool_name_problems(["not_to_be_imported:x", "not_to_be_imported.inner:x"]) == []
        assert tool_name_problems(["not_to_be_imported.other:x"]) != []
    assert "not_to_be_imported" not in sys.modules


def test_functions_tools_and_lists_of_them_are_loaded() -> None:
    assert [tool.name for tool in load_own_tools([f"{HERE}:ALL"])] == ["shout", "whisper", "made"]
    assert [tool.name for tool in load_own_tools(["bash", "ask_user", f"{HERE}:MADE"])] == ["made"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{HERE}:missing", "cannot be loaded (AttributeError"),
        ("no.such.module:x", "cannot be loaded (ModuleNotFoundError"),
        (f"{HERE}:NUMBER", "must be a typed function"),
        (f"{HERE}:NOTHING", "must be a typed function"),
        (f"{HERE}:TAKEN", "the tool name 'bash' is taken"),
        (f"{HERE}:BADLY_NAMED", "must be 1 to 64 letters"),
        ("unknown", "there is no tool 'unknown'"),
    ],
)
def test_what_cannot_be_loaded_fails_the_set_up_with_a_sentence(name: str, said: str) -> None:
    with pytest.raises(ToolSetupError) as caught:
        load_own_tools([name])
    assert said in str(caught.value)


def test_a_module_that_ends_the_process_fails_the_set_up_only(tmp_path: Path) -> None:
    (tmp_path / "ends_it.py").write_text("import sys; sys.exit(0)")
    with importable(tmp_path), pytest.raises(ToolSetupError, match="SystemExit"):
        load_own_tools(["ends_it:x"])


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolSetupError, match="'shout' is taken"):
        load_own_tools([f"{HERE}:ALL", f"{HERE}:shout"])


def test_an_entry_point_is_a_name_and_is_not_imported_to_be_known(tmp_path: Path) -> None:
    package = tmp_path / "installed_tool-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-tool\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[runner.tools]\nloud = {HERE}:shout\nbroken = installed_nowhere:x\n")
    with importable(tmp_path):
        assert tool_name_problems(["loud", "broken"]) == []
        assert "installed_nowhere" not in sys.modules
        assert [tool.name for tool in load_own_tools(["loud"])] == ["shout"]
        with pytest.raises(ToolSetupError, match="ModuleNotFoundError"):
            load_own_tools(["broken"])
