import pytest

from checkpoint.keys import diagnostic_key, head_key, manifest_key, pipeline_of, segment_key
from checkpoint.store.addresses import check_key


def test_keys_are_those_of_the_layout() -> None:
    assert segment_key("s1", "ab") == "sessions/s1/segments/ab.zst"
    assert manifest_key("s1", "p-1", 2, "c") == "sessions/s1/checkpoints/p-1.2.c.json"
    assert diagnostic_key("s1", "p-1", 2, "c") == "sessions/s1/diagnostics/p-1.2.c.jsonl.zst"
    assert head_key("p_1") == "pipelines/p_1/head.json"
    assert check_key(head_key("p_1")) == head_key("p_1")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a.b", "-a", "a" * 65, "a\n", "ä"])
def test_what_is_no_id_makes_no_key(name: str) -> None:
    for make in (
        lambda: head_key(name),
        lambda: manifest_key("s", name, 1, "c"),
        lambda: manifest_key("s", "p", 1, name),
        lambda: diagnostic_key(name, "p", 1, "c"),
        lambda: segment_key(name, "ab"),
    ):
        with pytest.raises(ValueError, match="not an id"):
            make()


def test_a_head_names_its_pipeline_and_nothing_else_does() -> None:
    assert pipeline_of(head_key("p1")) == "p1"
    for key in (
        "pipelines/p1/other.json",
        "pipelines/a/b/head.json",
        "sessions/p1/head.json",
        "x/pipelines/p1/head.json",
    ):
        assert pipeline_of(key) is None
