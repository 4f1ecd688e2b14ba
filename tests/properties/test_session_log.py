"""What must hold of a session log whatever is in it and whatever happened to its bytes."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoint.session.context import SessionContext, load_context
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.encoding import encode
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import EntryHead, OnDamage, SessionIndex
from checkpoint.session.indexer import FAST_DECODER, SessionIndexer
from checkpoint.session.log import SessionLog
from checkpoint.session.migration import index_file, migrate
from tests.fakes.append_file import FakeAppendFile
from tests.unit.checkpoint.session.sessions import HEADER, assistant, entry, line, session, user
from tests.unit.checkpoint.session.strict_reader import read_strictly

NEXT = {"role": "user", "content": "next"}
CORPUS = Path(__file__).parent.parent / "corpus" / "session"
FILES = [file.read_bytes() for file in sorted(CORPUS.glob("*.jsonl"))]
LINES = [item[:2000] for file in FILES for item in file.split(b"\n")]

any_text = st.text(st.characters(exclude_categories=())) | st.text('\\"{}[]:,ud8\ud83d\ude00\0\u2028é')
numbers = (
    st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e15, 1e16, 1e21, 1e-6, 1e-7, -0.0, 5e-324])
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "custom", "odd"])},
    optional={"content": any_text | st.lists(st.dictionaries(any_text, values, max_size=3), max_size=3), "x": values},
)


def joined(text: Any) -> Any:
    """Two halves of a pair, which Python keeps apart, are one character for JavaScript and in the file."""
    if isinstance(text, str):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if isinstance(text, (list, tuple)):
        return [joined(item) for item in cast("list[Any]", text)]
    if isinstance(text, dict):
        return {joined(key): joined(item) for key, item in cast("dict[str, Any]", text).items()}
    return text


def index_bytes(data: bytes, on_damage: OnDamage, sizes: list[int] | None = None) -> SessionIndex:
    """The index of `data`, fed in pieces of the given sizes, the last of which repeats."""
    indexer = SessionIndexer(on_damage)
    pieces = list(sizes or [len(data) or 1])
    start = 0
    while start < len(data):
        size = pieces.pop(0) if len(pieces) > 1 else pieces[0]
        indexer.feed(data[start : start + size])
        start += size
    return indexer.finish()


def outcome_of(data: bytes, on_damage: OnDamage, sizes: list[int] | None = None) -> SessionIndex | tuple[Any, ...]:
    try:
        return index_bytes(data, on_damage, sizes)
    except SessionDamaged as error:
        return (error.reason, error.line, str(error))


@given(values)
@example({"a": 1.0, "b": [1e16, -0.0]})
def test_a_value_written_and_read_again_is_equal(value: Any) -> None:
    data = encode(value)
    assert b"\n" not in data
    assert parse(data.decode()) == joined(value)
    assert encode(parse(data.decode())) == data


@given(st.lists(messages, max_size=8), st.lists(st.tuples(any_text, values), max_size=4))
def test_entries_written_and_read_again_are_equal(said: list[Any], noted: list[tuple[str, Any]]) -> None:
    file = FakeAppendFile()
    file.write(line(HEADER))
    log = SessionLog(file)
    written: list[tuple[str, Any]] = [(log.append_message(message), message) for message in said]
    written += [(log.append_custom(kind, data), (kind, data)) for kind, data in noted]
    entries = read_strictly(file.data)
    assert [item["id"] for item in entries] == [entry_id for entry_id, _ in written]
    assert [item["parentId"] for item in entries] == [None, *(item["id"] for item in entries)][: len(entries)]
    stored: list[Any] = [item.get("message") or (item["customType"], item["data"]) for item in entries]
    assert joined(stored) == joined([given for _, given in written])
    index = index_bytes(file.data, "fail")
    assert (index.leaf_id, index.warnings) == (log.leaf_id, [])


SESSION = session(
    entry("model_change", "m1", None, provider="p", modelId="m"),
    user("a1", "m1", "hällo \u2028 😀"),
    assistant("b1", "a1"),
    entry("compaction", "k1", "b1", summary="S", firstKeptEntryId="a1", tokensBefore=3),
    user("c1", "k1"),
    entry("context_edit", "e1", "c1", targetId="a1", replacement=None),
    assistant("d1", "e1", content=[{"type": "toolCall", "id": "t", "name": "x", "arguments": {"n": 1}}]),
)
whole_files = st.sampled_from([SESSION, SESSION.replace(b'"version":3', b'"version":1'), *FILES])


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """A session with a few bytes or lines flipped, cut out, put in, doubled, merged or lost."""
    data = draw(whole_files)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "cut", "truncate", "insert", "double", "merge", "drop", "swap"]))
        if kind == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at] + data[at + draw(st.integers(1, 200)) :]
        elif kind == "truncate":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + draw(st.binary(max_size=8)) + data[at:]
        else:
            data = _with_lines_changed(data, kind, draw(st.integers(0, 30)), draw(st.integers(0, 30)))
    return data


def _with_lines_changed(data: bytes, kind: str, one: int, other: int) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    one, other = one % len(lines), other % len(lines)
    if kind == "double":
        lines.insert(other, lines[one])
    elif kind == "merge":
        lines[one] = lines[one].removesuffix(b"\n")
    elif kind == "drop":
        del lines[one]
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def restore_and_go_on(
    data: bytes, on_damage: OnDamage, folder: Path
) -> tuple[SessionContext, SessionContext, SessionIndex]:
    """The context before and after one more message, and the index after it."""
    path = folder / "session.jsonl"
    path.write_bytes(data)
    index = index_file(path, on_damage)
    if index.needs_migration:
        path = folder / "migrated.jsonl"
        index = migrate(folder / "session.jsonl", path, on_damage)
    before = load_context(path, index)
    log = SessionLog.open(path, index)
    log.append_message(NEXT)
    log.close()
    again = index_file(path, on_damage)
    assert (again.leaf_id, again.size, again.keep_bytes) == (log.leaf_id, log.size, log.size)
    return before, load_context(path, again), again


@given(damaged_files(), st.sampled_from(["fail", "skip"]))
def test_damage_gives_a_context_or_a_clear_error(data: bytes, on_damage: OnDamage) -> None:
    with TemporaryDirectory() as folder:
        try:
            before, after, again = restore_and_go_on(data, on_damage, Path(folder))
        except SessionDamaged as error:
            damage = error
        else:
            assert after.messages[-1] == NEXT
            assert after.messages[:-1] == before.messages or on_damage == "skip"
            assert not any("torn" in warning or "line end" in warning for warning in again.warnings)
            return
    assert damage.line is None or 1 <= damage.line <= data.count(b"\n") + 1
    assert "session log" in str(damage)


@given(
    damaged_files() | whole_files,
    st.sampled_from(["fail", "skip"]),
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
)
def test_the_index_does_not_depend_on_how_the_bytes_come_in(data: bytes, on_damage: OnDamage, sizes: list[int]) -> None:
    assert outcome_of(data, on_damage, sizes) == outcome_of(data, on_damage)


def read_slowly(line_bytes: bytes) -> EntryHead | None:
    """What full parsing says of a line; None if it is no entry."""
    try:
        value = parse(decode_text(line_bytes))
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    return EntryHead(fields.get("type"), fields.get("id"), fields.get("parentId"))


@st.composite
def odd_lines(draw: st.DrawFn) -> bytes:
    """Lines near the border of what JSON is, and of what an entry is."""
    if draw(st.booleans()):
        fields = draw(
            st.lists(
                st.tuples(st.sampled_from(["type", "id", "parentId", "x", "i\\u0064"]), any_text | values), max_size=6
            )
        )
        body = ",".join(f'"{name}":{encode(value).decode()}' for name, value in fields)
        data = ("{" + body + "}").encode()
    else:
        data = draw(st.sampled_from(LINES))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        piece = draw(
            st.sampled_from([b"", b'"', b"\\", b"\\ud800", b"{", b"]", b",", b"0", b"-", b"e", b"\xff", b"\0", b"\t"])
        )
        data = data[:at] + piece + data[at + draw(st.integers(0, 2)) :]
    return data.replace(b"\n", b" ")


@given(odd_lines())
@example(b'{"type":"a","id":"b","x":' + b"[" * 900 + b"]" * 900 + b"}")
@example(b'{"type":"a","id":"b","x":"\xed\xa0\x80"}')
@example(b'{"type":"a","id":"b","id":"c","x":1e999}')
@example(b'{"type":"a","id":"b","parentId":"\xff"}')
def test_the_fast_decoder_never_says_anything_else_than_full_parsing(data: bytes) -> None:
    try:
        fast = FAST_DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return
    slow = read_slowly(data)
    assert slow is not None
    assert (fast.type, fast.id, fast.parent_id) == (slow.type, slow.id, slow.parent_id)
