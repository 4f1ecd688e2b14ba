"""The few rules of JavaScript that decide how Pi reads a session file: blanks, truth, equality, numbers,
dates.

Pure. Refuses to be an emulator: only what a session file can bring about is here.
"""

import math
import re
from datetime import date
from typing import Any, Final, final

MAX_SAFE_INTEGER: Final = 2**53 - 1


@final
class Undefined:
    """The value of a field that is absent, which JavaScript tells apart from null."""

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = Undefined()

# What String.prototype.trim takes away: white space, line ends, and the byte order mark.
_TRIM: Final = (
    "\t\n\x0b\x0c\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def trim(text: str) -> str:
    return text.strip(_TRIM)


def truthy(value: Any) -> bool:
    """As in `if (value)`: unlike in Python, empty lists and objects are true."""
    if isinstance(value, (list, dict)):
        return True
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def identity(value: Any) -> Any:
    """A hashable stand-in that is equal exactly when JavaScript's `===` (and `Map`) finds parsed values
    equal.
    """
    if isinstance(value, str) or value is None or value is UNDEFINED:
        return value
    if isinstance(value, bool):
        return ("boolean", value)
    if is_number(value):
        return ("number", float(value))
    return object()


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def to_number(value: Any) -> float:
    """`Number(value)` for what JSON can hold; NaN where JavaScript gives NaN, and for lists and objects."""
    if value is None:
        return 0.0
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, str):
        text = trim(value)
        if text == "":
            return 0.0
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
            return float(text)
    return math.nan


def to_text(value: Any) -> str:
    """`${value}` for what a message field may hold."""
    if isinstance(value, str):
        return value
    if value is UNDEFINED:
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_to_text(value) if is_number(value) else "[object Object]"


def number_from_text(text: str) -> int | float:
    """The value of an integer literal as a double has it: `9007199254740993` loses a digit, as in Pi."""
    if len(text) <= 15:
        return int(text)
    value = float(text)
    return int(value) if math.isfinite(value) else value


def number_to_text(value: float) -> str:
    """A number as JavaScript prints it: `1.0` is `1`, `1e16` is spelled out, `1e-7` has no leading zero; no
    NaN.
    """
    if isinstance(value, int) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return str(value)
    try:
        value = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(value).partition("e")
    if exponent == "":
        return mantissa.removesuffix(".0")
    if 1e-6 <= abs(value) < 1e21:
        return _without_exponent(mantissa, int(exponent))
    return f"{mantissa}e{int(exponent):+d}"


def _without_exponent(mantissa: str, exponent: int) -> str:
    """`-1.25`, 20 as `-125000000000000000000`; `1.25`, -6 as `0.00000125`: zeros instead of the exponent."""
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = whole + fraction
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return sign + digits.ljust(exponent + 1, "0")


_ISO: Final = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d))?)?"
    r"([T ](?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d+))?)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)


def date_ms(value: Any) -> int | None:
    """`new Date(value).getTime()` in ms since 1970, None for an invalid date (NaN, which JSON writes as
    null).

    Of texts only ISO 8601 is understood (a blank may stand for `T`), which is all that Pi writes; a time
    without a zone counts as UTC here.
    """
    if isinstance(value, str):
        return _iso_ms(value)
    if value is None or isinstance(value, (bool, int, float)):
        number = to_number(value)
        return int(number) if abs(number) <= 8.64e15 else None
    return None


def _iso_ms(text: str) -> int | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    year, month, day = int(part["year"]), int(part["month"] or 1), int(part["day"] or 1)
    hour, minute, second = int(part["hour"] or 0), int(part["minute"] or 0), int(part["second"] or 0)
    in_range = 1 <= month <= 12 and 1 <= day <= 31 and hour <= 24 and minute <= 59 and second <= 59
    if year == 0 or not in_range or (hour == 24 and (minute or second)):
        return None
    days = (date(year, month, 1) - date(1970, 1, 1)).days + day - 1  # the 30th of February is a day in March
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - _offset_seconds(part["zone"] or "Z")
    return seconds * 1000 + int(((part["fraction"] or "") + "000")[:3])


def _offset_seconds(zone: str) -> int:
    if zone == "Z":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
    return -seconds if zone[0] == "-" else seconds
