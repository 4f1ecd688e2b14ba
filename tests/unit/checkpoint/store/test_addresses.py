import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.errors import StoreError
from checkpoint.store.addresses import FileAddress, S3Address, check_key, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket", S3Address("bucket", "")),
        ("s3://bucket/", S3Address("bucket", "")),
        ("s3://bucket/a/b/", S3Address("bucket", "a/b")),
        ("file:///a/b%20c", FileAddress("/a/b c")),
        ("file://localhost/a", FileAddress("/a")),
        ("/a/b", FileAddress("/a/b")),
        ("relative/b", FileAddress("relative/b")),
    ],
)
def test_addresses_are_taken_apart(text: str, address: object) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3://",
        "s3:///key",
        "s3:/bucket/a",
        "file://host/a",
        "file:/a",
        "http://bucket/a",
        "s3://user:secret@bucket/a",
        "s3://bucket/a?b=c",
    ],
)
def test_other_addresses_are_refused_without_repeating_secrets(text: str) -> None:
    with pytest.raises(StoreError) as failure:
        parse_address(text)
    assert failure.value.reason == "misconfigured"
    assert "secret" not in failure.value.message


@given(st.text())
def test_a_key_is_accepted_or_refused_and_accepted_ones_stay_below_the_store(key: str) -> None:
    try:
        assert check_key(key) == key
    except StoreError:
        return
    assert all(part and not part.startswith(".") for part in key.split("/"))
    assert "\0" not in key
