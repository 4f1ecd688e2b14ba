"""Usage, times and the tree of a session, from its entries."""

from pathlib import Path
from typing import Any

import pytest

from runner.inspection.errors import SourceFailed
from runner.inspection.overview import Surveyed, model_ms, surveyed
from runner.inspection.source import open_source
from runner.inspection.survey import Usage
from runner.inspection.tree import TreeRow, tree_rows
from runner.inspection.wording import dollars, duration, tools_words
from tests.unit.runner.inspection.stored import CORPUS, NOWHERE, assistant, call, result, session_bytes, user


def look(path: Path) -> Surveyed:
    with open_source(str(path), NOWHERE, on_damage="skip") as source:
        assert source.session is not None
        return surveyed(source.session)


def of(tmp_path: Path, *messages: dict[str, Any]) -> Surveyed:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session_bytes(*messages))
    return look(path)


def test_a_turn_has_its_usage_and_the_times_of_model_and_tools(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        user("go"),
        assistant("", call("bash", "c1"), call("read", "c2"), call("write", "c3")),
        result("c1", "ok"),
        result("c2", "no", "read", isError=True, durationMs=250),
        assistant("done"),
    ).found
    first, second = found.turns
    assert (model_ms(first), model_ms(second)) == (1000, 1000)
    assert tools_words(first) == "bash 1.0 s, read! 0.2 s, write? -"
    assert found.usage == Usage(20, 10, 6, 4, 40, 1.0)
    assert found.model == "anthropic/m-1"


def test_usage_in_another_shape_counts_nothing(tmp_path: Path) -> None:
    odd: list[Any] = [None, [], {"input": "many", "cost": 3}, {"input": -1, "output": True, "cost": {"total": 1e300}}]
    found = of(tmp_path, *(assistant("x", usage=usage) for usage in odd)).found
    assert found.usage == Usage()
    assert len(found.turns) == 4


def test_what_was_paid_beside_the_turns_is_counted(tmp_path: Path) -> None:
    usage = {"input": 7, "cost": {"total": 0.25}}
    found = of(tmp_path, user("go"), assistant("", call("t", "c1")), result("c1", "ok", "t", usage=usage)).found
    assert [(use.what, use.usage.input) for use in found.other] == [("tool t", 7)]
    assert found.usage.cost_usd == 0.75


def test_the_model_is_the_last_one_of_the_active_branch() -> None:
    found = look(CORPUS / "ask-user-1.jsonl").found
    assert (found.model, found.thinking_level) == ("anthropic/claude-sonnet-4-5", "off")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_entry_is_in_the_tree_once(path: Path) -> None:
    try:
        session = look(path)
    except SourceFailed:
        return  # no session at all: test_source has these
    index = session.file.index
    rows = list(tree_rows(index.heads, index.by_id, session.active, {}))
    assert sum(row.count for row in rows) == len(index)
    assert all(row.first == row.last for row in rows if row.count == 1)
    on_active = sum(row.count for row in rows if row.active)
    assert on_active == len(session.active)


def test_a_cycle_is_shown_as_lost(tmp_path: Path) -> None:
    session = look(CORPUS / "cycle-two-1.jsonl")
    rows = list(tree_rows(session.file.index.heads, session.file.index.by_id, session.active, {}))
    assert session.cycle
    assert any(row.lost for row in rows)


def test_a_branching_point_says_how_many_branches_begin_there() -> None:
    session = look(CORPUS / "branch-summary-1.jsonl")
    rows = list(tree_rows(session.file.index.heads, session.file.index.by_id, session.active, {}))
    assert max(row.branches for row in rows) >= 2
    assert max(row.depth for row in rows) >= 1
    assert any(not row.active for row in rows)
    assert isinstance(rows[0], TreeRow)


@pytest.mark.parametrize(
    ("ms", "words"), [(None, "-"), (0, "0.0 s"), (59_900, "59.9 s"), (61_000, "1 min 1 s"), (3_720_000, "1 h 2 min")]
)
def test_durations_in_words(ms: int | None, words: str) -> None:
    assert duration(ms) == words


def test_small_amounts_of_money_keep_their_digits() -> None:
    assert (dollars(0.00123), dollars(1234.5)) == ("$0.0012", "$1,234.50")
