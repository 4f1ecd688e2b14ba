import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.tools.registry import ToolSetupError, load_own_tools

TOOL = "from runner.agent.types import AgentTool\n\n\ndef tool(name):\n    return AgentTool(name, '', {}, None)\n\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that modules are imported from."""
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.path.remove(str(tmp_path))


def test_names_without_a_colon_load_nothing() -> None:
    assert load_own_tools(["ask_user", "collect_form_input"]) == []


def test_a_tool_a_list_of_tools_and_an_attribute_of_an_attribute_are_loaded_in_order(folder: Path) -> None:
    own = "ONE = tool('one')\nMORE = (tool('two'), tool('three'))\n\n\nclass Kept:\n    four = tool('four')\n"
    (folder / "registry_good.py").write_text(TOOL + own)
    names = ["registry_good:ONE", "ask_user", "registry_good:MORE", "registry_good:Kept.four"]
    assert [tool.name for tool in load_own_tools(names)] == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("absent", None, "ModuleNotFoundError"),
        ("nothing", "", "AttributeError"),
        ("raising", "raise RuntimeError('no key')", "RuntimeError: no key"),
        ("leaving", "import sys\nsys.exit(4)", "SystemExit: 4"),
        ("broken", "def", "SyntaxError"),
        ("other", "FOUND = 7", "must be a runner.agent.types.AgentTool or a list of them"),
        ("empty", "FOUND = []", "must be a runner.agent.types.AgentTool or a list of them"),
        ("mixed", TOOL + "FOUND = [tool('a'), 7]", "must be a runner.agent.types.AgentTool or a list of them"),
        ("asking", TOOL + "FOUND = tool('ask_user')", "the tool name 'ask_user' is taken"),
        ("planned", TOOL + "FOUND = tool('bash')", "the tool name 'bash' is taken"),
        ("twice", TOOL + "FOUND = [tool('a'), tool('a')]", "the tool name 'a' is taken: give your tool another name"),
    ],
)
def test_what_cannot_be_set_up_is_named_with_its_reason(folder: Path, name: str, text: str | None, says: str) -> None:
    module = f"registry_{name}"
    if text is not None:
        (folder / f"{module}.py").write_text(text)
    with pytest.raises(ToolSetupError) as refused:
        load_own_tools([f"{module}:FOUND"])
    assert says in str(refused.value)
