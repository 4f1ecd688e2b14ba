"""Names for parsed JSON. Session payloads are plain dicts, so that fields nobody here knows survive."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A parsed JSON object; keys as Pi writes them (camelCase) in session payloads."""

Message: TypeAlias = JsonObject
"""A transcript message, told apart by `role`: user, assistant, toolResult, system, or a custom role."""
