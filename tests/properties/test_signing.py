"""For any message: what one side signs the other accepts, and nothing else."""

import base64
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from settlement.errors import SecretInvalid, SignatureInvalid
from settlement.signing import CallbackSecrets, verify, webhook_headers

keys = st.binary(min_size=1, max_size=64)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,80}", fullmatch=True)
times = st.integers(0, 4_000_000_000)


def secret_of(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


def accepted(secret: str, headers: dict[str, str], body: bytes, now_s: float) -> bool:
    try:
        verify(CallbackSecrets.parse(secret), headers, body, now_s)
    except SignatureInvalid:
        return False
    return True


@settings(deadline=None)
@given(st.lists(keys, min_size=1, max_size=3), ids, times, st.binary(max_size=200))
def test_a_signature_is_that_of_the_reference_implementation(
    several: list[bytes], webhook_id: str, time_s: int, body: bytes
):
    secret = "\n".join(secret_of(key) for key in several)
    headers = webhook_headers(CallbackSecrets.parse(secret), webhook_id, time_s, body)
    assert accepted(secret, headers, body, time_s)
    text = body.decode("latin-1")
    signature = webhook_headers(CallbackSecrets.parse(secret), webhook_id, time_s, text.encode())["webhook-signature"]
    assert signature == Webhook(secret_of(several[0])).sign(webhook_id, datetime.fromtimestamp(time_s, UTC), text)


@settings(deadline=None)
@given(keys, ids, times, st.binary(min_size=1, max_size=200), st.data())
def test_one_changed_bit_is_noticed(key: bytes, webhook_id: str, time_s: int, body: bytes, data: st.DataObject):
    headers = webhook_headers(CallbackSecrets.parse(secret_of(key)), webhook_id, time_s, body)
    place = data.draw(st.integers(0, len(body) - 1))
    changed = bytearray(body)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    assert not accepted(secret_of(key), headers, bytes(changed), time_s)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "x"]), st.text()))
def test_any_headers_are_refused_and_never_break_it(headers: dict[str, str]):
    assert not accepted(secret_of(b"k" * 32), headers, b"{}", 0)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_secret_or_refused_without_being_shown(text: str):
    refusal = ""
    try:
        CallbackSecrets.parse("whsec_" + text)
    except SecretInvalid as error:
        refusal = str(error)
    assert len(text.strip()) < 12 or text.strip() not in refusal
