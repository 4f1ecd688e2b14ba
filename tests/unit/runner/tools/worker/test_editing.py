import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.tools.worker.editing import Edit, apply_edits
from runner.tools.worker.places import Refusal
from runner.tools.worker.text_form import line_end_of, with_line_end

PIECES = st.text(st.sampled_from("ab \r\n\u201c\u2014"), max_size=30)


def edited(text: str, *edits: tuple[str, str]) -> str:
    return apply_edits(text, [Edit(*edit) for edit in edits], "f.txt").text


def refusal(text: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(Refusal) as caught:
        edited(text, *edits)
    return str(caught.value)


@given(PIECES, PIECES, st.text("xyz\n", max_size=10))
def test_what_lies_outside_of_the_replaced_place_stays_as_it_was(before: str, after: str, new: str) -> None:
    text = f"{before}<<HERE>>{after}"
    assert edited(text, ("<<HERE>>", new)) == before + with_line_end(new, line_end_of(text)) + after


@given(
    st.lists(st.sampled_from(["one", "two", "", "three "]), min_size=2, max_size=8),
    st.sampled_from(["\r\n", "\n", "\r"]),
)
def test_a_text_given_with_plain_line_ends_is_found_whatever_the_file_has(lines: list[str], end: str) -> None:
    text = "START" + end + end.join(lines) + end + "STOP"
    old = "START\n" + "\n".join(lines) + "\n"
    assert edited(text, (old, "new\n")) == f"new{end}STOP"


@given(PIECES, PIECES)
def test_an_edit_changes_nothing_or_exactly_one_place(text: str, old: str) -> None:
    assume(with_line_end(old, "\n"))
    try:
        after = apply_edits(text, [Edit(old, "NEW")], "f")
    except Refusal:
        return
    before, found, rest = after.text.partition("NEW")
    assert found
    assert text.startswith(before)
    assert text.endswith(rest)
    assert "NEW" not in rest


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3))
def test_a_text_that_occurs_more_than_once_is_refused_overlapping_or_not(text: str, old: str) -> None:
    count = sum(text.startswith(old, at) for at in range(len(text)))
    if count == 1:
        assert edited(text, (old, "c")) == text.replace(old, "c")
    else:
        said = refusal(text, (old, "c"))
        assert "Nothing was changed" in said
        assert ("does not occur" in said) if count == 0 else (f"occurs in {count} places" in said)


@given(st.permutations(["one", "two", "three"]))
def test_several_edits_are_found_in_the_text_as_it_was_in_any_order(order: list[str]) -> None:
    news = {"one": "two", "two": "three", "three": "1"}
    assert edited("one two three", *((old, news[old]) for old in order)) == "two three 1"


def test_places_are_told_by_their_lines() -> None:
    assert "(lines 1, 3)" in refusal("x\ny\nx\n", ("x", "z"))


def test_in_several_edits_the_one_that_fails_is_named_and_none_is_made() -> None:
    assert refusal("a b", ("a", "x"), ("q", "y")).startswith("edits[1].oldText does not occur")


def test_overlapping_edits_are_refused() -> None:
    assert refusal("abcd", ("abc", "x"), ("cd", "y")).startswith("edits[0] and edits[1] overlap")


def test_adjacent_edits_are_not_overlapping() -> None:
    assert edited("abcd", ("ab", "x"), ("cd", "y")) == "xy"


def test_an_empty_text_to_replace_is_refused() -> None:
    assert refusal("a", ("", "x")).startswith("oldText is empty")


def test_an_edit_without_effect_is_refused() -> None:
    assert "changes nothing" in refusal("a", ("a", "a"))


def test_no_edits_are_refused() -> None:
    assert "at least one" in refusal("a")


def test_a_text_with_plain_quotes_finds_typographic_ones_and_only_there_something_changes() -> None:
    text = "keep \u201cthis\u201d  \nsay \u201chello\u201d \u2014 now\n"
    result = apply_edits(text, [Edit('say "hello" - now', "bye")], "f")
    assert result.text == "keep \u201cthis\u201d  \nbye\n"
    assert result.loosely == 1


def test_blanks_at_line_ends_do_not_keep_a_text_from_being_found() -> None:
    assert edited("a  \nb\t\nc", ("a\nb\nc", "x")) == "x"
    assert edited("a \r\nb\r\n", ("a\nb", "x\ny")) == "x\r\ny\r\n"


def test_a_text_that_fits_loosely_in_two_places_is_refused() -> None:
    assert "occurs in 2 places" in refusal("\u2018a\u2019 \u2019a\u2018", ("'a'", "x"))


def test_an_exact_place_is_preferred_to_a_loose_one() -> None:
    assert edited('\u201ca\u201d "a"', ('"a"', "x")) == "\u201ca\u201d x"


def test_new_lines_in_a_file_of_mixed_line_ends_go_on_as_the_replaced_ones() -> None:
    text = "a\nb\nc\nd\r\ne\r\n"
    assert edited(text, ("d\ne", "1\n2\n3")) == "a\nb\nc\n1\r\n2\r\n3\r\n"


def test_the_refusal_tells_where_the_text_was_probably_meant() -> None:
    assert "its first line is in line 2" in refusal("x\n  def f():\n    pass\n", ("  def f():\n  pass", "y"))


def test_the_line_of_the_first_change_is_told() -> None:
    assert apply_edits("a\nb\nc", [Edit("c", "d"), Edit("b", "e")], "f").first_line == 2
