"""Opens the store an address names. Builds nothing heavy: an S3 client is made on the first call, or in
advance.
"""

from pathlib import Path

from checkpoint.store.addresses import FileAddress, parse_address
from checkpoint.store.file_store import FileStore
from checkpoint.store.s3_client import AddressingStyle, S3Credentials, S3Settings
from checkpoint.store.s3_store import S3Store


def open_store(
    uri: str,
    *,
    relative_to: Path | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    addressing_style: AddressingStyle | None = None,
    credentials: S3Credentials | None = None,
) -> FileStore | S3Store:
    """The store at `s3://bucket/prefix`, `file:///folder`, or a path (relative ones: to `relative_to`).

    Raises `StoreError` (misconfigured) for any other address. Touches neither disk nor network.
    """
    address = parse_address(uri)
    if isinstance(address, FileAddress):
        return FileStore((relative_to or Path.cwd()) / address.path)
    return S3Store(
        S3Settings(
            bucket=address.bucket,
            prefix=address.path,
            endpoint_url=endpoint_url,
            region=region,
            addressing_style=addressing_style,
            credentials=credentials,
        )
    )
