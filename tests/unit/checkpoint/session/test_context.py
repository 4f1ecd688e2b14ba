from pathlib import Path
from typing import Any

import pytest

from checkpoint.session.annotations import read_annotations
from checkpoint.session.context import load_context
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import OnDamage
from checkpoint.session.migration import index_file
from tests.unit.checkpoint.session.sessions import HEADER, assistant, entry, session, user


def write(tmp_path: Path, *entries: Any, header: Any = HEADER) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session(*entries, header=header))
    return path


def load(path: Path, on_damage: OnDamage = "fail") -> Any:
    return load_context(path, index_file(path, on_damage))


def test_the_context_is_ready_to_go_on_with(tmp_path: Path) -> None:
    system = entry("message", "s", None, message={"role": "system", "content": "Be brief."})
    path = write(
        tmp_path,
        entry("model_change", "m", None, provider="p", modelId="x"),
        entry("thinking_level_change", "t", "m", thinkingLevel="high"),
        {**system, "parentId": "t"},
        user("a", "s"),
        assistant("b", "a", provider="p", model="y"),
        entry("custom", "c", "b", customType="note"),
    )
    context = load(path)
    assert [message["role"] for message in context.messages] == ["user", "assistant"]
    assert context.entry_ids == ["a", "b"]
    assert context.system_prompt == "Be brief."
    assert context.thinking_level == "high"
    assert context.model == {"provider": "p", "modelId": "y"}
    assert context.leaf_id == "c"


def test_an_empty_session_has_an_empty_context(tmp_path: Path) -> None:
    context = load(write(tmp_path))
    assert (context.messages, context.entry_ids, context.system_prompt) == ([], [], None)
    assert (context.thinking_level, context.model, context.leaf_id) == ("off", None, None)


@pytest.mark.parametrize(
    "message",
    [
        None,
        "text",
        [],
        {"role": "user", "content": 5},
        {"role": "assistant", "content": [None]},
        {"role": "toolResult", "content": ["text"]},
        {"role": "system", "content": {"x": 1}},
    ],
)
def test_a_message_that_no_request_can_hold_is_damage_that_names_its_line(tmp_path: Path, message: Any) -> None:
    path = write(tmp_path, user("a", None), entry("message", "b", "a", message=message))
    with pytest.raises(SessionDamaged) as caught:
        load(path)
    assert (caught.value.reason, caught.value.line) == ("message", 3)


def test_lenient_reading_passes_odd_content_on_and_leaves_out_what_is_no_message(tmp_path: Path) -> None:
    odd = {"role": "user", "content": 5}
    path = write(
        tmp_path,
        entry("message", "a", None, message=odd),
        {"type": "message", "parentId": "a", "message": {"role": "user", "content": "x"}},
        b"[1]\n",
    )
    assert load(path, "skip").messages == []
    path.write_bytes(path.read_bytes().removesuffix(b"[1]\n"))
    context = load(path, "skip")
    assert context.messages[0] == odd
    assert context.entry_ids == ["a", ""]


def test_unknown_roles_stay_in_the_context(tmp_path: Path) -> None:
    path = write(tmp_path, entry("message", "a", None, message={"role": "new", "content": 5}))
    assert load(path).messages == [{"role": "new", "content": 5}]


def test_a_cycle_is_an_error_in_lenient_reading_too(tmp_path: Path) -> None:
    path = write(tmp_path, user("a", "b"), user("b", "a"))
    with pytest.raises(SessionDamaged, match="ancestor") as caught:
        load(path, "skip")
    assert caught.value.reason == "cycle"


def test_a_file_that_changed_after_it_was_indexed_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, user("a", None))
    index = index_file(path)
    path.write_bytes(path.read_bytes().replace(b'"message"', b'"mess\nage'))
    with pytest.raises(SessionDamaged) as caught:
        load_context(path, index)
    assert caught.value.reason == "changed"


def test_an_old_session_must_be_migrated_first(tmp_path: Path) -> None:
    path = write(tmp_path, user("a", None), header={**HEADER, "version": 2})
    with pytest.raises(ValueError, match="migrated"):
        load(path)


def test_a_session_has_a_name_and_labels(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        entry("session_info", "i1", None, name=" Cache race "),
        entry("label", "l1", "i1", targetId="i1", label="start"),
        entry("label", "l2", "l1", targetId="l1", label="gone"),
        entry("label", "l3", "l2", targetId="l1"),
    )
    annotations = read_annotations(path, index_file(path))
    assert (annotations.name, annotations.labels) == ("Cache race", {"i1": "start"})


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_name_can_be_cleared(tmp_path: Path, name: Any) -> None:
    path = write(tmp_path, entry("session_info", "a", None, name="x"), entry("session_info", "b", "a", name=name))
    assert read_annotations(path, index_file(path)).name is None
