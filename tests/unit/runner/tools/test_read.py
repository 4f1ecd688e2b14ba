import os
import socket
from pathlib import Path

import pytest

from runner.agent.types import AgentTool
from runner.tools.folders import ToolFolders
from runner.tools.truncation import MAX_BYTES, MAX_LINES
from tests.fakes.mcp_server import png
from tests.fakes.tool_calls import error_from, played, result_of, text_from

pytestmark = pytest.mark.anyio


@pytest.fixture
def read(files: dict[str, AgentTool]) -> AgentTool:
    return files["read"]


async def test_a_text_file_is_read(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    assert await text_from(read, path="a.txt") == "one\ntwo"
    assert await text_from(read, path=str(workspace / "a.txt")) == "one\ntwo"


async def test_offset_and_limit_choose_lines_and_the_next_offset_is_told(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("1\n2\n3\n4\n5")
    assert await text_from(read, path="a.txt", offset=2, limit=2) == "2\n3\n\n[Lines 2-3 of 5. Go on with offset=4]"
    assert await text_from(read, path="a.txt", offset=4, limit=9) == "4\n5"
    assert await text_from(read, path="a.txt", offset=5) == "5"
    assert await error_from(read, path="a.txt", offset=6) == "a.txt has 5 lines: there is no line 6"


async def test_numbers_given_as_text_or_fractions_are_taken(files: dict[str, AgentTool], workspace: Path) -> None:
    (workspace / "a.txt").write_text("1\n2\n3\n")
    message = await played(files.values(), "read", path="a.txt", offset="2", limit=1.0)
    assert message["content"][0]["text"].startswith("2\n")


async def test_a_long_file_is_cut_at_the_limit_of_lines(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 5001)))
    result = await result_of(read, path="a.txt")
    lines = result["content"][0]["text"].split("\n")
    assert lines[MAX_LINES - 1] == "2000"
    assert lines[-1] == "[Lines 1-2000 of 5000. Go on with offset=2001]"
    assert result["details"]["truncated"] == "lines"
    assert (await text_from(read, path="a.txt", offset=4999)) == "4999\n5000"


async def test_a_file_of_long_lines_is_cut_at_the_limit_of_bytes(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text(("x" * 999 + "\n") * 100)
    text = await text_from(read, path="a.txt")
    assert text.endswith("[Lines 1-51 of 100, cut at 50.0 KB. Go on with offset=52]")
    assert len(text) < MAX_BYTES + 200


async def test_a_line_that_is_too_long_is_told_with_a_way_to_see_it(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("short\n" + "x" * 200_000 + "\nend\n")
    text = await text_from(read, path="a.txt", offset=2)
    assert text.startswith("[Line 2 of a.txt has 195.3 KB")
    assert "sed -n '2p'" in text
    assert await text_from(read, path="a.txt", offset=3) == "end"


async def test_a_huge_file_is_read_at_once_without_being_held(read: AgentTool, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.write(b"first\n" * 2000)
        file.truncate(1 << 40)
    text = await text_from(read, path="huge", limit=1)
    assert text.startswith("first\n\n[Lines 1-1 of many")


async def test_an_empty_file_is_told_as_such(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").touch()
    assert await text_from(read, path="a.txt") == "[The file is empty]"


async def test_marks_and_line_ends_of_windows_are_not_shown(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (workspace / "b.txt").write_bytes("one\r\nzwölf\r\n".encode("utf-16"))
    assert await text_from(read, path="a.txt") == "one\ntwo"
    assert await text_from(read, path="b.txt") == "one\nzwölf"


async def test_text_that_is_not_utf8_is_shown_and_told(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes("naïve\n".encode("cp1252"))
    assert await text_from(read, path="a.txt") == "naïve\n\n[Not UTF-8: read as cp1252]"


async def test_a_binary_file_is_refused(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.bin").write_bytes(b"\x7fELF\0\0\0")
    assert (await error_from(read, path="a.bin")).startswith("a.bin is a binary file (7 B)")


async def test_an_image_is_read_as_an_image(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.dat").write_bytes(png(3, 4))
    text, image = (await result_of(read, path="a.dat"))["content"]
    assert text["text"].startswith("a.dat (image/png, 3 x 4 pixels")
    assert image["type"] == "image"
    assert image["mimeType"] == "image/png"


async def test_a_damaged_image_is_refused(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(png()[:-10])
    assert await error_from(read, path="a.png") == (
        "a.png is an image that cannot be shown: it is damaged or not whole"
    )


async def test_what_is_no_regular_file_is_refused_and_never_waited_for(read: AgentTool, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "sock"))
        assert "is a named pipe" in await error_from(read, path="pipe")
        assert "is a folder: use ls" in await error_from(read, path="folder")
        assert "sock is a device or pipe" in await error_from(read, path="sock")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/proc/self/environ",
        "../outside.txt",
        "link",
        "folder/link",
        "folder/../../outside.txt",
        "/dev/zero",
    ],
)
async def test_nothing_outside_of_the_workspace_is_read(read: AgentTool, workspace: Path, path: str) -> None:
    (workspace.parent / "outside.txt").write_text("secret")
    (workspace / "folder").mkdir()
    (workspace / "link").symlink_to("../outside.txt")
    (workspace / "folder" / "link").symlink_to("/etc/passwd")
    error = await error_from(read, path=path)
    assert "outside of the workspace" in error or "leads out of the workspace through a link" in error


async def test_a_link_within_the_workspace_is_followed(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("here")
    (workspace / "link").symlink_to("a.txt")
    assert await text_from(read, path="link") == "here"


async def test_links_in_a_circle_are_refused(read: AgentTool, workspace: Path) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert "circle" in await error_from(read, path="a")


async def test_a_missing_file_is_told_with_its_path_in_one_line(read: AgentTool) -> None:
    assert await error_from(read, path="no\nsuch\x1b[31m") == "no\\nsuch\\x1b[31m does not exist"


async def test_strange_paths_are_refused(read: AgentTool) -> None:
    assert "NUL" in await error_from(read, path="a\0b")
    assert "no file name can have" in await error_from(read, path="\ud800")
    assert "too long" in await error_from(read, path="x" * 5000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_missing_permission_is_told(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").touch(mode=0)
    assert "permission denied" in await error_from(read, path="a.txt")


async def test_kept_outputs_can_be_read_but_not_written(files: dict[str, AgentTool], folders: ToolFolders) -> None:
    kept = folders.keep("bash")
    kept.write(b"output\n")
    kept.close(b"")
    assert await text_from(files["read"], path=str(kept.path)) == "output"
    assert "outside of the workspace" in await error_from(files["write"], path=str(kept.path), content="x")


async def test_a_path_with_the_mark_of_a_mention_is_found(read: AgentTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("here")
    assert await text_from(read, path="@a.txt") == "here"
