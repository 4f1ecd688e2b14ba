"""JSON as the providers' own SDKs write it: compact, keys in order, JavaScript's numbers, no broken
characters.

Byte-stable output is what prompt caching rests on, so a restored conversation must give the same bytes
again. Lone surrogates are taken out, because no provider accepts them and they cannot be encoded as UTF-8.
"""

import json
import math
import re
from typing import Any

from runner.models.shapes import is_list, is_object

_LONE = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Halves of a character that arrived in two pieces become the character; a lone half stays."""
    if _LONE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_surrogates(text: str) -> str:
    """The text without lone surrogates (pairs are joined). The same object when there are none."""
    if text.isascii() or _LONE.search(text) is None:
        return text
    return _LONE.sub("", join_surrogates(text))


def clean(value: Any) -> Any:
    """A copy without lone surrogates (also in keys) and without numbers that JSON does not have."""
    if isinstance(value, str):
        return without_surrogates(value)
    if is_object(value):
        return {clean(key): clean(item) for key, item in value.items()}
    if is_list(value):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def body_bytes(body: dict[str, Any]) -> bytes:
    """A request body. The cleaning copy is made only if something needs it."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:  # UnicodeEncodeError too
        return json.dumps(clean(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def js_json(value: Any) -> str:
    """What JavaScript's JSON.stringify gives: 1.0 is 1, 1e-07 is 1e-7, infinity is null."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _js_number(value)
    if is_object(value):
        members = (f"{json.dumps(str(key), ensure_ascii=False)}:{js_json(item)}" for key, item in value.items())
        return "{" + ",".join(members) + "}"
    return "[" + ",".join(js_json(item) for item in value) + "]"


def _js_number(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    if -7 < power < 0:  # Python turns to exponents two digits earlier
        mantissa = digits.replace(".", "").lstrip("-")
        return ("-" if value < 0 else "") + "0." + "0" * (-power - 1) + mantissa
    return f"{digits}e{'+' if power > 0 else '-'}{abs(power)}"
