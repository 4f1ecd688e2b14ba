"""Sessions in folder stores for the tests of inspection: checkpoints of any bytes, heads in any state."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpoint.freeze import NOTHING_STORED, Stored, freeze
from checkpoint.head import Claimant, Progress, Terminal
from checkpoint.head_writer import HeadWriter
from checkpoint.manifest import RestorePoint, chain_of
from checkpoint.session.migration import index_file
from checkpoint.store.file_store import FileStore
from checkpoint.upload import CheckpointFacts, Uploaded, store_lines, upload
from runner.inspection.source import StoreOptions
from runner.secrets import DEFAULT_FOLDER

CORPUS = Path(__file__).parents[3] / "corpus" / "session"
NOWHERE = StoreOptions(DEFAULT_FOLDER, {})
TIME = "2026-01-01T00:00:00.000Z"


def session_bytes(*messages: dict[str, Any], header: dict[str, Any] | None = None) -> bytes:
    """A session of some messages, one after another, a second apart."""
    lines: list[dict[str, Any]] = [
        header or {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/workspace"}
    ]
    parent = None
    for number, message in enumerate(messages):
        entry_id = f"{number + 1:08x}"
        stamp = f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"
        lines.append({"type": "message", "id": entry_id, "parentId": parent, "timestamp": stamp, "message": message})
        parent = entry_id
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str, *blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    cost = {"input": 0, "output": 0.5, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}
    usage = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 20, "cost": cost}
    message: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}, *blocks],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "m-1",
        "usage": usage,
        "stopReason": "toolUse" if blocks else "stop",
    }
    return message | fields


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, text: str, name: str = "bash", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": content,
        "isError": False,
    } | fields


@dataclass
class Shelf:
    """A folder store below `folder`."""

    folder: Path
    root: Path = field(init=False)
    store: FileStore = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.folder / "store"
        self.store = FileStore(self.root)

    def checkpoint(
        self,
        data: bytes,
        pipeline: str = "p1",
        parent: RestorePoint | None = None,
        stored: Stored = NOTHING_STORED,
        files: dict[str, Path] | None = None,
    ) -> Uploaded:
        """A manifest of these session bytes, whole lines all of them."""
        log = self.folder / f"{pipeline}.log"
        log.write_bytes(data)
        index = index_file(log, "skip")
        candidate = freeze(log, size=len(data), entries=index.entries, leaf_id=index.leaf_id, stored=stored)
        facts = CheckpointFacts("s1", pipeline, 1, f"c-{pipeline}", TIME, "1.0.0", parent)
        return upload(self.store, candidate, facts, files=files)

    def segments(self, *pieces: bytes, pipeline: str = "p1") -> Uploaded:
        """A manifest whose segments hold one piece each."""
        stored, data = NOTHING_STORED, b""
        log = self.folder / f"{pipeline}.pieces"
        for piece in pieces:
            data += piece
            log.write_bytes(data)
            stored = store_lines(self.store, "s1", log, len(data), stored).stored
        return self.checkpoint(data, pipeline, stored=stored)

    def head(
        self,
        *,
        restore: RestorePoint | None = None,
        terminal: tuple[dict[str, Any], Uploaded | None] | None = None,
        progress: bytes | None = None,
        before: Stored = NOTHING_STORED,
    ) -> str:
        """The address of a claimed head, or of a settled one."""
        writer = HeadWriter(self.store, "p1")
        writer.claim(Claimant("p1", "s1", 1, "c1", TIME, 60, 5, None, restore))
        if progress is not None:
            log = self.folder / "progress.log"
            log.write_bytes(progress)
            stored = store_lines(self.store, "s1", log, len(progress), before).stored
            own = Progress(
                segments=stored.own,
                entries=1,
                leaf_id=None,
                chain=chain_of(stored.segments),
                input_consumed=True,
                usage={},
            )
            writer.update(own)
        if terminal is not None:
            body, uploaded = terminal
            key, digest = (uploaded.key, uploaded.digest) if uploaded is not None else (None, None)
            writer.commit_terminal(Terminal(body=json.dumps(body), webhook_id="term_p1", manifest=key, digest=digest))
        return self.path("pipelines/p1/head.json")

    def path(self, key: str) -> str:
        return str(self.root / key)

    def spoil(self, key: str, data: bytes | None) -> None:
        """Put other bytes in the place of an object, or remove it."""
        path = self.root / key
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)


def point(uploaded: Uploaded) -> RestorePoint:
    return RestorePoint(manifest=uploaded.key, digest=uploaded.digest)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: its time of change and its bytes."""
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
