"""Addresses of stores and objects: `s3://bucket/prefix`, `file:///path`, a plain path; and what a key may
be. Pure.

Refuses keys that could leave their store: absolute ones, empty or dotted parts, control characters.
"""

from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from checkpoint.errors import StoreError

_SCHEMES = ("s3:", "file:")
_KEY_BYTES = 1024
_PART_BYTES = 255


class S3Address(Struct, frozen=True):
    bucket: str
    path: str
    """A prefix or key without slashes at its ends; may be empty."""


class FileAddress(Struct, frozen=True):
    path: str
    """As written: may be relative if it was no URL."""


Address: TypeAlias = S3Address | FileAddress


def parse_address(text: str) -> Address:
    """Take an address apart. Raises `StoreError` (misconfigured) for another scheme, a host in `file://`,
    no bucket, and for what looks like a mistyped `s3://` or `file://`: a folder of that name would be a surprise.
    """
    if "://" not in text:
        if not text:
            raise StoreError("misconfigured", "The store's address is empty. Use s3://bucket/prefix or a folder.")
        if text.startswith(_SCHEMES):
            raise StoreError("misconfigured", f"{text} lacks slashes. Use s3://bucket/prefix or file:///folder.")
        return FileAddress(text)
    parts = urlsplit(text)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StoreError("misconfigured", "A store's address has no query, fragment or credentials.")
    if parts.scheme == "s3":
        if not parts.netloc:
            raise StoreError("misconfigured", f"{text} names no bucket. Use s3://bucket/prefix.")
        return S3Address(parts.netloc, parts.path.strip("/"))
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise StoreError("misconfigured", f"{text} is no local path. Use file:///folder (three slashes).")
        return FileAddress(unquote(parts.path))
    raise StoreError(
        "misconfigured", f"{parts.scheme}:// is no kind of store. Use s3://bucket/prefix or file:///folder."
    )


def check_key(key: str) -> str:
    """The key itself if it stays below its store, else `StoreError` (misconfigured)."""
    parts = key.split("/")
    for part in parts:
        if not part or part.startswith(".") or len(part.encode("utf-8", "replace")) > _PART_BYTES:
            raise _bad_key(key)
    if len(key.encode("utf-8", "replace")) > _KEY_BYTES or not key.isprintable() or "\\" in key:
        raise _bad_key(key)
    return key


def _bad_key(key: str) -> StoreError:
    return StoreError(
        "misconfigured",
        f"{key[:200]!r} is no key: parts between slashes must be non-empty, must not start with a dot, "
        "and hold neither control characters nor backslashes.",
    )
