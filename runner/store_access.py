"""Opens stores with the endpoint and the credentials of one launch or one command. Touches neither disk nor network."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoint.store.file_store import FileStore
from checkpoint.store.opening import open_store
from checkpoint.store.s3_client import S3Credentials
from checkpoint.store.s3_store import S3Store

if TYPE_CHECKING:
    from runner.secrets import Secrets
    from runner.spec import StoreSpec


def store_opener(settings: "StoreSpec", base: Path, secrets: "Secrets") -> Callable[[str], FileStore | S3Store]:
    """Opens any address with the endpoint and the credentials of this launch."""
    key_id, key = secrets.get("aws_access_key_id"), secrets.get("aws_secret_access_key")
    credentials = None
    if key_id is not None and key is not None:
        credentials = S3Credentials(key_id, key, secrets.get("aws_session_token"))

    def open_address(uri: str) -> FileStore | S3Store:
        return open_store(
            uri,
            relative_to=base,
            endpoint_url=settings.endpoint_url,
            region=settings.region,
            addressing_style=settings.addressing_style,
            credentials=credentials,
        )

    return open_address
