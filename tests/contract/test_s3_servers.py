"""What real S3 servers answer to wrong launches, through the adapter."""

import pytest

from checkpoint.errors import StoreError
from checkpoint.store.s3_client import S3Credentials, S3Settings
from checkpoint.store.s3_store import S3Store
from tests.servers import S3Server


@pytest.mark.parametrize("name", ["moto_server", pytest.param("seaweed_server", marks=pytest.mark.seaweedfs)])
def test_a_missing_bucket_is_named(request: pytest.FixtureRequest, name: str) -> None:
    server = request.getfixturevalue(name)
    assert isinstance(server, S3Server)
    store = S3Store(server.settings("no-such-bucket"))
    for call in (lambda: store.get("a"), lambda: store.put_if_absent("a", b"x"), lambda: list(store.list(""))):
        with pytest.raises(StoreError, match="no-such-bucket") as failure:
            call()
        assert failure.value.reason == "missing_bucket"


@pytest.mark.seaweedfs
def test_wrong_credentials_are_denied(seaweed_server: S3Server) -> None:
    right = seaweed_server.settings("shared")
    for credentials in (
        S3Credentials("AKNOBODY", "x"),
        S3Credentials(seaweed_server.credentials.access_key_id, "wrong"),
    ):
        store = S3Store(
            S3Settings(bucket="shared", endpoint_url=right.endpoint_url, region=right.region, credentials=credentials)
        )
        with pytest.raises(StoreError, match="credentials") as failure:
            store.put_if_absent("a", b"x")
        assert failure.value.reason == "denied"
