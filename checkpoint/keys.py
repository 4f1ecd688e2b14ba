"""Every key below a store, in one place (layout: docs/checkpoint.md). Pure.

Refuses ids that could leave their folder: they match `[A-Za-z0-9][A-Za-z0-9_-]{0,63}` and hold no dot, so
that `<pipeline>.<attempt>.<claim>` reads back without doubt.
"""

import re

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
SEGMENT_KEY_PATTERN = rf"^sessions/{ID_PATTERN}/segments/[0-9a-f]{{64}}\.zst$"

PIPELINES = "pipelines/"
CONDITIONS_MARKER = "conditions-marker.json"
"""The object on which a store proves that it honours conditional writes."""

_ID = re.compile(ID_PATTERN)
_HEAD = re.compile(rf"{PIPELINES}({ID_PATTERN})/head\.json")


def segment_key(session_id: str, stored_sha256_hex: str) -> str:
    """Where a segment lives: named by the sha256 of its stored (compressed) bytes."""
    return f"sessions/{_checked(session_id)}/segments/{stored_sha256_hex}.zst"


def manifest_key(session_id: str, pipeline_id: str, attempt: int, claim_id: str) -> str:
    """Where the manifest of one claim lives. Two processes never share it: `claim_id` is random."""
    return f"sessions/{_checked(session_id)}/checkpoints/{_claim_name(pipeline_id, attempt, claim_id)}.json"


def diagnostic_key(session_id: str, pipeline_id: str, attempt: int, claim_id: str) -> str:
    """Where a log that must not be restored is kept for people (broken log, defect)."""
    return f"sessions/{_checked(session_id)}/diagnostics/{_claim_name(pipeline_id, attempt, claim_id)}.jsonl.zst"


def head_key(pipeline_id: str) -> str:
    """Where a pipeline's head record lives."""
    return f"{PIPELINES}{_checked(pipeline_id)}/head.json"


def pipeline_of(key: str) -> str | None:
    """The pipeline whose head lives at `key`, or None if `key` is not a head's."""
    match = _HEAD.fullmatch(key)
    return match.group(1) if match else None


def _claim_name(pipeline_id: str, attempt: int, claim_id: str) -> str:
    return f"{_checked(pipeline_id)}.{attempt}.{_checked(claim_id)}"


def _checked(name: str) -> str:
    if _ID.fullmatch(name) is None:
        raise ValueError(f"not an id: {name!r} (must match {ID_PATTERN})")
    return name
