"""The rules of the strictest reader Pi has (the 0.83 harness), for checking what we write."""

from typing import Any, cast

from checkpoint.session.decoding import parse


def read_strictly(data: bytes) -> list[dict[str, Any]]:
    """The entries; AssertionError where that reader would refuse the file or lose something of it."""
    text = data.decode()
    assert text.endswith("\n")
    values = [parse(line) for line in text.removesuffix("\n").split("\n")]
    header = values[0]
    assert header["type"] == "session"
    assert header["version"] == 3
    assert not isinstance(header["version"], bool)
    for name in ("id", "timestamp", "cwd"):
        assert isinstance(header[name], str)
        assert header[name] != ""
    known: set[str] = set()
    for value in values[1:]:
        assert isinstance(value, dict)
        entry = cast("dict[str, Any]", value)
        for name in ("type", "id", "timestamp"):
            assert isinstance(entry[name], str)
        parent = entry["parentId"]
        assert parent is None or parent in known
        assert entry["id"] not in known
        known.add(entry["id"])
    return values[1:]
