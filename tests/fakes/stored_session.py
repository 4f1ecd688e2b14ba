"""What a terminal record's checkpoint holds, read from a store in memory without the product's own restore."""

import json

import zstandard

from checkpoint.jsontypes import JsonObject
from tests.fakes.memory_store import MemoryStore


def stored_entries(store: MemoryStore, terminal: JsonObject) -> list[JsonObject]:
    """The lines of the session, header first."""
    manifest = json.loads(store.objects[terminal["checkpoint"]["manifest"]])
    return [json.loads(line) for line in stored_lines(store, manifest["segments"]).splitlines()]


def stored_lines(store: MemoryStore, segments: list[JsonObject]) -> bytes:
    data = b""
    for segment in segments:
        reader = zstandard.ZstdDecompressor().stream_reader(store.objects[segment["key"]], read_across_frames=True)
        data += reader.read()
    return data


def stored_messages(entries: list[JsonObject]) -> list[JsonObject]:
    return [entry["message"] for entry in entries if entry["type"] == "message"]
