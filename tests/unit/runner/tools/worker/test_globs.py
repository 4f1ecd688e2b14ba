import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.worker.globs import PathFilter, glob_regex
from runner.tools.worker.places import Refusal


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/y/a.py", True),
        ("src/**", "src/x/y", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.jsx", False),
        ("[ab].c", "a.c", True),
        ("[!ab].c", "a.c", False),
        ("[!ab].c", "c.c", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        (".*", ".hidden", True),
        ("*", ".hidden", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a[b", "a[b", True),
        ("a+(b)", "a+(b)", True),
    ],
)
def test_globs_are_read_as_ripgrep_and_fd_read_them(pattern: str, path: str, matches: bool) -> None:
    assert PathFilter(pattern).matches(path, is_folder=False) is matches


def test_a_slash_at_the_end_asks_for_folders() -> None:
    assert PathFilter("a/").matches("x/a", is_folder=True)
    assert not PathFilter("a/").matches("x/a", is_folder=False)


@given(st.text("ab*?[]{},!^-\\/.|&~", max_size=20), st.text("ab/.", max_size=10))
def test_any_pattern_can_be_used_or_is_refused(pattern: str, path: str) -> None:
    try:
        regex = glob_regex(pattern)
    except Refusal:
        return
    regex.fullmatch(path)
