from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.errors import DamagedRecord
from checkpoint.manifest import (
    Counters,
    Manifest,
    PendingQuestion,
    RestorePoint,
    Segment,
    chain_of,
    digest_of,
    encode_manifest,
    parse_manifest,
)

digests = st.binary(max_size=4).map(digest_of)
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,9}", fullmatch=True)
segments = st.builds(
    Segment,
    key=digests.map(lambda digest: f"sessions/s1/segments/{digest[7:]}.zst"),
    bytes=st.integers(0, 2**40),
    digest=digests,
    stored_bytes=st.integers(0, 2**40),
    lines=st.integers(0, 2**30),
)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    listed = tuple(draw(st.lists(segments, max_size=4)))
    return Manifest(
        version=1,
        session_id=draw(ids),
        pipeline_id=draw(ids),
        attempt=draw(st.integers(1, 99)),
        created_at=draw(texts),
        runner=draw(texts),
        parent=draw(
            st.one_of(
                st.none(),
                st.builds(RestorePoint, manifest=st.just("m"), digest=digests),
                st.builds(RestorePoint, jsonl=st.just("s3://b/k"), digest=digests),
            )
        ),
        segments=listed,
        chain=chain_of(listed),
        entries=draw(st.integers(0, 2**30)),
        bytes=sum(segment.bytes for segment in listed),
        leaf_id=draw(st.none() | texts),
        pending_questions=tuple(
            draw(
                st.lists(st.builds(PendingQuestion, question_id=texts, tool_call_id=texts, entry_id=texts), max_size=2)
            )
        ),
        counters=Counters(turns=draw(st.integers(0, 99)), cost_usd=draw(st.floats(0, 1e6))),
    )


@given(manifests())
def test_a_manifest_reads_back_equal_and_encodes_to_the_same_bytes(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    read = parse_manifest(data, "x")
    assert read == manifest
    assert encode_manifest(read) == data


@given(manifests(), st.data())
def test_damaged_bytes_give_a_manifest_or_a_named_error(manifest: Manifest, data: st.DataObject) -> None:
    stored = bytearray(encode_manifest(manifest))
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DamagedRecord):
        parse_manifest(bytes(stored), "memory:///some/key")


def plain() -> dict[str, object]:
    manifest = Manifest(
        version=1,
        session_id="s1",
        pipeline_id="p1",
        attempt=1,
        created_at="2025-01-01T00:00:00.000Z",
        runner="1.0.0",
        parent=None,
        segments=(),
        chain=chain_of(()),
        entries=0,
        bytes=0,
        leaf_id=None,
    )
    return msgspec.to_builtins(manifest)


def test_a_manifest_nested_too_deeply_is_refused_by_name() -> None:
    data = msgspec.json.encode(plain())[:-1] + b',"later":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(DamagedRecord, match="memory:///some/key is not readable: it is nested too deeply"):
        parse_manifest(data, "memory:///some/key")


def test_fields_of_a_later_writer_are_ignored() -> None:
    assert parse_manifest(msgspec.json.encode({**plain(), "later": 1}), "x").session_id == "s1"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"version": 2}, "version"),
        ({"session_id": "../s"}, "session_id"),
        ({"chain": chain_of(()).replace("a", "b")}, "chain"),
        ({"chain": "sha1:00"}, "chain"),
        ({"bytes": 1}, "bytes"),
        ({"entries": -1}, "entries"),
        ({"parent": {}}, "parent"),
        ({"parent": {"manifest": "m"}}, "digest"),
        ({"parent": {"manifest": "m", "jsonl": "j", "digest": digest_of(b"")}}, "parent"),
        ({"segments": [{"key": "sessions/s1/segments/../../x.zst"}]}, "key"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(changed: dict[str, object], named: str) -> None:
    with pytest.raises(DamagedRecord, match=rf"^memory:///some/key is not readable: .*{named}"):
        parse_manifest(msgspec.json.encode({**plain(), **changed}), "memory:///some/key")
