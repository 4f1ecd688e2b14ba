import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.worker.places import Places, Refusal, os_error_text, shown


@given(st.binary(min_size=1, max_size=30).map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_a_path_is_always_told_in_one_printable_line(path: str) -> None:
    assert shown(path).isprintable()


@given(st.lists(st.sampled_from(["..", ".", "a", "link", "up", ""]), max_size=6).map("/".join))
def test_no_way_through_dots_and_links_leads_out(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    root = tmp_path_factory.getbasetemp() / "places"
    workspace = root / "workspace"
    if not workspace.exists():
        (workspace / "a" / "a").mkdir(parents=True)
        (workspace / "link").symlink_to("/etc")
        (workspace / "a" / "up").symlink_to("..")
    places = Places(str(workspace))
    try:
        real = places.to_read(path)
    except Refusal:
        return
    assert Path(real) == workspace.resolve() or workspace.resolve() in Path(real).parents


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "permission denied"),
        (errno.ENOSPC, "the disk is full"),
        (errno.EFBIG, "larger than tools may write"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_the_system_refuses_is_told_in_a_sentence(number: int, said: str) -> None:
    import os

    assert said in os_error_text(OSError(number, os.strerror(number)), "a.txt")
