from hypothesis import given
from hypothesis import strategies as st

from runner.tools.truncation import MAX_BYTES, MAX_LINES, count_lines, cut_bytes, keep_head, keep_tail, size_text

TEXTS = st.text(st.sampled_from("ab\né😀"), max_size=200)
SMALL = st.integers(1, 30)


@given(TEXTS, SMALL, SMALL)
def test_the_kept_head_is_whole_lines_from_the_beginning_within_both_limits(text: str, lines: int, size: int) -> None:
    cut = keep_head(text, lines, size)
    assert text.startswith(cut.text)
    assert len(cut.text.encode()) <= size
    assert count_lines(cut.text) <= lines
    if cut.by is None:
        assert cut.text == text
    elif not cut.inside_line:
        assert text[len(cut.text)] == "\n"


@given(TEXTS, SMALL, SMALL)
def test_the_kept_tail_is_whole_lines_to_the_end_within_both_limits(text: str, lines: int, size: int) -> None:
    cut = keep_tail(text, lines, size)
    assert cut.inside_line or text.endswith(cut.text)
    assert len(cut.text.encode()) <= size
    assert count_lines(cut.text) <= lines
    if cut.by is None:
        assert cut.text == text
    elif not cut.inside_line:
        assert text[: len(text) - len(cut.text)].endswith("\n")


@given(TEXTS, SMALL, SMALL)
def test_nothing_is_cut_that_is_within_both_limits_and_something_if_not(text: str, lines: int, size: int) -> None:
    fits = count_lines(text) <= lines and len(text.encode()) <= size
    assert (keep_head(text, lines, size).by is None) == fits
    assert (keep_tail(text, lines, size).by is None) == fits


@given(st.text(max_size=50), st.integers(0, 60), st.booleans())
def test_a_cut_by_bytes_never_cuts_a_character(text: str, size: int, from_end: bool) -> None:
    part = cut_bytes(text, size, from_end=from_end)
    assert text.endswith(part) if from_end else text.startswith(part)
    assert size - 3 <= len(part.encode()) <= size or part == text


def test_the_limits_are_those_of_pi() -> None:
    assert (MAX_LINES, MAX_BYTES) == (2000, 50 * 1024)


def test_a_line_that_is_too_long_by_itself_is_cut_inside() -> None:
    assert keep_head("abcdef\nx", 5, 3)[:2] == ("abc", 1)
    assert keep_tail("x\nabcdef", 5, 3)[:2] == ("def", 1)
    assert keep_tail("x\nabcdef", 5, 3).inside_line


def test_sizes_are_told_for_people() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 51200, 1572864)] == [
        "0 B",
        "1023 B",
        "1.0 KB",
        "50.0 KB",
        "1.5 MB",
    ]
