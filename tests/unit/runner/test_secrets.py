import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.cli import build_parser
from runner.errors import Refused
from runner.launch import parse_spec
from runner.secrets import (
    DEFAULT_FOLDER,
    MAX_SECRET_BYTES,
    Secrets,
    load_secrets,
    missing_secrets,
    required_names,
    wanted_names,
)
from runner.spec import Spec


def spec(**changes: Any) -> Spec:
    document = {
        "version": 1,
        "pipeline_id": "p1",
        "session": {"id": "s1"},
        "store": {"uri": "store"},
        "agent": {"model": {"api": "scripted", "script": "script.json"}},
        **changes,
    }
    return parse_spec(json.dumps(document).encode(), "spec")


def test_a_file_wins_over_the_variable_which_is_removed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "callback_secret").write_text("from-file\n")
    environ = {"CALLBACK_SECRET": "from-variable", "AWS_ACCESS_KEY_ID": "key", "PATH": "/bin"}

    secrets = load_secrets(tmp_path, ["callback_secret", "aws_access_key_id", "aws_session_token"], environ)

    assert secrets.get("callback_secret") == "from-file"
    assert secrets.get("aws_access_key_id") == "key"
    assert secrets.get("aws_session_token") is None
    assert environ == {"PATH": "/bin"}


def test_a_folder_that_was_named_and_is_missing_or_no_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(Refused, match=rf"--secrets-dir: .*{folder.name} is no folder") as refused:
            load_secrets(folder, [], {})
        assert refused.value.reason == "secret_unreadable"


def test_the_default_folder_need_not_be_there() -> None:
    assert build_parser().parse_args(["check"]).secrets_dir == DEFAULT_FOLDER
    load_secrets(DEFAULT_FOLDER, [], {})


def test_line_ends_are_taken_off_and_inner_lines_are_kept(tmp_path: Path) -> None:
    (tmp_path / "callback_secret").write_bytes(b"first\nsecond \r\n\n")
    assert load_secrets(tmp_path, ["callback_secret"], {}).get("callback_secret") == "first\nsecond "


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n"])
def test_a_blank_secret_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "callback_secret").write_bytes(content)
    assert load_secrets(tmp_path, ["callback_secret"], {}).get("callback_secret") is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (MAX_SECRET_BYTES + 1), None])
def test_a_secret_file_that_is_none_is_refused_and_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "callback_secret"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(Refused, match="callback_secret") as refused:
        load_secrets(tmp_path, ["callback_secret"], {})
    assert refused.value.reason == "secret_unreadable"


def test_the_representation_names_secrets_and_shows_none() -> None:
    assert repr(Secrets({"b": "value-b", "a": "value-a"})) == "Secrets(a, b)"


@given(st.lists(st.text(min_size=8, max_size=20), max_size=4), st.text(max_size=60))
def test_a_redacted_text_holds_no_line_of_any_secret(values: list[str], around: str) -> None:
    secrets = Secrets({f"s{number}": value for number, value in enumerate(values)})
    redacted = secrets.redact(around + "".join(values) + around)
    for value in values:
        for line in value.splitlines():
            assert len(line) < 8 or line not in redacted or line in "[secret s0][secret s1][secret s2][secret s3]"


def test_only_a_server_needs_the_callback_secret_and_the_sentence_says_where_to_put_it(tmp_path: Path) -> None:
    with_server = spec(server={"base_url": "https://example.com"})
    assert required_names(spec()) == []
    assert required_names(with_server) == ["callback_secret"]
    (sentence,) = missing_secrets(with_server, Secrets({}), tmp_path)
    assert sentence == (
        f"secret `callback_secret` is missing: put it in the file {tmp_path}/callback_secret "
        "or in the variable CALLBACK_SECRET"
    )
    assert missing_secrets(with_server, Secrets({"callback_secret": "x"}), tmp_path) == []


def test_the_names_that_a_spec_gives_are_wanted_and_needed() -> None:
    model = {
        "api": "openai-completions",
        "provider": "acme",
        "id": "m",
        "headers": {"X-Token": {"secret": "acme_token"}},
    }
    wanted = wanted_names(spec(agent={"model": model}))
    assert wanted[:2] == ["callback_secret", "aws_access_key_id"]
    assert {"acme_api_key", "acme_token"} <= set(wanted)
    assert "acme_token" in required_names(spec(agent={"model": model}))
