import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject
from runner.errors import Refused, UsageError
from runner.launch import MAX_SPEC_BYTES, load_launch, parse_spec
from runner.spec import MAX_LABEL_BYTES, Spec, address_problem
from settlement.delivery import new_client

SPEC: JsonObject = {
    "version": 1,
    "pipeline_id": "p1",
    "session": {"id": "s1"},
    "store": {"uri": "store"},
    "input": {"message": "Hello"},
    "agent": {"model": {"api": "scripted", "script": "script.json"}},
}
TEXT = json.dumps(SPEC)


def problems_of(text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(Refused) as refused:
        parse_spec(text if isinstance(text, bytes) else text.encode(), "spec.json")
    return refused.value.problems


def with_changes(*path_and_value: Any) -> str:
    """The good spec with one value, found by its path, replaced."""
    document = json.loads(TEXT)
    *path, last, value = path_and_value
    place = document
    for name in path:
        place = place.setdefault(name, {})
    place[last] = value
    return json.dumps(document)


# --- where it comes from ------------------------------------------------------------------------------------


def test_a_path_wins_over_the_environment_and_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "launch" / "spec.json"
    file.parent.mkdir()
    file.write_text(TEXT)

    launch = load_launch(str(file), {"PIPELINE_SPEC": "{"})

    assert launch.spec.pipeline_id == "p1"
    assert launch.spec_file == file
    assert launch.path("store") == tmp_path / "launch" / "store"
    assert launch.path("/elsewhere") == Path("/elsewhere")


@pytest.mark.parametrize(
    ("argument", "environ", "stdin"),
    [
        ("-", {}, TEXT),
        ("-", {"PIPELINE_SPEC": "{"}, TEXT),
        (None, {"PIPELINE_SPEC": TEXT, "PIPELINE_SPEC_FILE": "x"}, ""),
    ],
)
def test_a_spec_without_a_file_is_relative_to_the_current_folder(
    argument: str | None, environ: dict[str, str], stdin: str
) -> None:
    launch = load_launch(argument, environ, io.BytesIO(stdin.encode()))
    assert (launch.spec.pipeline_id, launch.base, launch.spec_file) == ("p1", Path.cwd(), None)


def test_the_environment_may_name_a_file(tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(TEXT)
    assert load_launch(None, {"PIPELINE_SPEC_FILE": str(file)}).spec_file == file


def test_no_spec_at_all_is_a_wrong_command_line() -> None:
    with pytest.raises(UsageError, match="give a path or `-`, or set PIPELINE_SPEC"):
        load_launch(None, {})


@pytest.mark.parametrize("path", ["", "a\0b", "nowhere.json", "/", "/proc/self/mem"])
def test_a_file_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(Refused) as refused:
        load_launch(path, {})
    assert refused.value.reason == "spec_unreadable"
    assert "give the path of the launch spec" in refused.value.message


# --- what is wrong with it ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        (TEXT[:-1], "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        (TEXT.encode("utf-16"), "not UTF-8 (byte 0): save it as UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ('{"version": ' + "1" * 5000 + "}", "cannot be read"),
        (" " * (MAX_SPEC_BYTES + 1), "is it the launch spec?"),
        (TEXT.replace("{", '{"version": 1, ', 1), "the key 'version' stands twice in one object: keep one"),
        (with_changes("version", 2), "`version` is 2; this runner understands version 1"),
        (with_changes("version", True), "`version` is true"),
        (with_changes("version", "1"), '`version` is "1"'),
        (with_changes("version", None), "`version` is missing"),
    ],
)
def test_a_document_that_is_no_spec_is_refused_in_one_sentence(text: str | bytes, says: str) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith("spec.json: ")
    assert says in problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (with_changes("inputs", None), "inputs: unknown field: did you mean `input`?"),
        (with_changes("limits", "max_turn", 3), "limits.max_turn: unknown field: did you mean `max_turns`?"),
        (with_changes("xyzzy", 1), "xyzzy: unknown field: remove it"),
        (with_changes("pipeline_id", "a/b"), "pipeline_id: has the wrong form; it must match"),
        (with_changes("pipeline_id", "p1\n"), "pipeline_id: has the wrong form"),
        (with_changes("attempt", 0), "attempt: "),
        (with_changes("attempt", "1"), "attempt: "),
        (with_changes("limits", "grace_s", 4000), "limits: `deadline_s` (3600) must be greater than `grace_s` (4000)"),
        (with_changes("input", {}), "input: give either `message` or `reply`; leave `input` out to continue"),
        (with_changes("input", "reply", {"tool_call_id": "c", "message": "m"}), "input: give either"),
        (with_changes("input", "message", []), "input.message: "),
        (with_changes("input", "message", [{"type": "video"}]), "input.message[0]"),
        (with_changes("session", "restore", {"manifest": "k"}), "session.restore.digest: must be given"),
        (
            with_changes("session", "restore", {"jsonl": "k", "digest": "md5:1"}),
            "session.restore.digest: has the wrong form",
        ),
        (with_changes("server", {"base_url": "http://example.com"}), "server: http:// is for loopback only"),
        (with_changes("server", {"base_url": "https://u:p@example.com"}), "must not hold a user name or password"),
        (
            with_changes("server", {"base_url": "https://h", "callback_path": "v1"}),
            "server.callback_path: has the wrong form",
        ),
        (with_changes("labels", {"a": "x" * MAX_LABEL_BYTES}), f"at most {MAX_LABEL_BYTES} are echoed: shorten them"),
        (with_changes("labels", {"a": "\x01" * 1000}), f"at most {MAX_LABEL_BYTES} are echoed: shorten them"),
        (with_changes("labels", {f"{n}": "" for n in range(700)}), f"at most {MAX_LABEL_BYTES} are echoed"),
        (with_changes("agent", "model", "script", None), "a scripted model needs `script`"),
        (with_changes("agent", "model", "max_tokens", 5), "a scripted model has no `max_tokens`"),
        (with_changes("limits", "deadline_s", float("nan")), "spec.json: "),
        (with_changes("limits", "deadline_s", float("inf")), "spec.json: "),
    ],
)
def test_a_wrong_field_is_named_with_what_to_do(text: str, says: str) -> None:
    (problem,) = problems_of(text)
    assert says in problem


def test_a_literal_credential_in_a_header_is_refused_without_being_shown() -> None:
    model = {"api": "openai-completions", "provider": "p", "id": "m", "headers": {"X-Api-Key": "sk-123456789"}}
    (problem,) = problems_of(with_changes("agent", "model", model))
    assert 'the header \'X-Api-Key\' carries a credential: write {"secret": "name"}' in problem
    assert "sk-123456789" not in problem


def test_all_wrong_fields_are_named_at_once() -> None:
    assert len(problems_of(json.dumps({**SPEC, "attempt": 0, "labels": [], "workspace": ""}))) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
PLACES = st.sampled_from(
    [
        (name,)
        for name in (
            *SPEC,
            "server",
            "limits",
            "checkpoint",
            "isolation",
            "labels",
            "workspace",
            "control",
            "traceparent",
        )
    ]
    + [("session", "restore"), ("store", "endpoint_url"), ("input", "message"), ("agent", "model"), ("agent", "tools")]
    + [("agent", "mcp"), ("agent", "fallback_models"), ("agent", "model", "headers"), ("server", "base_url")]
)


def outcome(text: str) -> Spec | Refused:
    try:
        return parse_spec(text.encode(), "spec.json")
    except Refused as refused:
        return refused


@given(PLACES, JSON)
def test_any_value_anywhere_gives_a_spec_or_a_refusal_that_names_the_file(place: tuple[str, ...], value: Any) -> None:
    if place == ("server", "base_url"):
        place, value = ("server",), {"base_url": value}
    found = outcome(with_changes(*place, value))
    if isinstance(found, Refused):
        assert found.problems
        assert all(problem.startswith("spec.json: ") for problem in found.problems)


def test_text_that_no_line_could_hold_is_cleaned() -> None:
    spec = parse_spec(with_changes("input", "message", "a\0b\ud800c").encode(), "spec.json")
    assert spec.input is not None
    assert spec.input.message == "a\ufffdb\ufffdc"


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_give_a_refusal(content: bytes) -> None:
    assert problems_of(content)


@given(st.from_regex(r"https?://[ -~]{1,30}", fullmatch=True) | st.text(max_size=30))
@example("http://127.0.0.1:80/a b")
@example("http://127.0.0.1:0")
@example("http://999.1.1.1")
@example("http://localhost:8\n0")
@example("https://exa_mple.com./x")
@example("https://[::1]:80")
@example("https://[::1%25eth0]")
@example("https://xn--.com")
@example("https://\u2603.net")
@example("https://a..b")
def test_an_address_that_passes_can_be_sent_to(url: str) -> None:
    if address_problem(url, insecure=True) is None:
        new_client(url)


def test_standard_input_is_touched_only_when_it_is_asked_for(
    tmp_path: Path, without_standard_input: Callable[[], None]
) -> None:
    without_standard_input()
    (tmp_path / "spec.json").write_text(TEXT)
    assert load_launch(str(tmp_path / "spec.json"), {}).spec.pipeline_id == "p1"


@pytest.fixture
def without_standard_input() -> Any:
    """A process that was started with a closed standard input has none."""
    before = sys.stdin
    yield lambda: setattr(sys, "stdin", None)
    sys.stdin = before
