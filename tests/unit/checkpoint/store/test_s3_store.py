import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoint.errors import StoreError
from checkpoint.store.port import Conflict, PreconditionFailed, Written
from checkpoint.store.s3_client import AddressingStyle, S3Credentials, S3Settings, build_client
from checkpoint.store.s3_store import S3Store
from tests.fakes.s3_answers import Answer, S3Answers, error_answer, serving

SECRET = "wJalr-very-secret"
CREDENTIALS = S3Credentials("AKIDEXAMPLE", SECRET, "session-token-secret")
DONE = Answer(headers={"etag": '"e1"'})


def settings(endpoint_url: str, *, attempts: int = 1, addressing_style: AddressingStyle | None = None) -> S3Settings:
    return S3Settings(
        bucket="bucket",
        prefix="pre/fix",
        endpoint_url=endpoint_url,
        region="us-east-1",
        addressing_style=addressing_style,
        credentials=CREDENTIALS,
        connect_timeout_s=2,
        read_timeout_s=2,
        attempts=attempts,
    )


@pytest.fixture
def served() -> Iterator[S3Answers]:
    with serving(DONE) as answers:
        yield answers


@pytest.fixture
def store(served: S3Answers) -> S3Store:
    return S3Store(settings(served.endpoint_url))


# What goes over the wire.


def test_a_create_is_one_plain_request_without_expectation_or_trailer(served: S3Answers, store: S3Store) -> None:
    assert store.put_if_absent("a/b", b"body") == Written('"e1"')
    (asked,) = served.asked
    assert (asked.method, asked.path, asked.body) == ("PUT", "/bucket/pre/fix/a/b", b"body")
    assert asked.headers["if-none-match"] == "*"
    assert "expect" not in asked.headers
    assert "x-amz-trailer" not in asked.headers
    assert not [name for name in asked.headers if name.startswith(("x-amz-checksum", "x-amz-sdk-checksum"))]
    assert asked.headers["content-length"] == "4"


def test_a_body_from_a_file_goes_the_same_way(served: S3Answers, store: S3Store, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"from a file")
    store.put_if_absent("a", tmp_path / "body")
    assert served.asked[0].body == b"from a file"
    assert "expect" not in served.asked[0].headers
    assert served.asked[0].headers.get("content-encoding") is None


def test_a_replacement_names_the_etag_as_it_was_given(served: S3Answers, store: S3Store) -> None:
    store.put_if_match("a", b"body", '"e0"')
    assert served.asked[0].headers["if-match"] == '"e0"'


def test_given_credentials_are_used_and_the_session_token_too(served: S3Answers, store: S3Store) -> None:
    store.get("a")
    assert "Credential=AKIDEXAMPLE/" in served.asked[0].headers["authorization"]
    assert served.asked[0].headers["x-amz-security-token"] == "session-token-secret"


@pytest.mark.parametrize(
    ("style", "url"),
    [
        (None, "http://store.example/bucket/pre/fix/a"),
        ("path", "http://store.example/bucket/pre/fix/a"),
        ("virtual", "http://bucket.store.example/pre/fix/a"),
    ],
)
def test_the_bucket_goes_where_the_addressing_style_says(style: AddressingStyle | None, url: str) -> None:
    client = build_client(settings("http://store.example", addressing_style=style))
    made = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "pre/fix/a"})
    assert made.partition("?")[0] == url


# What answers mean.


@pytest.mark.parametrize(
    ("answer", "absent", "match"),
    [
        (error_answer(412, "PreconditionFailed"), PreconditionFailed(), PreconditionFailed()),
        (error_answer(409, "ConditionalRequestConflict"), Conflict(), Conflict()),
        (error_answer(404, "NoSuchKey"), None, PreconditionFailed()),
    ],
)
def test_refused_conditions_are_values(answer: Answer, absent: object, match: object) -> None:
    with serving(answer) as served:
        store = S3Store(settings(served.endpoint_url))
        if absent is not None:
            assert store.put_if_absent("a", b"x") == absent
        assert store.put_if_match("a", b"x", '"e"') == match


@pytest.mark.parametrize(
    ("answer", "reason", "advice"),
    [
        (error_answer(403, "AccessDenied"), "denied", "s3:ListBucket"),
        (error_answer(403, "SignatureDoesNotMatch", f"you sent {SECRET}"), "denied", "aws_secret_access_key"),
        (error_answer(403, "InvalidAccessKeyId"), "denied", "aws_access_key_id"),
        (error_answer(400, "ExpiredToken"), "denied", "fresh credentials"),
        (error_answer(404, "NoSuchBucket"), "missing_bucket", "Create the bucket"),
        (error_answer(301, "PermanentRedirect"), "misconfigured", "with a redirect, again and again"),
        (Answer(301, b"", {"location": "https://elsewhere/"}), "misconfigured", "where it leads"),
        (error_answer(400, "AuthorizationHeaderMalformed"), "misconfigured", "store.region"),
        (error_answer(501, "NotImplemented"), "misconfigured", "another one"),
        (error_answer(400, "SomethingNew"), "misconfigured", "store.endpoint_url"),
        (error_answer(500, "InternalError"), "unreachable", "relaunch"),
        (error_answer(503, "SlowDown"), "unreachable", "relaunch"),
        (Answer(404, b"<html>hello", {"content-type": "text/html"}), "misconfigured", "no S3 store"),
        (Answer(200), "misconfigured", "an S3 store"),
    ],
)
def test_errors_have_a_reason_an_address_and_advice_but_no_secret(answer: Answer, reason: str, advice: str) -> None:
    with serving(answer) as served:
        store = S3Store(settings(served.endpoint_url))
        with pytest.raises(StoreError) as failure:
            store.put_if_absent("a/b", b"x")
    assert failure.value.reason == reason
    assert "s3://bucket/pre/fix/" in failure.value.message
    assert advice in failure.value.message
    assert SECRET not in str(failure.value)


def test_a_conflict_while_reading_passes_and_says_nothing_about_what_is_stored() -> None:
    with serving(error_answer(409, "OperationAborted")) as served:
        store = S3Store(settings(served.endpoint_url))
        with pytest.raises(StoreError, match="relaunch") as failure:
            store.get("a/b")
    assert failure.value.reason == "unreachable"


def test_a_store_that_nobody_listens_for_is_unreachable() -> None:
    with serving(DONE) as served:
        endpoint = served.endpoint_url
    with pytest.raises(StoreError, match=r"no answer.*store\.endpoint_url") as failure:
        S3Store(settings(endpoint)).get("a")
    assert failure.value.reason == "unreachable"


@pytest.mark.parametrize("endpoint", ["nonsense", "http://", "ftp//x"])
def test_an_endpoint_that_is_no_address_is_misconfigured(endpoint: str) -> None:
    with pytest.raises(StoreError) as failure:
        S3Store(settings(endpoint)).get("a")
    assert failure.value.reason == "misconfigured"


def test_errors_of_the_server_are_tried_again() -> None:
    with serving(error_answer(500, "InternalError"), error_answer(503, "SlowDown"), DONE) as served:
        assert S3Store(settings(served.endpoint_url, attempts=3)).put_if_absent("a", b"x") == Written('"e1"')
        assert [asked.body for asked in served.asked] == [b"x"] * 3


def test_a_body_whose_connection_breaks_is_resumed_under_the_same_etag() -> None:
    headers = {"etag": '"e1"'}
    broken = Answer(200, b"a" * 1000, headers, promised=3000)
    again = Answer(206, b"b" * 500, headers, promised=2000)
    rest = Answer(206, b"c" * 1500, headers)
    with serving(broken, again, rest) as served:
        found = S3Store(settings(served.endpoint_url)).get("a")
        ranges = [(asked.headers.get("range"), asked.headers.get("if-match")) for asked in served.asked]
    assert found is not None
    assert len(found.data) == 3000
    assert ranges == [(None, None), (f"bytes={found.data.count(b'a')}-", '"e1"'), ("bytes=1500-", '"e1"')]


def test_a_body_that_keeps_breaking_is_given_up() -> None:
    with serving(Answer(200, b"", {"etag": '"e1"'}, promised=3000)) as served:
        with pytest.raises(StoreError) as failure:
            S3Store(settings(served.endpoint_url)).get("a")
        assert len(served.asked) == 4
    assert failure.value.reason == "unreachable"


# The client.


def test_secrets_do_not_show_in_representations() -> None:
    assert SECRET not in repr(settings("http://x"))
    assert SECRET not in repr(CREDENTIALS)


def test_the_client_is_built_once_and_only_when_needed() -> None:
    built = threading.Semaphore(0)

    def build(given: S3Settings) -> Any:
        built.release()
        return build_client(given)

    with serving(DONE) as served:
        store = S3Store(settings(served.endpoint_url), build)
        assert not built.acquire(blocking=False)
        store.start_loading()
        assert built.acquire(timeout=20)
        store.get("a")
        assert not built.acquire(blocking=False)


def test_a_failure_to_load_in_the_background_comes_out_of_the_first_call() -> None:
    ran = threading.Event()

    def build(given: S3Settings) -> Any:
        del given
        ran.set()
        raise ValueError("Invalid endpoint")

    store = S3Store(settings("http://x"), build)
    store.start_loading()
    assert ran.wait(timeout=20)
    with pytest.raises(StoreError, match=r"store\.endpoint_url"):
        store.get("a")


def test_opening_a_store_imports_nothing_heavy() -> None:
    program = (
        "import sys; from checkpoint.store.opening import open_store; open_store('s3://bucket/prefix');"
        "print([name for name in ('boto3', 'botocore', 'zstandard', 'urllib3') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_without_given_credentials_the_chain_of_the_environment_applies(served: S3Answers) -> None:
    program = (
        "import sys; from checkpoint.store.opening import open_store;"
        f"open_store('s3://bucket/x', endpoint_url='{served.endpoint_url}').get('a')"
    )
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "AKIDFROMENV",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "eu-north-1",
    }
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)
    assert "Credential=AKIDFROMENV/" in served.asked[0].headers["authorization"]
    assert "/eu-north-1/s3/" in served.asked[0].headers["authorization"]
