"""Opens what a person points at (a head, a manifest, a plain session file, in any store) as a local session to look at.

Read-only: the source is never touched, and the local copies are gone when the block ends. Refuses whatever is damaged,
with the place and how much was read; with `skip` it reads on and lists the damage (docs/inspection.md).
"""

import re
import tempfile
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from checkpoint.errors import CheckpointError, DamagedRecord, StoreError
from checkpoint.head import HEAD_LIMIT, Head, Progress, parse_head
from checkpoint.jsontypes import JsonObject
from checkpoint.keys import ID_PATTERN
from checkpoint.manifest import (
    MANIFEST_LIMIT,
    Manifest,
    RestorePoint,
    Segment,
    chain_of,
    digest_of,
    parse_manifest,
    parse_record,
)
from checkpoint.plain_source import OtherStore, open_plain
from checkpoint.segments import PIECE_BYTES
from checkpoint.session.index import OnDamage
from checkpoint.store.addresses import FileAddress, parse_address
from checkpoint.store.port import ObjectStore
from runner.errors import InfrastructureError, Refused
from runner.inspection.errors import SourceFailed
from runner.inspection.meter import Meter, NoMeter, shown_meter
from runner.inspection.reading import Damage, Findings, read_plain, read_segments
from runner.inspection.session_file import SessionFile, open_session_file

if TYPE_CHECKING:
    from runner.secrets import Secrets

SourceKind: TypeAlias = Literal["head", "manifest", "plain"]
Basis: TypeAlias = Literal["checkpoint", "progress", "restore", "plain", "nothing"]
"""Where the session comes from: the committed checkpoint; of a head without one, its progress, or else what it was to
restore; a plain file; or nothing, for a head that has no session yet."""

_HEAD: re.Pattern[str] = re.compile(rf"(?:(?P<store>.*)/)?(?P<key>pipelines/{ID_PATTERN}/head\.json)")
_MANIFEST: re.Pattern[str] = re.compile(
    rf"(?:(?P<store>.*)/)?(?P<key>sessions/{ID_PATTERN}/checkpoints/[^/]+\.json)", re.DOTALL
)


@dataclass(frozen=True)
class StoreOptions:
    """How stores are reached, as the options of `runner deliver` say it."""

    secrets_folder: Path
    environ: MutableMapping[str, str]
    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: str | None = None

    @cached_property
    def _secrets(self) -> "Secrets":
        """Read once: variables are gone afterwards, and a command may open several stores."""
        from runner.secrets import AWS_NAMES, load_secrets

        return load_secrets(self.secrets_folder, AWS_NAMES, self.environ)

    def opener(self) -> OtherStore:
        """Opens the store at an address; reads the AWS secrets. Raises Refused for a secret that cannot be read."""
        from runner.spec import StoreSpec
        from runner.store_access import store_opener

        settings = StoreSpec.model_validate(
            {
                "uri": ".",
                "endpoint_url": self.endpoint_url,
                "region": self.region,
                "addressing_style": self.addressing_style,
            }
        )
        return store_opener(settings, Path.cwd(), self._secrets)


@dataclass(frozen=True, slots=True)
class Source:
    """What was found. `session` is None on the basis of nothing, and where damage left none of it."""

    address: str
    kind: SourceKind
    basis: Basis
    session: SessionFile | None
    head: Head | None
    terminal: JsonObject | None
    """The callback body of a settled head."""
    manifest: Manifest | None
    restore_point: RestorePoint | None
    """The manifest that was read, with its digest."""
    parent: RestorePoint | None
    """What the pipeline of this head or manifest restored."""
    files: tuple[tuple[str, SessionFile], ...]
    """Transcripts of subagents, by name."""
    warnings: tuple[str, ...]
    damage: tuple[Damage, ...]


def source_kind(address: str) -> tuple[SourceKind, str, str]:
    """(kind, address of the store, key) by the address alone; of a plain session the store is empty. Raises Refused."""
    patterns: tuple[tuple[SourceKind, re.Pattern[str]], ...] = (("head", _HEAD), ("manifest", _MANIFEST))
    for kind, pattern in patterns:
        match = pattern.fullmatch(address)
        if match is not None:
            store = match["store"]
            return kind, "." if store is None else store or "/", match["key"]
    if not address:
        raise Refused("not_a_source", ["the source is empty: name a head, a manifest or a session file"])
    try:
        address.encode()
        urlsplit(address)
    except ValueError as error:
        raise Refused("not_a_source", [f"{address!a} is no address ({error}): correct it"]) from None
    return "plain", "", address


@contextmanager
def open_source(
    address: str, options: StoreOptions, *, on_damage: OnDamage = "fail", meter: Meter | None = None, files: bool = True
) -> Generator[Source]:
    """Open the session at `address` below a temporary folder. `files`: the subagents' transcripts too.

    Raises SourceFailed (exit 78) for damage and absence, Refused (78) for what is no source, InfrastructureError (75).
    """
    with tempfile.TemporaryDirectory(prefix="runner-source-", ignore_cleanup_errors=True) as folder:
        try:
            opened = _Opening(Path(folder), options, Findings(on_damage), meter or NoMeter(), files).open(address)
        except StoreError as error:
            if error.reason == "too_large":
                raise SourceFailed("too_large", address, error.message) from error
            if error.reason in ("misconfigured", "missing_bucket"):
                raise Refused(error.reason, [error.message]) from error
            raise InfrastructureError(error.reason, error.message) from error
        except DamagedRecord as error:
            raise SourceFailed("damaged", error.address, _detail(error)) from error
        except CheckpointError as error:
            raise SourceFailed("missing", address, error.message.partition(". ")[0]) from error
        except OSError as error:
            raise InfrastructureError(
                "scratch_failed",
                f"the local copy of {address} cannot be written to {folder}: {error.strerror or error}",
            ) from error
        yield opened


@contextmanager
def open_shown(
    address: str, options: StoreOptions, *, on_damage: OnDamage = "fail", files: bool = True
) -> Generator[Source]:
    """As `open_source`; on a terminal it shows how far the reading has come, and nothing of that remains."""
    with ExitStack() as opened:
        with shown_meter() as meter:
            source = opened.enter_context(open_source(address, options, on_damage=on_damage, meter=meter, files=files))
        yield source


class _Opening:
    """One source being opened."""

    def __init__(self, folder: Path, options: StoreOptions, findings: Findings, meter: Meter, files: bool) -> None:
        self._folder = folder
        self._opener = options.opener()
        self._findings = findings
        self._meter = meter
        self._files = files

    def open(self, address: str) -> Source:
        kind, uri, key = source_kind(address)
        if kind == "plain":
            return self._source(key, "plain", "plain", self._plain(None, key, None))
        store = self._opener(uri)
        if kind == "head":
            return self._head(store, key)
        manifest, point = self._manifest(store, key, None)
        return self._checkpoint(store, "manifest", store.address(key), manifest, point)

    def _head(self, store: ObjectStore, key: str) -> Source:
        address = store.address(key)
        head = parse_head(_existing(store, key, HEAD_LIMIT), address)
        terminal, restore = head.fields.terminal, head.fields.restore
        if terminal is None:
            return self._unfinished(store, address, restore, head, None)
        body = parse_record(terminal.body.encode(), JsonObject, f"the terminal body in {address}")
        if terminal.manifest is None:
            return self._unfinished(store, address, restore, head, body)
        manifest, point = self._manifest(store, terminal.manifest, terminal.digest)
        return self._checkpoint(store, "head", address, manifest, point, head, body)

    def _unfinished(
        self, store: ObjectStore, address: str, restore: RestorePoint | None, head: Head, body: JsonObject | None
    ) -> Source:
        """A head without a checkpoint of its own: the most that is known about its session."""
        progress = head.fields.progress
        base = None
        if restore is not None and restore.manifest is not None:
            base = self._manifest(store, restore.manifest, restore.digest)[0]
        if progress is not None:
            session = self._segments(store, address, self._progress_segments(progress, base, address))
            return self._source(address, "head", "progress", session, head=head, terminal=body, parent=restore)
        if restore is None:
            return self._source(address, "head", "nothing", None, head=head, terminal=body)
        if base is not None:
            session = self._segments(store, address, base.segments)
        else:
            assert restore.jsonl is not None, "a restore point has either `manifest` or `jsonl`"
            session = self._plain(store, restore.jsonl, restore.digest)
        point = restore if base is not None else None
        return self._source(
            address, "head", "restore", session, head=head, terminal=body, manifest=base, point=point, parent=restore
        )

    def _checkpoint(
        self,
        store: ObjectStore,
        kind: SourceKind,
        address: str,
        manifest: Manifest,
        point: RestorePoint,
        head: Head | None = None,
        terminal: JsonObject | None = None,
    ) -> Source:
        session = self._segments(store, address, manifest.segments)
        found = session.index.entries if session is not None else 0
        if found != manifest.entries:
            what = f"{found:,} entries were found instead of the {manifest.entries:,} that the manifest declares"
            self._findings.warnings.append(what)
        files: list[tuple[str, SessionFile]] = []
        for number, file in enumerate(manifest.files if self._files else ()):
            opened = self._segments(store, f"{store.address(file.key)} ({file.name})", (file,), f"file-{number}")
            if opened is not None:
                files.append((file.name, opened))
        return self._source(
            address,
            kind,
            "checkpoint",
            session,
            head=head,
            terminal=terminal,
            manifest=manifest,
            point=point,
            parent=manifest.parent,
            files=tuple(files),
        )

    def _source(
        self,
        address: str,
        kind: SourceKind,
        basis: Basis,
        session: SessionFile | None,
        *,
        head: Head | None = None,
        terminal: JsonObject | None = None,
        manifest: Manifest | None = None,
        point: RestorePoint | None = None,
        parent: RestorePoint | None = None,
        files: tuple[tuple[str, SessionFile], ...] = (),
    ) -> Source:
        warnings, damage = tuple(self._findings.warnings), tuple(self._findings.damage)
        return Source(address, kind, basis, session, head, terminal, manifest, point, parent, files, warnings, damage)

    def _manifest(self, store: ObjectStore, key: str, digest: str | None) -> tuple[Manifest, RestorePoint]:
        address = store.address(key)
        data = _existing(store, key, MANIFEST_LIMIT)
        found = digest_of(data)
        if digest is not None and found != digest:
            self._findings.found("wrong_digest", address, f"it has the digest {found} instead of {digest}")
        try:
            manifest = parse_manifest(data, address)
        except DamagedRecord as error:
            if self._findings.strict:
                raise
            manifest = parse_record(data, Manifest, address)  # what can be read of it: its sums do not matter here
            self._findings.damage.append(Damage(address, _detail(error)))
        return manifest, RestorePoint(manifest=key, digest=found)

    def _progress_segments(self, progress: Progress, base: Manifest | None, address: str) -> tuple[Segment, ...]:
        """The restored segments and those of the progress, or these alone: the chain tells (docs/checkpoint.md)."""
        restored = base.segments if base is not None else ()
        if chain_of(progress.segments) == progress.chain:
            return progress.segments
        if chain_of((*restored, *progress.segments)) != progress.chain:
            self._findings.found("damaged", address, "its progress does not belong to its restore point")
        return (*restored, *progress.segments)

    def _segments(
        self, store: ObjectStore, address: str, segments: tuple[Segment, ...], name: str = "session"
    ) -> SessionFile | None:
        path = self._folder / f"{name}.jsonl"
        read_segments(store, address, segments, path, self._findings, self._meter)
        return open_session_file(path, address, self._findings)

    def _plain(self, store: ObjectStore | None, source: str, digest: str | None) -> SessionFile | None:
        """A plain session: in `store` if it is a key there, else wherever its address says."""
        path, size = self._folder / "session.jsonl", None
        address = parse_address(source)
        if store is None and isinstance(address, FileAddress):
            local = Path(address.path)
            pieces, size = _local_pieces(source, local), _size(source, local)
        elif store is None:
            assert not isinstance(address, FileAddress)
            source, pieces = open_plain(self._opener(f"s3://{address.bucket}"), address.path, None)
        else:
            source, pieces = open_plain(store, source, self._opener)
        read_plain(source, pieces, path, self._findings, self._meter, size=size, digest=digest)
        return open_session_file(path, source, self._findings)


def _existing(store: ObjectStore, key: str, limit: int) -> bytes:
    found = store.get(key, limit=limit)
    if found is None:
        raise SourceFailed("missing", store.address(key), "it does not exist: check the address")
    return found.data


def _size(source: str, path: Path) -> int:
    try:
        if path.is_dir():
            raise Refused("not_a_source", [f"{source} is a folder: name a head, a manifest or a session file in it"])
        return path.stat().st_size
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _local_pieces(source: str, path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise _unreadable(source, error) from error


def _unreadable(source: str, error: OSError | ValueError) -> SourceFailed:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return SourceFailed("missing", source, f"it cannot be read ({why}): check the path and its rights")


def _detail(error: DamagedRecord) -> str:
    """What is wrong with the record, without what a launch would have to do about it."""
    return error.message.removeprefix(f"{error.address} is not readable: ").partition(". Inspect or remove it")[0]
