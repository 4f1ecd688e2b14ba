import os
from pathlib import Path

import pytest

from runner.agent.types import AgentTool
from tests.fakes.tool_calls import error_from, result_of, text_from

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(workspace: Path) -> Path:
    for path, text in {
        "src/main.py": "import os\n\ndef main():\n    print('hello')\n",
        "src/deep/util.py": "HELLO = 1\n",
        "README.md": "hello there\n",
        ".hidden": "hello\n",
        "build/out.py": "hello\n",
        "src/keep.log": "hello\n",
        "src/other.log": "hello\n",
        ".git/config": "hello\n",
        ".gitignore": "build/\n*.log\n!keep.log\n",
        "src/.gitignore": "/deep\n",
    }.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    (workspace / "data.bin").write_bytes(b"\0hello")
    return workspace


async def test_grep_gives_path_line_and_text_of_what_git_does_not_ignore(
    files: dict[str, AgentTool], tree: Path
) -> None:
    assert (await text_from(files["grep"], pattern="hello")).split("\n") == [
        ".hidden:1: hello",
        "README.md:1: hello there",
        "src/keep.log:1: hello",
        "src/main.py:4:     print('hello')",
    ]


async def test_grep_takes_globs_case_literals_and_single_files(files: dict[str, AgentTool], tree: Path) -> None:
    grep = files["grep"]
    assert await text_from(grep, pattern="HELLO", ignoreCase=True, glob="*.md") == "README.md:1: hello there"
    assert await text_from(grep, pattern="print('", literal=True) == "src/main.py:4:     print('hello')"
    assert await text_from(grep, pattern="^def \\w+", path="src/main.py") == "main.py:3: def main():"
    assert await text_from(grep, pattern="hello", glob="!*.{md,log,py}") == ".hidden:1: hello"
    assert await text_from(grep, pattern="^[[:upper:]]+ =", path="src/deep/util.py") == "util.py:1: HELLO = 1"
    assert await text_from(grep, pattern="nowhere") == "No matches found"


async def test_grep_shows_lines_around_a_match_once(files: dict[str, AgentTool], workspace: Path) -> None:
    (workspace / "f").write_text("1\nx\n3\nx\n5\n6\n7\n8\nx\n")
    assert (await text_from(files["grep"], pattern="x", context=1)).split("\n") == [
        "f-1- 1", "f:2: x", "f-3- 3", "f:4: x", "f-5- 5", "--", "f-8- 8", "f:9: x"
    ]  # fmt: skip


async def test_grep_stops_at_its_limit_and_cuts_long_lines(files: dict[str, AgentTool], workspace: Path) -> None:
    (workspace / "f").write_text("x\n" * 101)
    (workspace / "g").write_text("y" * 600)
    result = await result_of(files["grep"], pattern="x")
    assert result["content"][0]["text"].count("f:") == 100
    assert result["details"] == {"matchLimitReached": 100}
    assert "Stopped at 100 matches" in result["content"][0]["text"]
    assert "matches" not in await text_from(files["grep"], pattern="x", limit=101)
    assert "[Lines are cut at 500 characters" in await text_from(files["grep"], pattern="y")


async def test_a_wrong_pattern_is_explained(files: dict[str, AgentTool]) -> None:
    assert "set literal" in await error_from(files["grep"], pattern="a(b")
    assert "does not exist" in await error_from(files["grep"], pattern="a", path="none")
    assert "outside of the workspace" in await error_from(files["grep"], pattern="root", path="/etc")


async def test_links_are_not_followed_by_searches(files: dict[str, AgentTool], workspace: Path) -> None:
    (workspace.parent / "secret").write_text("hello")
    (workspace / "up").symlink_to("..")
    (workspace / "file").symlink_to("../secret")
    assert await text_from(files["grep"], pattern="hello") == "No matches found"
    assert await text_from(files["find"], pattern="secret") == "No files found"


async def test_a_pipe_does_not_stop_a_search(files: dict[str, AgentTool], workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    os.mkfifo(workspace / ".gitignore")
    (workspace / "a").write_text("hello")
    assert await text_from(files["grep"], pattern="hello") == "a:1: hello"


async def test_find_gives_paths_below_the_folder(files: dict[str, AgentTool], tree: Path) -> None:
    find = files["find"]
    assert await text_from(find, pattern="*.py") == "src/main.py"
    assert await text_from(find, pattern="*.py", path="src/deep") == "util.py"
    assert await text_from(find, pattern="src/*") == "src/.gitignore\nsrc/keep.log\nsrc/main.py"
    assert await text_from(find, pattern="src") == "src/"
    assert await text_from(find, pattern="*.none") == "No files found"
    assert "is no folder" in await error_from(find, pattern="*", path="README.md")


async def test_find_and_ls_stop_at_their_limits(files: dict[str, AgentTool], workspace: Path) -> None:
    for number in range(12):
        (workspace / f"f{number:02}").touch()
    found = await result_of(files["find"], pattern="f*", limit=5)
    listed = await result_of(files["ls"], limit=5)
    assert found["details"] == {"resultLimitReached": 5}
    assert found["content"][0]["text"].endswith("f04\n\n[Stopped at 5 results: refine the pattern, or use limit=10]")
    assert listed["content"][0]["text"].endswith("f04\n\n[5 of 12 entries: use limit=10 for more]")


async def test_ls_sorts_without_case_and_marks_folders(files: dict[str, AgentTool], workspace: Path) -> None:
    for name in ("b", "A", ".c"):
        (workspace / name).touch()
    (workspace / "dir").mkdir()
    (workspace / "two\nlines").touch()
    (workspace / os.fsdecode(b"bad\xff")).touch()
    (workspace / "dangling").symlink_to("nowhere")
    assert (await text_from(files["ls"])).split("\n") == [
        ".c", "A", "b", "bad\\xff", "dangling", "dir/", "two\\nlines"
    ]  # fmt: skip
    assert await text_from(files["ls"], path="dir") == "(the folder is empty)"


async def test_more_than_can_be_shown_is_cut(files: dict[str, AgentTool], workspace: Path) -> None:
    for number in range(400):
        (workspace / f"{number:03}{'x' * 200}").touch()
    result = await result_of(files["ls"])
    assert result["details"]["truncated"] == "bytes"
    assert result["content"][0]["text"].endswith("[Cut at 50.0 KB]")
