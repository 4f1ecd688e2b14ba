import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.worker.places import Refusal
from runner.tools.worker.text_form import TextForm, decode_file, encode_file, line_end_of, with_line_end

MARKED = [
    TextForm("utf-8", b"\xef\xbb\xbf"),
    TextForm("utf-16-le", b"\xff\xfe"),
    TextForm("utf-16-be", b"\xfe\xff"),
    TextForm("utf-32-le", b"\xff\xfe\0\0"),
]


@given(st.binary(max_size=60), st.sampled_from([b"", *(form.mark for form in MARKED)]))
def test_a_file_that_can_be_read_as_text_is_written_back_byte_for_byte(data: bytes, mark: bytes) -> None:
    try:
        text, form = decode_file(mark + data, "f")
    except Refusal:
        return
    assert encode_file(text, form, "f") == mark + data


@given(st.text(max_size=30), st.sampled_from(MARKED))
def test_a_marked_file_keeps_its_mark_and_encoding(text: str, form: TextForm) -> None:
    assert decode_file(form.mark + text.encode(form.encoding, "surrogatepass"), "f") == (text, form)


def test_text_that_is_not_utf8_is_read_as_western() -> None:
    assert decode_file("café".encode("cp1252"), "f") == ("café", TextForm("cp1252"))
    assert decode_file(b"\x81\xe9", "f")[1] == TextForm("latin-1")


def test_a_character_that_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(Refusal, match="no '漢'"):
        encode_file("漢", TextForm("cp1252"), "f")


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe\x00"])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(Refusal):
        decode_file(data, "f")


@given(st.text(st.sampled_from("a\r\n"), max_size=20), st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_text_of_one_line_end_has_no_other(text: str, end: str) -> None:
    unified = with_line_end(text, end)
    assert unified.replace(end, "").count("\n") + unified.replace(end, "").count("\r") == 0
    assert with_line_end(unified, "\n") == with_line_end(text, "\n")


def test_the_most_frequent_line_end_is_the_files_and_the_first_if_two_are() -> None:
    assert line_end_of("a\r\nb\r\nc\n") == "\r\n"
    assert line_end_of("a\nb\r\n") == "\n"
    assert line_end_of("a\rb\r") == "\r"
    assert line_end_of("none") == "\n"
