"""JSON values written as Pi writes them, which is how JavaScript does."""

import json
import re
from decimal import Decimal
from typing import Any

from runner.agent.types import is_json_list, is_json_object


def number_text(number: int | float) -> str:
    """As JavaScript writes it: `1` for 1.0, plain decimals from 1e-6 to 1e21, else `1e-7`."""
    if isinstance(number, int):
        return str(number)
    size = abs(number)
    if number.is_integer() and size < 1e21:
        return str(int(number))
    if 1e-6 <= size < 1e21:
        return format(Decimal(repr(number)), "f")
    return re.sub(r"e([+-])0", r"e\1", repr(number))


def indented_json(value: Any, indent: str = "\n") -> str:
    """JSON over several lines, two spaces per level. (`json.dumps` writes 1.0 and 1e-07.)"""
    deeper = indent + "  "
    if is_json_object(value) and value:
        members = (
            f"{json.dumps(key, ensure_ascii=False)}: {indented_json(member, deeper)}" for key, member in value.items()
        )
        return "{" + deeper + ("," + deeper).join(members) + indent + "}"
    if is_json_list(value) and value:
        return "[" + deeper + ("," + deeper).join(indented_json(item, deeper) for item in value) + indent + "]"
    if isinstance(value, float):
        return number_text(value)
    return json.dumps(value, ensure_ascii=False)
