"""The question on the wire."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from settlement.question import Question, for_log, question_id, to_body
from settlement.wire import read, time_text
from tests.unit.settlement.samples import a_question

FIELDS = [
    "version",
    "type",
    "question_id",
    "pipeline_id",
    "attempt",
    "session_id",
    "tool_call_id",
    "tool_name",
    "question",
    "context",
    "options",
    "form",
    "stream_id",
    "labels",
    "asked_at",
]


def test_the_body_has_every_field_in_the_documented_order():
    body = json.loads(to_body(a_question(options=["staging", "production"])))
    assert list(body) == FIELDS
    assert body["version"] == 1
    assert body["type"] == "question"
    assert body["options"] == ["staging", "production"]
    assert body["context"] is body["form"] is body["stream_id"] is None
    assert body["labels"] == {}


def test_the_id_is_made_of_where_the_question_stands():
    expected = hashlib.sha256(b"p1\0e1\0c1\0").hexdigest()[:32]
    assert question_id("p1", "e1", "c1") == f"ask_{expected}"


def test_parts_of_an_id_do_not_run_into_each_other():
    assert question_id("p1", "e", "1c") != question_id("p1", "e1", "c")


def test_the_same_question_gives_the_same_bytes():
    assert to_body(a_question(labels={"a": "1", "b": "2"})) == to_body(a_question(labels={"a": "1", "b": "2"}))


def test_a_form_comes_without_a_question_and_goes_as_it_is():
    form = {"type": "object", "properties": {"env": {"enum": ["a", "ü"]}}, "x": [1, 2.5, None, True]}
    body = json.loads(to_body(a_question(question=None, form=form, tool_name="collect_form_input")))
    assert body["question"] is None
    assert body["form"] == form


@pytest.mark.parametrize("parts", [{"question": None}, {"form": {"a": 1}}])
def test_there_is_either_a_question_or_a_form(parts: dict[str, Any]):
    with pytest.raises(ValidationError, match="either `question` or `form`"):
        a_question(**parts)


def test_an_unknown_field_is_refused_when_building_and_ignored_when_reading():
    question = a_question()
    with pytest.raises(ValidationError, match="Extra inputs"):
        Question.model_validate({**question.model_dump(), "extra": 1})
    newer = json.dumps({**json.loads(to_body(question)), "extra": 1}).encode()
    assert read(Question, newer) == question


def test_text_that_no_utf_8_can_hold_does_not_stop_a_question():
    body = to_body(a_question(question="a\ud800b\0c"))
    assert json.loads(body)["question"] == "a\ufffdb\ufffdc"


def test_a_question_is_frozen():
    field = "attempt"
    with pytest.raises(ValidationError, match="frozen"):
        setattr(a_question(), field, 2)


def test_a_body_is_valid_by_the_schema_that_is_printed():
    schema = Question.model_json_schema(mode="serialization")
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(json.loads(to_body(a_question())))
    assert set(schema["required"]) == set(FIELDS)
    assert not validator.is_valid({**json.loads(to_body(a_question())), "question_id": "ask_1"})


def test_times_are_utc_with_milliseconds():
    moment = datetime(2026, 7, 31, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert time_text(moment) == "2026-07-31T10:00:00.999Z"
    assert time_text(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000Z"
    with pytest.raises(ValueError, match="time zone"):
        time_text(datetime(2026, 1, 1))


def test_logs_show_the_first_eighty_characters_of_a_question() -> None:
    assert for_log("Staging\nor  production?") == "Staging or production?"
    assert for_log("x" * 79 + "yz") == "x" * 79 + "y"
    assert for_log(None) is None
