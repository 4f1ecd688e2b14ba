"""What a session says can act on no terminal and no browser."""

import json
import unicodedata
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.session.encoding import encode
from runner.inspection.visible_text import ascii_json, html_line, html_text, visible, visible_line

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Lone surrogates and all."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x07", "␛[2J␇"),
        ("a\r\nb\rc\td", "a\nb␍c\td"),
        ("\x00\x7f\x9b31m", "␀␡⟦U+009B⟧31m"),
        ("safe\u202efdp.exe", "safe⟦U+202E⟧fdp.exe"),
        ("\u2066x\u2069\u200f", "⟦U+2066⟧x⟦U+2069⟧⟦U+200F⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("\ufeff\u200b\u2028", "⟦U+FEFF⟧⟦U+200B⟧⟦U+2028⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("שלום · 你好 · 👩\u200d🔬 · é", "שלום · 你好 · 👩\u200d🔬 · é"),
    ],
)
def test_what_could_act_unseen_becomes_a_sign(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_on_one_line_line_feeds_and_tabs_are_signs_too() -> None:
    assert visible_line("a\nb\tc") == "a␊b␉c"


@given(ANY_TEXT)
def test_no_control_and_no_bidi_override_is_left(text: str) -> None:
    for shown in (visible(text), visible_line(text), html_text(text), html_line(text)):
        shown.encode()
        assert all(
            unicodedata.category(character) not in ("Cc", "Cs")
            for character in shown.replace("\n", "").replace("\t", "")
        )
        assert not any(
            unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
            for c in shown
        )


@given(ANY_TEXT)
def test_text_in_html_is_text_and_nothing_else(text: str) -> None:
    seen: list[Any] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            seen.append(data)

    reader = Reader()
    reader.feed(f'<p title="{html_line(text)}">{html_text(text)}')
    reader.close()
    assert seen[0] == ("p", [("title", visible_line(text))])
    assert "".join(seen[1:]) == visible(text)


@given(st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=4))
def test_json_in_ascii_is_the_same_json(value: dict[str, Any]) -> None:
    text = ascii_json(encode(value).decode())
    assert text.isascii()
    assert "\x7f" not in text
    assert encode(json.loads(text)) == encode(value)
