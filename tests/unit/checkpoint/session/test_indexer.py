"""The damage table of `SessionIndexer`, row by row, and what an index holds."""

from typing import Any

import pytest

from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import OnDamage, SessionIndex
from checkpoint.session.indexer import SessionIndexer
from checkpoint.session.javascript import UNDEFINED
from tests.unit.checkpoint.session.sessions import HEADER, assistant, entry, line, session, user

CHAIN = (user("a", None), assistant("b", "a"), user("c", "b"))


def index(data: bytes, on_damage: OnDamage = "fail") -> SessionIndex:
    indexer = SessionIndexer(on_damage)
    indexer.feed(data)
    return indexer.finish()


def damage(data: bytes, on_damage: OnDamage = "fail") -> SessionDamaged:
    with pytest.raises(SessionDamaged) as caught:
        index(data, on_damage)
    return caught.value


def ids(found: SessionIndex) -> list[Any]:
    return [head.id for head in found.heads]


def test_an_index_says_where_every_entry_is() -> None:
    data = session(*CHAIN)
    found = index(data)
    assert found.header == HEADER
    assert (found.entries, found.leaf_id, found.session_id) == (3, "c", HEADER["id"])
    assert (found.size, found.keep_bytes, found.needs_newline, found.warnings) == (len(data), len(data), False, [])
    second = found.entry(1)
    assert (second.type, second.id, second.parent_id, second.line) == ("message", "b", "a", 3)
    assert data[second.offset : second.offset + second.length] == line(CHAIN[1]).rstrip()
    assert found.branch().positions == [0, 1, 2]


def test_a_session_may_hold_only_its_header() -> None:
    found = index(session())
    assert (found.entries, found.leaf_id, found.branch().positions) == (0, None, [])


@pytest.mark.parametrize("on_damage", ["fail", "skip"])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\n", "not_a_session"),
        (b"  \r\n \xef\xbb\xbf", "not_a_session"),
        (line(CHAIN[0]), "not_a_session"),
        (line({**HEADER, "id": 5}), "not_a_session"),
        (line({**HEADER, "type": "Session"}), "not_a_session"),
        (b"[1]\n" + session(), "not_a_session"),
        (line(HEADER)[:30], "not_a_session"),
        (b"\xef\xbb\xbf" + session(), "not_a_session"),
        (session(*CHAIN).decode().encode("utf-16-le"), "not_a_session"),
    ],
)
def test_a_file_that_does_not_begin_as_a_session_is_refused(data: bytes, reason: str, on_damage: OnDamage) -> None:
    assert damage(data, on_damage).reason == reason


def test_garbage_before_the_header_is_an_error_and_can_be_skipped() -> None:
    data = b"garbage\n\nnull\n" + session(*CHAIN)
    assert damage(data).line == 1
    assert ids(index(data, "skip")) == ["a", "b", "c"]


@pytest.mark.parametrize("version", [4, 99.5, "3", None, True, "abc", 0, 2.5])
def test_a_version_that_is_not_known_is_refused(version: Any) -> None:
    error = damage(session(header={**HEADER, "version": version}))
    assert (error.reason, error.line) == ("version", 1)
    assert index(session(header={**HEADER, "version": version}), "skip").entries == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"type":"message"\n', "syntax"),
        (b'{"a":NaN}\n', "syntax"),
        (b"garbage\n", "syntax"),
        (line(CHAIN[0]).rstrip() + line(CHAIN[1]), "syntax"),
        (b"\xef\xbb\xbf" + line(user("x", "b")), "syntax"),
        (b"\0\0\n", "syntax"),
        (b"null\n", "not_an_object"),
        (b'""\n', "not_an_object"),
        (b"0\n", "not_an_object"),
        (line(user("x", "b", "caf\ufffd")).replace("\ufffd".encode(), b"\xe9"), "encoding"),
        (b"\xff\n", "encoding"),
    ],
)
def test_a_damaged_line_is_an_error_that_names_it_and_can_be_skipped(bad: bytes, reason: str) -> None:
    data = session(CHAIN[0], CHAIN[1], bad, user("d", "b"))
    error = damage(data)
    assert (error.reason, error.line) == (reason, 4)
    assert "line 4" in str(error)
    assert "skip" in str(error)
    skipped = index(data, "skip")
    assert [name for name in ids(skipped) if name != "x"] == ["a", "b", "d"]
    assert skipped.branch().positions[-1] == len(skipped.heads) - 1


@pytest.mark.parametrize("bad", [b"[1]\n", b"17\n", b'"x"\n', b"true\n"])
def test_a_line_that_is_no_object_is_an_error_or_an_entry_without_id(bad: bytes) -> None:
    data = session(*CHAIN, bad)
    assert (damage(data).reason, damage(data).line) == ("not_an_object", 5)
    found = index(data, "skip")
    assert (found.entries, found.leaf_id, found.heads[-1].id) == (4, None, UNDEFINED)
    assert found.branch().positions == [3]
    assert len(found.warnings) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "d", "parentId": "c"},
        {"type": 5, "id": "d", "parentId": "c"},
        {"type": "message", "parentId": "c"},
        {"type": "message", "id": 4, "parentId": "c"},
        {"type": "message", "id": None, "parentId": "c"},
        {"type": "message", "id": "", "parentId": "c"},
        {"type": "message", "id": "d", "parentId": 4},
        {"type": "message", "id": "d", "parentId": {}},
        {},
    ],
)
def test_an_entry_whose_type_id_or_parent_is_no_text_is_an_error_or_kept(bad: Any) -> None:
    error = damage(session(*CHAIN, bad))
    assert (error.reason, error.line) == ("entry", 5)
    assert index(session(*CHAIN, bad), "skip").entries == 4


def test_a_number_may_be_an_id_when_reading_leniently() -> None:
    found = index(session(CHAIN[0], user("x", "a") | {"id": 4}, user("c", None) | {"parentId": 4.0}), "skip")
    assert found.branch().positions == [0, 1, 2]


def test_two_entries_with_one_id_are_an_error_or_the_later_one_counts() -> None:
    data = session(CHAIN[0], CHAIN[1], user("b", "a", "again"), user("c", "b"))
    error = damage(data)
    assert (error.reason, error.line) == ("duplicate_id", 4)
    found = index(data, "skip")
    assert found.branch().positions == [0, 2, 3]
    assert "line 4" in found.warnings[0]


@pytest.mark.parametrize(
    "tail",
    [
        line(user("d", "c"))[:40],
        line(user("d", "c", "é")).split(b"\xa9")[0],
        b'{"type":"message","id":"d","x":"\\',
        b"\0\0\0\0",
        b"garbage",
        b"17",
    ],
)
def test_a_torn_last_line_is_cut_with_a_warning(tail: bytes) -> None:
    whole = session(*CHAIN)
    found = index(whole + tail)
    assert (found.entries, found.keep_bytes, found.size) == (3, len(whole), len(whole + tail))
    assert not found.needs_newline
    assert "line 5" in found.warnings[0]
    assert "torn" in found.warnings[0]


def test_a_torn_last_line_is_kept_and_ended_when_reading_leniently() -> None:
    data = session(*CHAIN) + b'{"type":'
    found = index(data, "skip")
    assert (found.entries, found.keep_bytes, found.needs_newline) == (3, len(data), True)


@pytest.mark.parametrize("on_damage", ["fail", "skip"])
def test_a_whole_last_line_without_its_end_is_kept_and_ended_with_a_warning(on_damage: OnDamage) -> None:
    data = session(*CHAIN).removesuffix(b"\n")
    found = index(data, on_damage)
    assert (found.entries, found.leaf_id, found.keep_bytes, found.needs_newline) == (3, "c", len(data), True)
    assert "line end" in found.warnings[0]


def test_a_whole_last_line_without_its_end_is_checked_like_any_other() -> None:
    assert damage(session(*CHAIN) + b'{"type":"message"}').reason == "entry"


def test_a_header_without_its_line_end_is_a_session() -> None:
    found = index(session().removesuffix(b"\n"))
    assert (found.entries, found.needs_newline) == (0, True)


def test_a_cycle_on_the_active_branch_is_an_error() -> None:
    data = session(user("a", "c"), assistant("b", "a"), user("c", "b"))
    error = damage(data)
    assert (error.reason, error.line) == ("cycle", 4)
    assert index(data, "skip").branch().cycle == 2


def test_an_entry_that_is_its_own_parent_is_a_cycle() -> None:
    assert damage(session(user("a", None), user("b", "b"))).reason == "cycle"


def test_a_cycle_on_another_branch_does_no_harm() -> None:
    found = index(session(user("x", "y"), user("y", "x"), *CHAIN))
    assert (found.branch().positions, found.warnings) == ([2, 3, 4], [])


def test_the_branch_starts_at_an_unknown_parent_with_a_warning() -> None:
    found = index(session(CHAIN[0], user("d", "lost"), user("e", "d")))
    assert found.branch().positions == [1, 2]
    assert found.warnings == ["line 3 names a parent that is not in the file; the conversation starts there"]


def test_an_unknown_parent_on_another_branch_does_no_harm() -> None:
    assert index(session(user("x", "lost"), *CHAIN)).warnings == []


def test_a_second_header_is_ignored_with_a_warning() -> None:
    found = index(session(CHAIN[0], HEADER, CHAIN[1]))
    assert ids(found) == ["a", "b"]
    assert found.warnings == ["line 3 is a second header and is ignored"]


@pytest.mark.parametrize("blank", [b"\n", b"  \t\n", b"\r\n", "\ufeff\xa0\u2028\n".encode()])
def test_blank_lines_lose_nothing(blank: bytes) -> None:
    found = index(blank + session(CHAIN[0], blank, CHAIN[1], blank, CHAIN[2], blank))
    assert (ids(found), found.warnings) == (["a", "b", "c"], [])
    assert found.entry(1).line == 5


def test_windows_line_ends_lose_nothing() -> None:
    found = index(session(*CHAIN).replace(b"\n", b"\r\n"))
    assert (ids(found), found.warnings) == (["a", "b", "c"], [])


def test_unknown_types_and_fields_are_entries_like_others() -> None:
    strange = entry("from-the-future", "z", "a", ids=[{"x": None}], **{"": 1})
    found = index(session(CHAIN[0], strange, header={**HEADER, "metadata": {"x": 1}}))
    assert (found.leaf_id, found.heads[1].type, found.warnings) == ("z", "from-the-future", [])


def test_a_missing_parent_field_makes_a_root() -> None:
    found = index(session(CHAIN[0], {"type": "message", "id": "r"}))
    assert found.branch().positions == [1]


@pytest.mark.parametrize(
    "unusual",
    [
        b'{"type":"message","id":"d","parentId":"c","x":"\\ud800"}\n',
        b'{"type":"message","id":"\\ud800","parentId":"c"}\n',
        b'{"type":"message","id":"d","parentId":"c","x":' + b"[" * 3000 + b"]" * 3000 + b"}\n",
        b'{"type":"message","id":"d","parentId":"c","x":1e400,"y":' + b"9" * 400 + b"}\n",
        b' { "type" : "message" , "\\u0069d" : "old", "id":"d", "parentId" : "c" } \t\r\n',
        b'{"type":1,"type":"message","id":2,"id":"d","parentId":3,"parentId":"c"}\n',
        '{"type":"message","id":"d","parentId":"c","x":"\u2028\u0085é😀"}\n'.encode(),
    ],
)
def test_unusual_but_valid_json_is_no_damage(unusual: bytes) -> None:
    found = index(session(*CHAIN, unusual))
    assert (found.entries, found.warnings, found.branch().positions) == (4, [], [0, 1, 2, 3])
    assert found.heads[3].id in ("d", "\ud800")


def test_bytes_may_come_in_pieces_of_any_size() -> None:
    data = session(*CHAIN, user("d", "c", "é" * 50)) + b'{"torn'
    whole = index(data)
    for size in (1, 2, 3, 7, 100, len(data) - 1):
        indexer = SessionIndexer("fail")
        for start in range(0, len(data), size):
            indexer.feed(data[start : start + size])
        assert indexer.finish() == whole


def test_entries_of_version_1_need_no_ids() -> None:
    header = {key: value for key, value in HEADER.items() if key != "version"}
    found = index(session({"type": "message", "message": {}}, {"type": "custom"}, header=header))
    assert (found.entries, found.version, found.needs_migration) == (2, 1, True)
    assert damage(session({"id": "x"}, header=header)).reason == "entry"
