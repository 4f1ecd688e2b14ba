import math

import pytest

from checkpoint.session.decoding import decode_text, parse


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "NaN",
        "[NaN]",
        "Infinity",
        '{"a":-Infinity}',
        "{'a':1}",
        '{"a":1,}',
        "[1,]",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        '"\t"',
        '"\\x41"',
        '"\\u12g4"',
        '"open',
        "{} {}",
        "\ufeff{}",
        "\xa0{}",
        "[1 2]",
        '{"a" 1}',
        '{"a":1 "b":2}',
        "// comment",
        "nul",
        "[" * 5000,
        "[" * 5000 + "}" + "]" * 4999,
        "[" * 5000 + "]" * 5001,
        '{"a":' * 5000 + "1",
        '{"a":' * 5000 + '"x' + "}" * 5000,
    ],
)
def test_what_json_parse_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_doubled_keys_give_the_last_value() -> None:
    assert parse('{"a":1,"a":2}') == {"a": 2}


def test_json_white_space_may_stand_anywhere() -> None:
    assert parse(' \t\r\n{ "a" : [ 1 , 2 ] } \r') == {"a": [1, 2]}


def test_lone_surrogates_are_kept_and_pairs_are_joined() -> None:
    assert parse('"\\ud800 \\ud83d\\ude00"') == "\ud800 😀"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740992),
        ("1" * 5000, math.inf),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("1e-400", 0),
        ("-0", 0),
        ("1.0", 1),
        ("1E3", 1000),
    ],
)
def test_numbers_are_doubles(text: str, value: float) -> None:
    assert parse(text) == value
    deep = parse("[" * 3000 + text + "]" * 3000)
    for _ in range(3000):
        deep = deep[0]
    assert deep == value


def test_a_line_nested_deeper_than_the_interpreter_allows_is_read() -> None:
    depth = 20_000
    value = parse('{"a":[' * depth + '"x"' + "]}" * depth)
    for _ in range(depth):
        value = value["a"][0]
    assert value == "x"


def test_deep_lines_keep_empty_containers_and_all_members() -> None:
    inner = '{"a" : {} , "b":[ ] ,"c":[1 , true,null , "x\\n"], "a":2}'
    value = parse("[" * 2000 + inner + "]" * 2000)
    for _ in range(2000):
        value = value[0]
    assert value == {"a": 2, "b": [], "c": [1, True, None, "x\n"]}


def test_bytes_that_are_no_utf8_become_the_replacement_character() -> None:
    assert decode_text(b'"\xff \xc3"') == '"\ufffd \ufffd"'
    assert decode_text(b"\xed\xa0\x80") == "\ufffd\ufffd\ufffd"
