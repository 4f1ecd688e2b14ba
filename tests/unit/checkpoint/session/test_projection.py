"""The rules by which a branch becomes a conversation (tests/corpus/session/FORMAT.md §4)."""

from typing import Any

import pytest

from checkpoint.session.index import EntryHead
from checkpoint.session.projection import BadMessage, Projection, project
from tests.unit.checkpoint.session.sessions import TIME_MS, assistant, entry, user


def project_all(*entries: dict[str, Any], reads: list[int] | None = None) -> Projection:
    heads = [EntryHead(item.get("type"), item.get("id"), item.get("parentId")) for item in entries]

    def read(position: int) -> dict[str, Any]:
        if reads is not None:
            reads.append(position)
        return entries[position]

    return project(range(len(entries)), heads, read)


def messages(*entries: dict[str, Any]) -> list[Any]:
    return [message for _, message in project_all(*entries).messages]


def compaction(entry_id: str, parent_id: str, first_kept: str | None, **fields: Any) -> dict[str, Any]:
    kept = {} if first_kept is None else {"firstKeptEntryId": first_kept}
    return entry("compaction", entry_id, parent_id, summary="so far", tokensBefore=5, **kept, **fields)


SUMMARY = {"role": "compactionSummary", "summary": "so far", "tokensBefore": 5, "timestamp": TIME_MS}


def test_no_entries_give_no_messages() -> None:
    assert project_all() == Projection([], [], None, "off")


def test_messages_are_passed_as_they_are_stored() -> None:
    stored = user("a", None)
    assert messages(stored)[0] is stored["message"]


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_missing_content_is_an_empty_list(role: str) -> None:
    assert messages(entry("message", "a", None, message={"role": role, "content": None, "x": 1})) == [
        {"role": role, "content": [], "x": 1}
    ]
    assert messages(entry("message", "a", None, message={"role": role})) == [{"role": role, "content": []}]


def test_missing_content_of_a_system_message_is_an_empty_text_and_of_others_stays() -> None:
    assert messages(entry("message", "a", None, message={"role": "system"})) == [{"role": "system", "content": ""}]
    assert messages(entry("message", "a", None, message={"role": "odd"})) == [{"role": "odd"}]


def test_a_custom_message_gets_the_role_custom_and_the_time_of_its_entry() -> None:
    given = entry("custom_message", "a", None, customType="note", content=None, display=False, details={"x": 1})
    assert messages(given) == [
        {
            "role": "custom",
            "customType": "note",
            "content": [],
            "display": False,
            "details": {"x": 1},
            "timestamp": TIME_MS,
        }
    ]


def test_a_branch_summary_counts_unless_it_is_empty() -> None:
    given = entry("branch_summary", "a", None, summary="tried", fromId="root")
    assert messages(given) == [{"role": "branchSummary", "summary": "tried", "fromId": "root", "timestamp": TIME_MS}]
    assert messages({**given, "summary": ""}) == []


def test_other_entries_give_no_messages() -> None:
    kinds = ("custom", "label", "session_info", "usage", "model_change", "leaf", "unknown")
    assert messages(*(entry(kind, kind, None) for kind in kinds)) == []


def test_after_a_compaction_come_its_summary_what_it_keeps_and_what_followed() -> None:
    entries = (user("a", None), user("b", "a"), user("c", "b"), compaction("k", "c", "b"), user("d", "k"))
    projection = project_all(*entries)
    assert projection.positions == [3, 1, 2, 4]
    assert projection.messages[0] == (3, SUMMARY)


@pytest.mark.parametrize("first_kept", ["nobody", "k", "d", None])
def test_a_compaction_that_names_no_earlier_entry_keeps_nothing(first_kept: str | None) -> None:
    entries = (user("a", None), user("b", "a"), compaction("k", "b", first_kept), user("d", "k"))
    assert project_all(*entries).positions == [2, 3]


def test_an_older_compaction_inside_the_kept_range_gives_nothing() -> None:
    entries = (user("a", None), compaction("k1", "a", "a"), user("b", "k1"), compaction("k2", "b", "a"))
    assert [message["role"] for message in messages(*entries)] == ["compactionSummary", "user", "user"]


def test_a_compaction_brings_its_system_message_and_leaves_out_kept_ones() -> None:
    system = {"role": "system", "content": "be brief"}
    entries = (
        entry("message", "s", None, message=system),
        user("a", "s"),
        compaction("k", "a", "s", systemMessage={"role": "system", "content": "sum"}),
        entry("message", "t", "k", message=system),
    )
    assert [message["content"] for message in messages(*entries) if message["role"] == "system"] == [
        "sum",
        "be brief",
    ]


def test_a_context_edit_replaces_content_and_the_last_one_wins() -> None:
    entries = (
        user("a", None),
        assistant("b", "a"),
        entry("context_edit", "e1", "b", targetId="a", replacement=None),
        entry("context_edit", "e2", "e1", targetId="a", replacement={"content": "edited"}),
        entry("context_edit", "e3", "e2", targetId="b", replacement={"content": "said"}),
    )
    first, second = messages(*entries)
    assert first["content"] == "edited"
    assert second["content"] == [{"type": "text", "text": "said"}]
    assert entries[0]["message"]["content"] == "hello"


def test_a_context_edit_takes_any_kind_of_entry_out() -> None:
    entries = (
        compaction("k", "x", None, systemMessage={"role": "system", "content": "sum"}),
        entry("branch_summary", "s", "k", summary="tried"),
        entry("context_edit", "e1", "s", targetId="k", replacement=None),
        entry("context_edit", "e2", "e1", targetId="s"),
    )
    assert messages(*entries) == []


def test_a_context_edit_changes_only_roles_that_hold_content() -> None:
    bash = entry("message", "a", None, message={"role": "bashExecution", "command": "ls", "output": "x"})
    edit = entry("context_edit", "e", "a", targetId="a", replacement={"content": "gone"})
    assert messages(bash, edit) == [bash["message"]]


def test_an_edit_before_the_kept_range_is_not_applied() -> None:
    entries = (
        user("a", None),
        entry("context_edit", "e", "a", targetId="b", replacement=None),
        user("b", "e"),
        compaction("k", "b", "b"),
    )
    assert len(messages(*entries)) == 2


def test_settings_are_those_of_the_whole_branch() -> None:
    entries = (
        entry("model_change", "m", None, provider="p", modelId="m1"),
        entry("thinking_level_change", "t", "m", thinkingLevel="high"),
        user("a", "t"),
        compaction("k", "a", "a"),
    )
    projection = project_all(*entries)
    assert projection.model == {"provider": "p", "modelId": "m1"}
    assert projection.thinking_level == "high"


def test_the_model_that_answered_last_counts_as_chosen() -> None:
    entries = (
        assistant("a", None, provider="p", model="m2"),
        entry("model_change", "m", "a", provider="q", modelId="m3"),
    )
    assert project_all(entries[0]).model == {"provider": "p", "modelId": "m2"}
    assert project_all(*entries).model == {"provider": "q", "modelId": "m3"}


def test_what_lies_before_the_compaction_is_not_read() -> None:
    entries = [user(f"u{number}", None) for number in range(50)]
    reads: list[int] = []
    project_all(*entries, compaction("k", "u49", "u49"), assistant("a", "k"), reads=reads)
    assert sorted(reads) == [49, 50, 51]


@pytest.mark.parametrize("fields", [{}, {"message": None}])
def test_a_message_entry_without_a_message_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as caught:
        project_all(user("a", None), entry("message", "b", "a", **fields))
    assert caught.value.position == 1
