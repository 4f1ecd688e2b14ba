"""Text from a session as a person may safely see it: nothing in it can act on a terminal or a browser. Pure.

A session holds what models, tools and web pages said, so any of it may be hostile. Control characters, escape
sequences, characters that reorder or hide text, and lone surrogates become visible signs; what is left is escaped for
where it goes. Refuses to drop anything silently: every character that is replaced leaves a sign.
"""

import re
from html import escape
from typing import Final

_HIDDEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028\u2029"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
"""Characters that change direction or order, break lines, or show nothing although they are there."""

_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_HIDDEN}]")
_LINE_UNSAFE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_HIDDEN}]")


def visible(text: str) -> str:
    """`text` with signs for whatever could act unseen; line feeds and tabs stay, CR LF becomes a line feed."""
    return _UNSAFE.sub(_sign, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """As `visible`, on one line: line feeds and tabs become signs too."""
    return _LINE_UNSAFE.sub(_sign, text)


def html_text(text: str) -> str:
    """`text` for the content of an HTML element, or for a quoted attribute."""
    return escape(visible(text), quote=True)


def html_line(text: str) -> str:
    """As `html_text`, on one line."""
    return escape(visible_line(text), quote=True)


def _sign(match: re.Match[str]) -> str:
    """`␛` for ESC and the like (Unicode's control pictures), `⟦U+202E⟧` for all others."""
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"⟦U+{code:04X}⟧"


_NON_ASCII: Final = re.compile("[^\x00-\x7e]")


def ascii_json(text: str) -> str:
    """A JSON text in ASCII: what lies beyond it (it can only be inside strings) becomes `\\u` escapes."""
    return _NON_ASCII.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
