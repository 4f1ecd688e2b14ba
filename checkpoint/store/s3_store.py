"""An S3 bucket (or whatever speaks its protocol) as an object store.

Thin: builds requests, translates answers, decides nothing. Small objects and segments go in one conditional
PutObject each; there is no multipart upload, because its conditions are not dependable everywhere. botocore
is imported on the first call, or in the background by `start_loading`, so that its cost overlaps other
work.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from checkpoint.errors import StoreError
from checkpoint.store.addresses import check_key
from checkpoint.store.port import Conflict, ListedObject, PreconditionFailed, PutResult, StoredObject, Written
from checkpoint.store.s3_client import S3Settings, build_client
from checkpoint.store.s3_errors import code_and_status, is_store_failure, store_error

PIECE_BYTES = 1024 * 1024
_RESUMES = 3
"""How often one object's body is resumed after its connection broke."""


class S3Store:
    """`ObjectStore` over a bucket and prefix. Thread-safe, as botocore's clients are."""

    def __init__(self, settings: S3Settings, build: Callable[[S3Settings], Any] = build_client) -> None:
        self._settings = settings
        self._build = build
        self._prefix = f"{settings.prefix.strip('/')}/" if settings.prefix.strip("/") else ""
        self._building = threading.Lock()
        self._client: Any = None

    def start_loading(self) -> None:
        """Import and build the client on another thread; the first call waits for it. A failure comes out
        there.
        """

        def load() -> None:
            try:
                self._ready("prepare")
            except StoreError:
                return  # the first real call runs into the same, and reports it

        threading.Thread(target=load, name="s3-loading", daemon=True).start()

    def address(self, key: str) -> str:
        return f"s3://{self._settings.bucket}/{self._prefix}{key}"

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        answer = self._opened(key)
        if answer is None:
            return None
        size = int(answer["ContentLength"])
        if limit is not None and size > limit:
            answer["Body"].close()
            raise StoreError("too_large", f"{self.address(key)} has {size} bytes, more than {limit}.")
        return StoredObject(b"".join(self._pieces(key, answer)), _etag(answer), answer.get("LastModified"))

    def stream(self, key: str) -> Iterator[bytes] | None:
        answer = self._opened(key)
        return None if answer is None else self._pieces(key, answer)

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        if isinstance(body, bytes):
            return self._put(key, body, {"IfNoneMatch": "*"})
        with body.open("rb") as file:
            return self._put(key, file, {"IfNoneMatch": "*"})

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        return self._put(key, body, {"IfMatch": etag})

    def list(self, prefix: str) -> Iterator[ListedObject]:
        pages = self._ready("list").get_paginator("list_objects_v2")
        asked = pages.paginate(Bucket=self._settings.bucket, Prefix=self._prefix + prefix)
        with self._translated("list", prefix):
            for page in asked:
                for found in page.get("Contents", ()):
                    key = str(found["Key"]).removeprefix(self._prefix)
                    yield ListedObject(key, int(found["Size"]), found["LastModified"])

    def now(self) -> datetime:
        """The date of an answer: the server's, as `LastModified` is."""
        client = self._ready("list")
        with self._translated("list", ""):
            answer = client.list_objects_v2(Bucket=self._settings.bucket, Prefix=self._prefix, MaxKeys=1)
            said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
            if said is None:
                raise ValueError("an answer without a date: this is no S3 store")
            return parsedate_to_datetime(said).astimezone(UTC)

    def _put(self, key: str, body: Any, condition: dict[str, str]) -> PutResult:
        client = self._ready("put")
        with self._translated("put", key):
            try:
                answer = client.put_object(**self._object(key), Body=body, **condition)
            except Exception as error:
                code, status = code_and_status(error)
                if status == 412 or ("IfMatch" in condition and _is_missing(code, status)):
                    return PreconditionFailed()
                if status == 409:
                    return Conflict()
                raise
            return Written(_etag(answer))

    def _opened(self, key: str) -> Any:
        """The answer to GetObject, its body unread; None if there is no such object."""
        client = self._ready("get")
        with self._translated("get", key):
            try:
                answer = client.get_object(**self._object(key))
            except Exception as error:
                if _is_missing(*code_and_status(error)):
                    return None
                raise
            _etag(answer)
            return answer

    def _pieces(self, key: str, answer: Any) -> Iterator[bytes]:
        """The body; when its connection breaks, the rest of the same object is asked for, a few times."""
        size, done, breaks = int(answer["ContentLength"]), 0, 0
        body = answer["Body"]
        try:
            while done < size:
                piece = _read(body)
                if isinstance(piece, bytes):
                    done += len(piece)
                    yield piece
                    continue
                breaks += 1
                if breaks > _RESUMES:
                    raise store_error(piece, "get", self.address(key)) from piece
                body.close()
                body = self._rest(key, _etag(answer), done)
        finally:
            body.close()

    def _rest(self, key: str, etag: str, start: int) -> Any:
        with self._translated("get", key):
            answer = self._client.get_object(**self._object(key), Range=f"bytes={start}-", IfMatch=etag)
        return answer["Body"]

    def _object(self, key: str) -> dict[str, str]:
        return {"Bucket": self._settings.bucket, "Key": self._prefix + check_key(key)}

    def _ready(self, operation: str) -> Any:
        with self._building, self._translated(operation, ""):
            if self._client is None:
                self._client = self._build(self._settings)
            return self._client

    @contextmanager
    def _translated(self, operation: str, key: str) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if not is_store_failure(error):
                raise
            raise store_error(error, operation, self.address(key)) from error


def _etag(answer: Any) -> str:
    etag = answer.get("ETag")
    if not etag:
        raise ValueError("an answer without an etag: this is no S3 store")
    return str(etag)


def _is_missing(code: str, status: int) -> bool:
    """404 of an object. S3 answers so to a read, and to an `If-Match`, of what is not there."""
    return status == 404 and code != "NoSuchBucket"


def _read(body: Any) -> bytes | Exception:
    """The next piece of a body that has more to come, or what broke its connection."""
    try:
        piece = body.read(PIECE_BYTES)
    except Exception as error:
        if not is_store_failure(error):
            raise
        return error
    return piece or ConnectionError("the body ended early")
