from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.store.file_store import FileStore
from checkpoint.store.opening import open_store
from checkpoint.store.s3_store import S3Store


@pytest.mark.parametrize("relative", [True, False])
def test_a_path_or_a_file_address_opens_a_folder(tmp_path: Path, relative: bool) -> None:
    uri = "some/store" if relative else (tmp_path / "some" / "store").as_uri()
    store = open_store(uri, relative_to=tmp_path)
    assert isinstance(store, FileStore)
    store.put_if_absent("a", b"x")
    assert (tmp_path / "some" / "store" / "a").read_bytes() == b"x"


def test_an_s3_address_opens_a_bucket_and_prefix() -> None:
    store = open_store("s3://bucket/some/prefix/")
    assert isinstance(store, S3Store)
    assert store.address("a/b") == "s3://bucket/some/prefix/a/b"
    assert open_store("s3://bucket").address("a") == "s3://bucket/a"


def test_other_addresses_are_refused() -> None:
    with pytest.raises(StoreError, match="is no kind of store"):
        open_store("ftp://host/store")
