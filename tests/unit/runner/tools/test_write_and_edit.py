import os
from pathlib import Path

import pytest

from runner.agent.types import AgentTool
from runner.tools.file_tools import prepare_edit
from tests.fakes.tool_calls import error_from, played, result_of, text_from

pytestmark = pytest.mark.anyio


@pytest.fixture
def write(files: dict[str, AgentTool]) -> AgentTool:
    return files["write"]


@pytest.fixture
def edit(files: dict[str, AgentTool]) -> AgentTool:
    return files["edit"]


def one(old: str, new: str) -> list[dict[str, str]]:
    return [{"oldText": old, "newText": new}]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_new_file_is_written_with_its_folders(write: AgentTool, workspace: Path) -> None:
    assert await text_from(write, path="a/b/c.txt", content="one\ntwö\n") == "Created a/b/c.txt (lines: 2, 9 B)"
    assert (workspace / "a/b/c.txt").read_text() == "one\ntwö\n"


async def test_a_file_is_replaced_and_keeps_its_mode(write: AgentTool, workspace: Path) -> None:
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o750)
    assert (await text_from(write, path="run.sh", content="new")).startswith("Replaced run.sh")
    assert (workspace / "run.sh").read_text() == "new"
    assert (workspace / "run.sh").stat().st_mode & 0o7777 == 0o750
    assert names(workspace) == {"run.sh"}


async def test_the_other_name_of_a_hard_link_sees_the_change(write: AgentTool, workspace: Path) -> None:
    (workspace / "a").write_text("longer than the new")
    (workspace / "b").hardlink_to(workspace / "a")
    await result_of(write, path="b", content="new")
    assert (workspace / "a").read_text() == "new"


async def test_a_link_is_written_through(write: AgentTool, workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "link").symlink_to("a")
    await result_of(write, path="link", content="new")
    assert (workspace / "a").read_text() == "new"
    assert (workspace / "link").is_symlink()


@pytest.mark.parametrize("path", ["/tmp/out.txt", "../out.txt", "out/x.txt", "dangling"])
async def test_nothing_outside_of_the_workspace_is_written(write: AgentTool, workspace: Path, path: str) -> None:
    (workspace / "out").symlink_to(workspace.parent)
    (workspace / "dangling").symlink_to("../new.txt")
    error = await error_from(write, path=path, content="x")
    assert "outside of the workspace" in error or "leads out of the workspace" in error
    assert names(workspace.parent) == {"outputs", "workspace"}


async def test_what_cannot_be_a_file_is_refused(write: AgentTool, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "file").touch()
    os.mkfifo(workspace / "pipe")
    assert "is a folder" in await error_from(write, path="folder", content="x")
    assert "is a folder" in await error_from(write, path="new/", content="x")
    assert "is not a folder" in await error_from(write, path="file/x", content="x")
    assert "named pipe" in await error_from(write, path="pipe", content="x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_read_only_file_is_not_replaced(write: AgentTool, workspace: Path) -> None:
    (workspace / "a").touch(mode=0o444)
    assert "permission denied" in await error_from(write, path="a", content="x")


async def test_an_edit_keeps_encoding_mark_and_line_ends(edit: AgentTool, workspace: Path) -> None:
    for name, encoding in (("a", "utf-8-sig"), ("b", "utf-16"), ("c", "cp1252")):
        (workspace / name).write_bytes("eins\r\nfünf\r\nsechs\n".encode(encoding))
        await result_of(edit, path=name, edits=one("eins\nfünf", "1\n5ü"))
        assert (workspace / name).read_bytes() == "1\r\n5ü\r\nsechs\n".encode(encoding)


async def test_an_edit_tells_what_changed(edit: AgentTool, workspace: Path) -> None:
    (workspace / "a").write_text("".join(f"{number}\n" for number in range(1, 21)))
    result = await result_of(edit, path="a", edits=one("10\n", "ten\n"))
    assert result["content"][0]["text"] == "Replaced 1 place in a, from line 10"
    assert result["details"]["firstChangedLine"] == 10
    assert result["details"]["diff"].split("\n")[2:] == [
        "@@ -7,7 +7,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"
    ]  # fmt: skip


@pytest.mark.parametrize(("old", "said"), [("x", "does not occur"), ("a", "occurs in 2 places"), ("", "is empty")])
async def test_an_edit_that_does_not_fit_one_place_changes_nothing(
    edit: AgentTool, workspace: Path, old: str, said: str
) -> None:
    (workspace / "f").write_text("a\na\n")
    before = (workspace / "f").stat()
    assert said in await error_from(edit, path="f", edits=one(old, "b"))
    assert (workspace / "f").stat().st_ino == before.st_ino
    assert (workspace / "f").read_text() == "a\na\n"


async def test_binary_huge_missing_and_other_files_cannot_be_edited(edit: AgentTool, workspace: Path) -> None:
    (workspace / "bin").write_bytes(b"a\0")
    os.mkfifo(workspace / "pipe")
    with (workspace / "huge").open("wb") as file:
        file.truncate(1 << 30)
    edits = one("a", "b")
    assert "binary" in await error_from(edit, path="bin", edits=edits)
    assert "named pipe" in await error_from(edit, path="pipe", edits=edits)
    assert "16.0 MB can be edited" in await error_from(edit, path="huge", edits=edits)
    assert "does not exist" in await error_from(edit, path="none", edits=edits)
    assert "is a folder" in await error_from(edit, path=".", edits=edits)


async def test_two_edits_of_one_file_at_once_both_count(edit: AgentTool, workspace: Path) -> None:
    import asyncio

    (workspace / "f").write_text("a b")
    await asyncio.gather(result_of(edit, path="f", edits=one("a", "A")), result_of(edit, path="f", edits=one("b", "B")))
    assert (workspace / "f").read_text() == "A B"


@pytest.mark.parametrize(
    "args",
    [
        {"oldText": "a", "newText": "b"},
        {"edits": {"oldText": "a", "newText": "b"}},
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
    ],
)
async def test_the_shapes_that_models_and_old_transcripts_use_are_taken(
    files: dict[str, AgentTool], workspace: Path, args: dict[str, object]
) -> None:
    (workspace / "f").write_text("a")
    message = await played(files.values(), "edit", path="f", **args)
    assert message["isError"] is False
    assert (workspace / "f").read_text() == "b"


@pytest.mark.parametrize("args", [None, [], {"path": "f"}, {"edits": "no json"}, {"edits": [], "oldText": "a"}])
def test_other_shapes_are_left_to_the_schema(args: object) -> None:
    assert prepare_edit(args) == args
