from checkpoint.session.system_prompt import system_prompt_of


def test_without_system_messages_there_is_no_prompt() -> None:
    assert system_prompt_of([{"role": "user", "content": "x"}, "odd"]) is None


def test_texts_are_joined_by_a_blank_line() -> None:
    messages = [
        {"role": "system", "content": "Base."},
        {"role": "user", "content": "x"},
        {"role": "system", "content": [{"type": "text", "text": "More"}, {"type": "text", "text": "."}, None]},
    ]
    assert system_prompt_of(messages) == "Base.\n\nMore."


def test_sections_follow_as_they_stand_after_the_last_patch() -> None:
    messages = [
        {"role": "system", "content": "", "sections": {"a": "A", "b": "B", "c": "C"}},
        {"role": "system", "content": None, "sections": {"a": "A2", "b": None, "d": "D"}},
        {"role": "system", "content": "", "sections": "odd"},
    ]
    assert system_prompt_of(messages) == "A2\n\nC\n\nD"


def test_an_empty_system_message_is_an_empty_prompt() -> None:
    assert system_prompt_of([{"role": "system", "content": ""}]) == ""
