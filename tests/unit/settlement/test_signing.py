"""Signing and verifying, compared with the reference implementation of Standard Webhooks."""

import base64
import traceback
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from settlement.errors import SecretInvalid, SignatureInvalid
from settlement.signing import CallbackSecrets, Verified, sign, verify, webhook_headers

OLD = "whsec_" + base64.b64encode(b"old-old-old-old-old-old-old-old-").decode()
NEW = "whsec_" + base64.b64encode(b"new-new-new-new-new-new-new-new-").decode()
BODY = '{"text":"héllo ✓"}'.encode()
NOW_S = 1_800_000_000


def refusal(headers: dict[str, str], body: bytes = BODY, now_s: float = NOW_S, secret: str = NEW) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        verify(CallbackSecrets.parse(secret), headers, body, now_s)
    return caught.value.reason


def headers_now(secret: str = NEW) -> dict[str, str]:
    return webhook_headers(CallbackSecrets.parse(secret), "term_p1", NOW_S, BODY)


def test_the_reference_implementation_accepts_our_signature():
    now_s = int(datetime.now(UTC).timestamp())
    headers = webhook_headers(CallbackSecrets.parse(NEW), "term_p1", now_s, BODY)
    assert Webhook(NEW).verify(BODY, headers) == {"text": "héllo ✓"}


def test_the_reference_implementation_refuses_our_signature_of_another_body():
    now_s = int(datetime.now(UTC).timestamp())
    headers = webhook_headers(CallbackSecrets.parse(NEW), "term_p1", now_s, BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY + b" ", headers)


def test_we_accept_the_signature_of_the_reference_implementation():
    signature = Webhook(NEW).sign("term_p1", datetime.fromtimestamp(NOW_S, UTC), BODY.decode())
    headers = {**headers_now(), "webhook-signature": signature}
    assert verify(CallbackSecrets.parse(NEW), headers, BODY, NOW_S) == Verified("term_p1", NOW_S)
    assert signature == sign(CallbackSecrets.parse(NEW), "term_p1", NOW_S, BODY)


def test_the_id_is_also_the_idempotency_key():
    headers = headers_now()
    assert headers["idempotency-key"] == headers["webhook-id"] == "term_p1"
    assert headers["content-type"] == "application/json"


def test_header_names_count_in_any_case():
    headers = {name.title(): value for name, value in headers_now().items()}
    assert verify(CallbackSecrets.parse(NEW), headers, BODY, NOW_S).webhook_id == "term_p1"


# --- rotation ---------------------------------------------------------------------------------------------


def test_the_first_secret_signs():
    assert headers_now(f"{NEW}\n{OLD}\n") == headers_now(NEW)


@pytest.mark.parametrize("signer", [NEW, OLD])
def test_every_secret_verifies(signer: str):
    both = CallbackSecrets.parse(f"{NEW}\n{OLD}\n")
    assert verify(both, headers_now(signer), BODY, NOW_S).webhook_id == "term_p1"


def test_a_header_with_several_signatures_is_fine_if_one_fits():
    ours = headers_now(NEW)["webhook-signature"]
    theirs = headers_now(OLD)["webhook-signature"]
    headers = {**headers_now(), "webhook-signature": f"v1a,xyz {theirs} v1,%%% v1 v2,{ours[3:]} {ours}"}
    assert verify(CallbackSecrets.parse(NEW), headers, BODY, NOW_S).webhook_id == "term_p1"


def test_another_version_does_not_count():
    headers = {**headers_now(), "webhook-signature": "v2," + headers_now()["webhook-signature"][3:]}
    assert refusal(headers) == "signature_mismatch"


# --- what is refused --------------------------------------------------------------------------------------


def test_another_secret_does_not_fit():
    assert refusal(headers_now(OLD)) == "signature_mismatch"


def test_a_changed_body_does_not_fit():
    assert refusal(headers_now(), body=BODY + b" ") == "signature_mismatch"


def test_a_changed_id_does_not_fit():
    assert refusal({**headers_now(), "webhook-id": "term_p2"}) == "signature_mismatch"


def test_a_changed_time_does_not_fit():
    assert refusal({**headers_now(), "webhook-timestamp": str(NOW_S + 1)}) == "signature_mismatch"


@pytest.mark.parametrize("signature", ["", "v1", "v1,", "v1,é", "v1,AAAA", "v1," + "A" * 100_000])
def test_a_broken_signature_does_not_fit(signature: str):
    assert refusal({**headers_now(), "webhook-signature": signature}) == "signature_mismatch"


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_named(name: str):
    headers = headers_now()
    del headers[name]
    assert refusal(headers) == "header_missing"


def test_a_header_that_is_there_twice_is_not_chosen_from():
    assert refusal({**headers_now(), "Webhook-Id": "term_p2"}) == "header_malformed"


@pytest.mark.parametrize("text", ["", "1.5", "-1", "+1", " 1", "1e9", "nan", "١", "9" * 40])
def test_a_time_is_whole_seconds(text: str):
    assert refusal({**headers_now(), "webhook-timestamp": text}) == "header_malformed"


@pytest.mark.parametrize("webhook_id", ["", "a.b", "a b", "é", "a\n", "x" * 257])
def test_an_id_that_would_be_ambiguous_is_neither_signed_nor_accepted(webhook_id: str):
    assert refusal({**headers_now(), "webhook-id": webhook_id}) == "header_malformed"
    with pytest.raises(ValueError, match="not a webhook id"):
        sign(CallbackSecrets.parse(NEW), webhook_id, NOW_S, BODY)


@pytest.mark.parametrize(
    ("now_s", "reason"), [(NOW_S + 301, "too_old"), (NOW_S - 301, "too_new"), (NOW_S * 1000, "too_old")]
)
def test_a_time_beyond_the_tolerance_is_refused(now_s: float, reason: str):
    assert refusal(headers_now(), now_s=now_s) == reason


@pytest.mark.parametrize("now_s", [NOW_S - 300, NOW_S + 300])
def test_the_tolerance_is_inclusive(now_s: float):
    assert verify(CallbackSecrets.parse(NEW), headers_now(), BODY, now_s).timestamp_s == NOW_S


# --- secrets ----------------------------------------------------------------------------------------------


def test_blank_lines_and_line_ends_of_any_kind_are_fine():
    assert CallbackSecrets.parse(f"\r\n  {NEW}  \r\n\n{OLD}") == CallbackSecrets.parse(f"{NEW}\n{OLD}\n")


def test_missing_padding_is_fine_as_in_the_reference_implementation():
    assert CallbackSecrets.parse(NEW.rstrip("=")) == CallbackSecrets.parse(NEW)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("hunter2hunter2", "line 1: does not start with whsec_"),
        (f"{NEW}\nhunter2hunter2", "line 2: does not start with whsec_"),
        ("whsec_hunter2!hunter2", "line 1: not base64"),
        ("whsec_hunter2-hunter2_", "line 1: not base64"),
        ("whsec_hunter2hunter", "line 1: not base64"),
        ("whsec_", "line 1: nothing after"),
        (f"{NEW} {OLD}", "line 1: not base64"),
    ],
)
def test_a_bad_secret_is_refused_without_being_shown(text: str, problem: str):
    with pytest.raises(SecretInvalid) as caught:
        CallbackSecrets.parse(text)
    assert problem in str(caught.value)
    assert caught.value.reason == "callback_secret_invalid"
    shown = "".join(traceback.format_exception(caught.value))
    assert "hunter2hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert NEW[6:] not in shown


def test_secrets_do_not_show_in_a_repr():
    secrets = CallbackSecrets.parse(NEW)
    assert "new-new" not in repr(secrets)
    assert NEW[6:20] not in repr(secrets)
