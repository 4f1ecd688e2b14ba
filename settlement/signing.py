"""Signatures of questions and callbacks, as Standard Webhooks has them (symmetric, `v1`).

Both sides use this file: the runner signs with the first secret, a server accepts a signature of any. Refuses
an id with a dot (id, time and body are joined by dots, so it would be ambiguous), times that are not plain
seconds, and to show a secret in a `repr` or an error. Pure: the caller brings the time.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from settlement.errors import SecretInvalid, SignatureInvalid

KEY_PREFIX = "whsec_"
TOLERANCE_S = 300
_FORM = f"write {KEY_PREFIX} and the base64 of 24 to 64 random bytes"

_ID = re.compile(r"[!-\-/-~]{1,256}")
"""Visible ASCII without the dot."""
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class CallbackSecrets:
    """The keys of one `callback_secret`: the first signs, all verify, so a key is replaced without a gap."""

    keys: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "CallbackSecrets":
        """One `whsec_<base64>` per line, blank lines skipped. Raises SecretInvalid naming the line only."""
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        keys = tuple(_key(number, line) for number, line in lines if line)
        if not keys:
            raise SecretInvalid("callback_secret is empty; give it one whsec_<base64> per line, the first one signs")
        return cls(keys)


@dataclass(frozen=True, slots=True)
class Verified:
    """What the signature covers besides the body."""

    webhook_id: str
    timestamp_s: int


def sign(secrets: CallbackSecrets, webhook_id: str, timestamp_s: int, body: bytes) -> str:
    """`v1,<base64>` by the first secret. Raises ValueError for an id that cannot be signed."""
    if _ID.fullmatch(webhook_id) is None:
        raise ValueError(f"not a webhook id: {webhook_id!r} (visible ASCII without a dot, at most 256 characters)")
    return "v1," + base64.b64encode(_mac(secrets.keys[0], webhook_id, str(timestamp_s), body)).decode()


def webhook_headers(secrets: CallbackSecrets, webhook_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers of one try. The id is that of every try; time and signature are this try's own."""
    return {
        "content-type": "application/json",
        "idempotency-key": webhook_id,
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": sign(secrets, webhook_id, timestamp_s, body),
    }


def verify(
    secrets: CallbackSecrets,
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> Verified:
    """Check the raw body as it came in against its headers (names in any case).

    Returns what was signed; raises SignatureInvalid. Takes the same time whichever key fits.
    """
    webhook_id = _header(headers, "webhook-id")
    timestamp = _header(headers, "webhook-timestamp")
    given = _header(headers, "webhook-signature")
    if _ID.fullmatch(webhook_id) is None:
        raise SignatureInvalid("header_malformed", "webhook-id must be visible ASCII without a dot")
    if _SECONDS.fullmatch(timestamp) is None:
        raise SignatureInvalid("header_malformed", "webhook-timestamp must be whole seconds since 1970")
    age_s = now_s - int(timestamp)
    if age_s > tolerance_s:
        raise SignatureInvalid("too_old", f"signed more than {tolerance_s:g} s ago; sign again, or set the clocks")
    if -age_s > tolerance_s:
        raise SignatureInvalid("too_new", f"signed more than {tolerance_s:g} s ahead; set the clocks")

    expected = [_mac(key, webhook_id, timestamp, body) for key in secrets.keys]
    offered = _signatures(given)
    matches = [hmac.compare_digest(mac, signature) for mac in expected for signature in offered]
    if not any(matches):
        raise SignatureInvalid(
            "signature_mismatch", "no v1 signature fits the raw body; compare both sides' callback_secret"
        )
    return Verified(webhook_id, int(timestamp))


def _key(number: int, line: str) -> bytes:
    if not line.startswith(KEY_PREFIX):
        raise SecretInvalid(f"callback_secret, line {number}: does not start with {KEY_PREFIX}; {_FORM}")
    encoded = line.removeprefix(KEY_PREFIX).rstrip("=")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        # `from None`: the cause would carry the text of the secret into a traceback with locals.
        raise SecretInvalid(f"callback_secret, line {number}: not base64 after {KEY_PREFIX}; {_FORM}") from None
    if not key:
        raise SecretInvalid(f"callback_secret, line {number}: nothing after {KEY_PREFIX}; {_FORM}")
    return key


def _mac(key: bytes, webhook_id: str, timestamp: str, body: bytes) -> bytes:
    return hmac.digest(key, f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256)


def _header(headers: Mapping[str, str], wanted: str) -> str:
    values = {value for name, value in headers.items() if name.lower() == wanted}
    if not values:
        raise SignatureInvalid("header_missing", f"the header {wanted} is missing")
    if len(values) > 1:
        raise SignatureInvalid("header_malformed", f"the header {wanted} is there twice with different values")
    return values.pop()


def _signatures(header: str) -> list[bytes]:
    """The `v1` signatures of the header; other versions and malformed ones are none."""
    found: list[bytes] = []
    for part in header.split():
        version, _, encoded = part.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError):
                continue
    return found
