"""The decision tables of the head record."""

from typing import Any

import pytest

from checkpoint.errors import DamagedRecord
from checkpoint.head import (
    Acknowledged,
    AlreadyTerminal,
    Claimed,
    Fenced,
    Head,
    OtherSession,
    Overtaken,
    OwnWrite,
    RejectedBefore,
    TryAgain,
    WriteClaim,
    decide_claim,
    encode_head,
    head_of,
    judge,
    parse_head,
    with_fields,
)
from tests.unit.checkpoint.checkpoints import claimant

TERMINAL = {"body": '{"a": 1}', "webhook_id": "term_p1", "manifest": None, "digest": None}
OTHER_TERMINAL = {**TERMINAL, "body": "{}"}
PROGRESS: dict[str, Any] = {
    "segments": [],
    "entries": 8,
    "leaf_id": "l",
    "chain": "sha256:" + "0" * 64,
    "input_consumed": True,
    "usage": {"input": 1, "new": [1]},
    "stop": None,
    "unknown": 1,
}
RESTORE = {"manifest": "sessions/s1/checkpoints/p0.1.c.json", "digest": "sha256:" + "1" * 64}


def head(**fields: Any) -> Head:
    """A claim by attempt 1 of pipeline p1, session s1, with some fields changed."""
    json: dict[str, Any] = {
        "version": 1,
        "pipeline_id": "p1",
        "session_id": "s1",
        "attempt": 1,
        "claim_id": "theirs",
        "revision": 3,
        "state": "claimed",
        "claimed_at": "2025-01-01T00:00:00.000Z",
        "deadline_s": 3600,
        "grace_s": 25,
        "callback_url": "https://old.example/v1/terminals",
        "restore": RESTORE,
        "progress": None,
        "terminal": None,
    }
    return head_of({**json, **fields})


def settled(state: str, **fields: Any) -> Head:
    return head(state=state, terminal=TERMINAL, **fields)


# The claim table.


def test_nothing_there_is_claimed_anew() -> None:
    decision = decide_claim(None, claimant())
    assert isinstance(decision, WriteClaim)
    assert decision.over is None
    fields = decision.head.fields
    assert (fields.claim_id, fields.attempt, fields.revision, fields.state) == ("mine", 1, 1, "claimed")
    assert list(decision.head.json) == list(head().json)


@pytest.mark.parametrize("attempt", [1, 2, 9])
@pytest.mark.parametrize(
    ("state", "kind"), [("terminal", AlreadyTerminal), ("acknowledged", Acknowledged), ("rejected", RejectedBefore)]
)
def test_a_settled_pipeline_is_not_run_whatever_the_attempt(state: str, kind: type, attempt: int) -> None:
    found = settled(state, attempt=2)
    assert decide_claim(found, claimant(attempt=attempt)) == kind(found)


def test_a_claim_of_a_lower_attempt_is_taken_over_progress_and_all() -> None:
    found = head(progress=PROGRESS, later_field={"kept": [1, 2]})
    decision = decide_claim(found, claimant(attempt=2))
    assert isinstance(decision, WriteClaim)
    assert decision.over is found
    assert decision.head.json == {
        **found.json,
        "attempt": 2,
        "claim_id": "mine",
        "revision": 4,
        "callback_url": "https://server.example/v1/terminals",
    }


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_claim_of_the_same_or_a_higher_attempt_fences(attempt: int) -> None:
    found = head(attempt=2)
    assert decide_claim(found, claimant(attempt=attempt)) == Fenced(found)


def test_our_own_claim_whose_answer_was_lost_is_ours() -> None:
    found = head(claim_id="mine", revision=1)
    assert decide_claim(found, claimant()) == Claimed(found, over=None)


@pytest.mark.parametrize("found", [head(), head(claim_id="mine"), settled("terminal"), settled("acknowledged")])
def test_another_session_under_this_pipeline_is_refused_in_every_state(found: Head) -> None:
    assert decide_claim(found, claimant(session_id="s2", attempt=9)) == OtherSession(found)


# After a 412 or 409.

WANTED = head(claim_id="mine", revision=5, progress=PROGRESS)
COMMIT = head(claim_id="mine", revision=5, state="terminal", terminal=TERMINAL)
ACK = head(claim_id="mine", revision=6, state="acknowledged", terminal=TERMINAL)


@pytest.mark.parametrize(
    ("wanted", "found", "judgement"),
    [
        (WANTED, None, Overtaken),
        (WANTED, head(claim_id="theirs", revision=9), Overtaken),
        (WANTED, WANTED, OwnWrite),
        (WANTED, head(claim_id="mine", revision=4), TryAgain),
        (WANTED, head(claim_id="mine", revision=6), Overtaken),
        (WANTED, settled("terminal", claim_id="mine", revision=4), Overtaken),
        (COMMIT, COMMIT, OwnWrite),
        (COMMIT, settled("acknowledged", claim_id="mine", revision=6), OwnWrite),
        (COMMIT, settled("rejected", claim_id="mine", revision=6), OwnWrite),
        (COMMIT, head(claim_id="mine", revision=4), TryAgain),
        (COMMIT, head(claim_id="mine", revision=4, state="terminal", terminal=OTHER_TERMINAL), Overtaken),
        (COMMIT, settled("terminal", claim_id="theirs", revision=6), Overtaken),
        (ACK, ACK, OwnWrite),
        (ACK, settled("acknowledged", claim_id="mine", revision=9), OwnWrite),
        (ACK, settled("rejected", claim_id="mine", revision=6), Overtaken),
        (ACK, settled("terminal", claim_id="mine", revision=5), TryAgain),
    ],
)
def test_what_stands_there_after_a_refused_write_is_judged(wanted: Head, found: Head | None, judgement: type) -> None:
    assert type(judge(wanted, found)) is judgement


# Bytes.


def test_a_head_reads_back_with_the_fields_nobody_here_knows() -> None:
    found = settled("terminal", progress=PROGRESS, later_field=[{"a": None}])
    read = parse_head(encode_head(found), "memory:///head")
    assert read == found
    assert encode_head(read) == encode_head(found)
    changed = with_fields(read, 4, state="acknowledged")
    assert changed.json == {**found.json, "revision": 4, "state": "acknowledged"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"version": 1',
        encode_head(head()).replace(b'"version":1', b'"version":2'),
        encode_head(head()).replace(b'"claimed"', b'"lost"'),
        encode_head(head()).replace(b'"state":"claimed"', b'"state":"terminal"'),
        encode_head(settled("terminal")).replace(b'"state":"terminal"', b'"state":"claimed"'),
        encode_head(head()).replace(b'"attempt":1', b'"attempt":0'),
        encode_head(head()).replace(b'"s1"', b'"../s1"'),
        encode_head(head(progress=PROGRESS)).replace(b'"entries":8', b'"entries":-8'),
        encode_head(head()).replace(b'"manifest"', b'"mannifest"'),
        b"[" * 100_000,
        b'{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_bytes_that_are_no_head_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(DamagedRecord, match=r"memory:///pipelines/p1/head\.json is not readable") as failure:
        parse_head(data, "memory:///pipelines/p1/head.json")
    assert failure.value.reason == "damaged_record"


@pytest.mark.parametrize("body", ["", "garbage {", "[]", '"text"'])
def test_a_terminal_body_that_is_no_json_object_is_refused_before_anybody_sends_it(body: str) -> None:
    data = encode_head(head(state="terminal", terminal={**TERMINAL, "body": body}))
    with pytest.raises(DamagedRecord, match=r"the terminal body in memory:///head is not readable"):
        parse_head(data, "memory:///head")
