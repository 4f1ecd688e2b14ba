"""Parts of an entry as HTML: everything escaped, long things folded, images only of safe kinds. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from runner.inspection.parts import CallPart, ImagePart, JsonPart, Part, TextPart
from runner.inspection.visible_text import html_line, html_text
from runner.inspection.wording import amount, pretty

FOLD_CHARS: Final = 1500
FOLD_LINES: Final = 25
CUT_CHARS: Final = 200_000
CUT_IMAGE_CHARS: Final = 8_000_000
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)


def part_html(part: Part, *, full: bool) -> Iterator[str]:
    match part:
        case TextPart(text, look, label):
            if label is not None:
                yield f'<p class="meta">{html_line(label)}</p>'
            yield from text_html(text, look, full=full)
        case CallPart(name, call_id, arguments):
            named = f"<strong><bdi>{html_line(name)}</bdi></strong>"
            yield f'<p>calls {named} <span class="meta"><bdi>{html_line(call_id)}</bdi></span></p>'
            yield from text_html(pretty(arguments), "output", full=full)
        case JsonPart(label, value):
            yield f"<details><summary>{html_line(label)}</summary>"
            yield from text_html(pretty(value), "output", full=full, fold=False)
            yield "</details>"
        case ImagePart():
            yield _image(part, full=full)


def text_html(text: str, look: str, *, full: bool, fold: bool = True) -> Iterator[str]:
    """A text with its line breaks and in its own direction; folded if long, cut (and it says so) if huge."""
    shown = text if full else text[:CUT_CHARS]
    long = fold and (len(text) > FOLD_CHARS or text.count("\n") > FOLD_LINES)
    if long:
        head = shown[:200].lstrip().partition("\n")[0][:80]
        yield f"<details><summary><bdi>{html_line(head)}</bdi>… ({amount(len(text), 'character')})</summary>"
    yield f'<pre class="{look}" dir="auto">{html_text(shown)}</pre>'
    if len(shown) < len(text):
        left_out = amount(len(text) - len(shown), "more character")
        yield f'<p class="meta">{left_out} left out (runner inspect --full has them)</p>'
    if long:
        yield "</details>"


def _image(image: ImagePart, *, full: bool) -> str:
    kind, size = image.mime_type.lower(), amount(len(image.data) * 3 // 4, "byte")
    if kind not in _IMAGES:
        return f'<p class="meta">image of type {html_line(image.mime_type[:100])}, {size}: not shown</p>'
    if _BASE64.fullmatch(image.data) is None:
        return f'<p class="meta">{kind}: its data is no base64, not shown</p>'
    if len(image.data) > CUT_IMAGE_CHARS and not full:
        return f'<p class="meta">{kind}, {size}: left out (runner inspect --full has it)</p>'
    return f'<img src="data:{kind};base64,{image.data}" alt="{kind} of the session, {size}">'
