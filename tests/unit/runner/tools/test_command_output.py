from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools import folders as folders_module
from runner.tools.command_output import WINDOW_BYTES, CommandOutput
from runner.tools.folders import MAX_KEPT_BYTES, ToolFolders
from runner.tools.terminal_text import plain_text
from runner.tools.truncation import MAX_BYTES

CHUNKS = st.lists(st.tuples(st.binary(max_size=4), st.integers(0, 20_000)), max_size=6)


@given(chunks=CHUNKS)
def test_short_output_is_shown_and_long_output_is_kept_whole(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[bytes, int]]
) -> None:
    folders = ToolFolders(Path("/"), tmp_path_factory.mktemp("outputs"))
    output = CommandOutput(folders, "bash")
    for data, times in chunks:
        output.feed(data * times)
    output.close()
    text, details = output.shown()
    whole = b"".join(data * times for data, times in chunks)
    assert len(text.encode()) <= MAX_BYTES + 500
    if "fullOutputPath" in details:
        assert Path(details["fullOutputPath"]).read_bytes() == whole
    else:
        assert len(plain_text(whole).encode()) <= MAX_BYTES


def test_what_is_dropped_is_counted_and_the_end_is_kept(tmp_path: Path) -> None:
    output = CommandOutput(ToolFolders(tmp_path, tmp_path), "bash")
    chunk = b"0123456789abcde\n" * 4096
    for _ in range(MAX_KEPT_BYTES // len(chunk) + 20):
        output.feed(chunk)
    output.feed(b"the end\n")
    output.close()
    kept = (tmp_path / "bash-1.txt").read_bytes()
    assert kept.endswith(b"abcde\nthe end\n")
    dropped = int(kept.split(b"\n[... ")[1].split()[0])
    marker = len(b"\n[... %d bytes dropped ...]\n" % dropped)
    assert len(kept) == MAX_KEPT_BYTES + marker + WINDOW_BYTES
    assert dropped + len(kept) - marker == output.total_bytes
    assert f"({dropped} bytes dropped from its middle)" in output.shown()[0]


def test_all_outputs_of_a_run_together_are_bounded(tmp_path: Path) -> None:
    folders = ToolFolders(tmp_path, tmp_path, 100_000)
    for _ in range(3):
        output = CommandOutput(folders, "bash")
        for _ in range(2):
            output.feed(b"x" * 60_000)
        output.close()
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert total < 100_000 + 3 * (WINDOW_BYTES + 100)
    assert folders_module.MAX_ALL_KEPT_BYTES == 256 * 1024 * 1024


def test_names_of_kept_files_are_plain_and_never_used_twice(tmp_path: Path) -> None:
    folders = ToolFolders(tmp_path, tmp_path)
    for name in ("a/../b", "a/../b", ""):
        folders.keep(name).close(b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a____b-1.txt", "a____b-2.txt", "output-1.txt"]


def test_a_kept_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bash-1.txt").symlink_to("/etc/passwd")
    with pytest.raises(FileExistsError):
        ToolFolders(tmp_path, tmp_path).keep("bash")
