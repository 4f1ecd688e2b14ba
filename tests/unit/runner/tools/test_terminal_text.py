import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.terminal_text import plain_text


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b[2J\x1b[1;1Htop", "top"),
        (b"\x1b]0;a title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]52;c;ZXZpbA==\x07", ""),
        (b"\x1b(Bg", "g"),
        (b"\x1bcreset", "reset"),
        (b"lone \x1b", "lone "),
        (b"\xc2\x9b31mred", "red"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"one\r\rtwo\r\nend\r", "two\nend"),
        (b"windows\r\nlines\r\n", "windows\nlines\n"),
        (b"bo\x08old", "bold"),
        (b"a\x00b\x07c", "a\ufffdb\ufffdc"),
        (b"bad \xff byte", "bad \ufffd byte"),
    ],
)
def test_what_a_terminal_would_act_on_is_taken_out(output: bytes, text: str) -> None:
    assert plain_text(output) == text


@given(st.binary(max_size=300))
def test_no_control_character_but_tab_and_line_end_is_left(output: bytes) -> None:
    text = plain_text(output)
    assert all(char in "\t\n" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert plain_text(text.encode()) == text


@pytest.mark.parametrize(
    "output",
    [b"a" * 400_000 + b"\r", b"\x1b[" + b"0" * 400_000, b"\x1b]" * 200_000, b"a\r" * 200_000, b"\x1b[ " * 100_000],
)
@pytest.mark.timeout(10)
def test_no_output_takes_long_to_be_read(output: bytes) -> None:
    assert len(plain_text(output)) <= len(output)


def test_a_string_that_never_ends_takes_no_more_than_its_line_with_it() -> None:
    assert plain_text(b"\x1b]0;never ended\nnext line\n") == "\nnext line\n"
