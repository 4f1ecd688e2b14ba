"""Tool-call arguments: strict at the end, tolerant while they stream, and never a prefix that runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.session.encoding import encode
from runner.models.arguments import (
    ArgumentBuffer,
    final_arguments,
    given_arguments,
    loads_event,
    loads_repaired,
    preview_arguments,
    repair,
)
from runner.models.json_text import body_bytes
from runner.models.shapes import is_list, is_object

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)


@given(objects)
def test_whole_arguments_are_read_as_json_reads_them(value: dict[str, object]) -> None:
    arguments, problem = final_arguments(json.dumps(value))
    assert problem is None
    assert same(arguments, value)


def same(read: object, value: object) -> bool:
    """Equal; what is written as a float may come as the whole number that the session log writes for it."""
    if is_object(value):
        return is_object(read) and [*read] == [*value] and all(map(same, read.values(), value.values()))
    if is_list(value):
        return is_list(read) and len(read) == len(value) and all(map(same, read, value))
    return float(read) == value if isinstance(value, float) and isinstance(read, int) else read == value


@given(objects.filter(lambda value: all_safe(value)))
def test_arguments_restored_from_the_log_are_sent_in_the_same_bytes(value: dict[str, object]) -> None:
    """What prompt caching across processes rests on."""
    arguments, _ = final_arguments(json.dumps(value))
    restored = json.loads(encode(arguments))
    assert body_bytes({"input": restored}) == body_bytes({"input": arguments})


def all_safe(value: object) -> bool:
    """Without integers that the log's doubles do not hold."""
    if is_object(value):
        return all(map(all_safe, value.values()))
    if is_list(value):
        return all(map(all_safe, value))
    return not isinstance(value, int) or abs(value) <= 2**53


@given(objects, st.integers(0, 400))
def test_a_prefix_never_counts_as_arguments_unless_it_is_whole(value: dict[str, object], length: int) -> None:
    text = json.dumps(value)
    prefix = text[:length]
    arguments, problem = final_arguments(prefix)
    if prefix.strip() and prefix != text:
        assert arguments == {}
        assert problem is not None
        assert problem.endswith(f"\n\nReceived arguments:\n{prefix}")


@given(objects, st.integers(0, 400))
def test_a_preview_of_any_prefix_is_an_object_of_members_that_were_named(value: dict[str, object], length: int) -> None:
    preview = preview_arguments(json.dumps(value)[:length])
    assert set(preview) <= set(value)


@given(st.text())
def test_a_preview_of_anything_is_an_object(text: str) -> None:
    assert isinstance(preview_arguments(text), dict)


@given(st.text(alphabet='{}[]",:\\/untrl 0123e-+.\n\t\x00\x1f'))
def test_repairing_never_fails_and_changes_nothing_that_is_json(text: str) -> None:
    repaired = repair(text)
    try:
        want = json.loads(text)
    except ValueError:
        return
    assert json.loads(repaired) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"a": [1, 2.5e', {"a": [1, 2.5]}),
        ('{"a": [1, -0, tr', {"a": [1, 0, True]}),
        ('{"a": "x", "b', {"a": "x"}),
        ('{"a": "x", "b":', {"a": "x"}),
        ('{"path": "caf\\u00', {"path": "caf"}),
        ('{"path": "a\\', {"path": "a"}),
        ('{"path": "a\\\\', {"path": "a\\"}),
        ("", {}),
        ("[1", {}),
        ("{'a'", {}),
        ('{"a":1]', {}),
    ],
)
def test_previews(text: str, want: object) -> None:
    assert preview_arguments(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", {}),
        ("  \n", {}),
        ('{"c":"a\nb\tc \\s+ C:\\\\x"}', {"c": "a\nb\tc \\s+ C:\\x"}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"__proto__":{"x":1}}', {"__proto__": {"x": 1}}),
        ('{"n":12345678901234567890}', {"n": 12345678901234567890}),
    ],
)
def test_what_can_be_read_or_repaired_is_read(text: str, want: object) -> None:
    assert final_arguments(text) == (want, None)


@pytest.mark.parametrize("text", ['"{\\"a\\":1}"', "[1]", "{'a': 1}", "null", '{"command": "rm -r'])
def test_what_is_no_object_gives_no_arguments_and_says_why(text: str) -> None:
    arguments, problem = final_arguments(text)
    assert arguments == {}
    assert problem is not None
    assert problem.endswith(text)


def test_deeply_nested_arguments_are_an_error_and_not_a_crash() -> None:
    text = '{"a":' + "[" * 100_000
    assert preview_arguments(text) == {}
    arguments, problem = final_arguments(text)
    assert arguments == {}
    assert problem is not None


def test_an_object_given_instead_of_a_text_is_taken() -> None:
    assert final_arguments(given_arguments({"path": "a"})) == ({"path": "a"}, None)


def test_events_with_lone_surrogates_and_infinities_are_still_read() -> None:
    assert loads_event('{"a":"\\ud83d"}') == {"a": "\ud83d"}
    assert loads_event('{"a":1e400}') == {"a": float("inf")}
    assert loads_event('{"a":"x\ty"}') == {"a": "x\ty"}
    with pytest.raises(ValueError, match="line 1"):
        loads_repaired("{oops")


def test_a_long_call_is_previewed_seldom() -> None:
    buffer = ArgumentBuffer()
    due = sum(buffer.add("12345") for _ in range(10_000))
    assert due < 120
    assert len(buffer.text) == 50_000
