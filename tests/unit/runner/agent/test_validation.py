"""Arguments of tool calls: what is coerced, what is refused, and how it is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject
from runner.agent.coercion import coerce, copied
from runner.agent.javascript import indented_json, number_text
from runner.agent.validation import InvalidArguments, ValidArguments, validate_arguments
from tests.fakes.agent_parts import tool


def checked(member: JsonObject | bool, value: Any) -> Any:
    """The member as the tool gets it, or the complaints."""
    schema: JsonObject = {"type": "object", "properties": {"v": member}}
    result = validate_arguments(tool("t", parameters=schema), {"v": value})
    return result.args["v"] if isinstance(result, ValidArguments) else complaints(result)


def complaints(result: ValidArguments | InvalidArguments) -> list[str]:
    assert isinstance(result, InvalidArguments)
    listed = result.text.partition("\n\nReceived arguments:")[0].splitlines()[1:]
    return [line.removeprefix("  - ") for line in listed]


def of(first: str, *others: str) -> JsonObject:
    return {"type": [first, *others] if others else first}


COERCED: list[tuple[JsonObject, Any, Any]] = [
    (of("number"), "3.5", 3.5),
    (of("number"), " 12 ", 12),
    (of("number"), "1e3", 1000),
    (of("number"), "0x10", 16),
    (of("number"), None, 0),
    (of("number"), True, 1),
    (of("integer"), "7", 7),
    (of("integer"), "7.0", 7),
    (of("integer"), 7.0, 7),
    (of("integer"), None, 0),
    (of("boolean"), "true", True),
    (of("boolean"), "false", False),
    (of("boolean"), 1, True),
    (of("boolean"), None, False),
    (of("string"), 5, "5"),
    (of("string"), 1.0, "1"),
    (of("string"), True, "true"),
    (of("string"), None, ""),
    (of("null"), "", None),
    (of("null"), 0, None),
    (of("number", "null"), None, None),
    (of("integer", "boolean"), "true", True),
    (of("string", "null"), 4, "4"),
    ({"anyOf": [of("number"), of("string")]}, "5", 5),
    ({"anyOf": [of("null"), of("string")]}, "5", "5"),
    ({"type": "array", "items": of("number")}, ["1", 2], [1, 2]),
    ({"type": "object", "properties": {"k": of("number")}}, {"k": "1", "other": "1"}, {"k": 1, "other": "1"}),
    ({"type": "object", "additionalProperties": of("number")}, {"k": "1"}, {"k": 1}),
]


@pytest.mark.parametrize(("member", "value", "given"), COERCED)
def test_what_can_be_read_without_doubt_is_coerced(member: JsonObject, value: Any, given: Any) -> None:
    got = checked(member, value)
    assert (got, type(got)) == (given, type(given))


REFUSED: list[tuple[JsonObject | bool, Any, str]] = [
    (of("number"), "three", "v: must be number"),
    (of("number"), "Infinity", "v: must be number"),
    (of("number"), "1_000", "v: must be number"),
    (of("number"), "", "v: must be number"),
    (of("number"), "9" * 5000, "v: must be number"),
    (of("integer"), "5.5", "v: must be integer"),
    (of("boolean"), "yes", "v: must be boolean"),
    (of("boolean"), "1", "v: must be boolean"),
    (of("string"), {}, "v: must be string"),
    (of("array"), "1", "v: must be array"),
    ({"enum": ["a", 1]}, "1", "v: is none of the allowed values"),
    ({"type": "array", "items": of("number")}, [1, "x"], "v.1: must be number"),
    ({"type": "string", "minLength": 2}, "x", "v: breaks the rule minLength 2"),
    (False, 1, "v: is not allowed"),
]


@pytest.mark.parametrize(("member", "value", "complaint"), REFUSED)
def test_what_cannot_be_is_named_by_its_place(member: JsonObject | bool, value: Any, complaint: str) -> None:
    assert checked(member, value) == [complaint]


def test_complaints_come_in_the_order_of_the_schema_with_missing_members_first() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"n": of("integer"), "o": {"type": "object", "required": ["k"]}, "l": of("array")},
        "required": ["z", "n", "y"],
        "additionalProperties": False,
    }
    result = validate_arguments(tool("t", parameters=schema), {"l": 1, "o": {}, "n": "x", "extra": 1})
    assert complaints(result) == [
        "z: is required, like y",
        "root: has unknown members: extra",
        "n: must be integer",
        "o.k: is required",
        "l: must be array",
    ]


def test_a_failed_alternative_says_what_each_branch_wants() -> None:
    assert checked({"anyOf": [of("integer"), {"type": "object", "required": ["k"]}]}, {}) == [
        "v: must be integer",
        "v.k: is required",
        "v: fits none of the alternatives",
    ]
    assert checked({"oneOf": [of("number"), of("integer")]}, 1) == ["v: fits more than one of the alternatives"]


def test_the_model_is_told_the_arguments_as_it_sent_them() -> None:
    schema: JsonObject = {"type": "object", "properties": {"n": of("number"), "s": of("string")}}
    result = validate_arguments(tool("t", parameters=schema), {"n": "x", "s": 1.0, "é": [1e-7, {}]})
    assert isinstance(result, InvalidArguments)
    assert result.text == (
        'Validation failed for tool "t":\n  - n: must be number\n\nReceived arguments:\n'
        '{\n  "n": "x",\n  "s": 1,\n  "é": [\n    1e-7,\n    {}\n  ]\n}'
    )


def test_a_long_list_of_complaints_is_cut() -> None:
    schema: JsonObject = {"type": "object", "properties": {str(n): of("array") for n in range(20)}}
    result = validate_arguments(tool("t", parameters=schema), {str(n): 1 for n in range(20)})
    assert complaints(result) == [f"{n}: must be array" for n in range(8)]


@pytest.mark.parametrize("arguments", ["text", None, [], 3])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    result = validate_arguments(tool("t", parameters={"type": "object"}), arguments)
    assert complaints(result) == ["root: must be object"]


def test_a_broken_schema_is_a_complaint_and_not_a_crash() -> None:
    result = validate_arguments(tool("t", parameters={"type": "nonsense"}), {})
    assert complaints(result)[0].startswith("root: the tool's own parameter schema is not valid")


def test_references_to_other_documents_are_not_followed() -> None:
    result = validate_arguments(tool("t", parameters={"$ref": "http://127.0.0.1:9/schema.json"}), {})
    assert "references to other documents are not followed" in complaints(result)[0]


def test_the_arguments_of_the_call_are_not_changed() -> None:
    schema: JsonObject = {"type": "object", "properties": {"l": {"type": "array", "items": of("number")}}}
    arguments = {"l": ["1"]}
    assert validate_arguments(tool("t", parameters=schema), arguments) == ValidArguments({"l": [1]})
    assert arguments == {"l": ["1"]}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TYPES = ("number", "integer", "boolean", "string", "null", "array", "object")


def larger_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.fixed_dictionaries({"type": st.just("array"), "items": inner})
    members = st.dictionaries(st.text(max_size=3), inner, max_size=2)
    objects = st.fixed_dictionaries({"type": st.just("object"), "properties": members})
    several = st.lists(inner, min_size=1, max_size=3)
    combined = st.dictionaries(st.sampled_from(["anyOf", "oneOf", "allOf"]), several, min_size=1, max_size=1)
    return items | objects | combined


NO_RULES: JsonObject = {}
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(TYPES).map(of) | st.just(NO_RULES) | st.booleans(), larger_schemas, max_leaves=6
)


@given(JSON, SCHEMAS)
def test_any_value_under_any_schema_gives_valid_arguments_or_complaints(value: Any, schema: Any) -> None:
    parameters: JsonObject = {"type": "object", "properties": {"v": schema}}
    before = copied(value)
    result = validate_arguments(tool("t", parameters=parameters), {"v": value})
    assert value == before
    if isinstance(result, InvalidArguments):
        assert complaints(result)
    else:
        again = validate_arguments(tool("t", parameters=parameters), result.args)
        assert isinstance(again, ValidArguments)


def accepts_all(_value: Any, _schema: JsonObject) -> bool:
    return True


@given(JSON)
def test_a_schema_without_rules_changes_nothing(value: Any) -> None:
    assert coerce(copied(value), {}, accepts_all) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_so_that_they_are_read_back(number: float) -> None:
    assert float(number_text(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
    ],
)
def test_numbers_are_written_as_javascript_does(number: float, text: str) -> None:
    assert number_text(number) == text
    assert indented_json([number]) == f"[\n  {text}\n]"
