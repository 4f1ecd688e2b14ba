"""Turns what botocore raises into `StoreError`: a reason for programs, a sentence for people.

Messages are made of the error's code, its status and the object's address only. The server's own words are
left out: some echo the request, credentials included. The original error is kept as the cause.
"""

from typing import Any, TypeAlias

from checkpoint.errors import StoreError, StoreReason

_Meaning: TypeAlias = tuple[StoreReason, str]

_CREDENTIALS = "Check the AWS credentials (secrets aws_access_key_id, aws_secret_access_key, aws_session_token)."
_RIGHTS = (
    "Allow s3:GetObject and s3:PutObject on this prefix, and s3:ListBucket on the bucket (without it a "
    "missing object looks forbidden)."
)
_REGION = "Set `store.region` (and `store.endpoint_url`, for a store that is not AWS) to where the bucket is."
_LATER = "Check `store.endpoint_url` and the network, then relaunch."

_CODES: dict[str, _Meaning] = {
    "NoSuchBucket": ("missing_bucket", "Create the bucket or correct `store.uri`."),
    "InvalidBucketName": ("misconfigured", "Correct the bucket in `store.uri`."),
    "AccessDenied": ("denied", _RIGHTS),
    "AllAccessDisabled": ("denied", _RIGHTS),
    "InvalidAccessKeyId": ("denied", _CREDENTIALS),
    "SignatureDoesNotMatch": ("denied", _CREDENTIALS),
    "InvalidToken": ("denied", _CREDENTIALS),
    "ExpiredToken": ("denied", "The AWS session token has expired: launch with fresh credentials."),
    "RequestTimeTooSkewed": (
        "misconfigured",
        "Set this machine's clock: it differs too much from the store's.",
    ),
    "PermanentRedirect": ("misconfigured", _REGION),
    "AuthorizationHeaderMalformed": ("misconfigured", _REGION),
    "IllegalLocationConstraintException": ("misconfigured", _REGION),
    "NotImplemented": ("misconfigured", "This store lacks a call the runner needs: use another one."),
    "EntityTooLarge": ("too_large", "One object holds at most 5 GB: start from a shorter session."),
    "QuotaExceeded": ("unreachable", "Raise the store's quota, then relaunch."),
}

_EXCEPTIONS: dict[str, _Meaning] = {
    "NoCredentialsError": ("denied", f"There are no AWS credentials. {_CREDENTIALS}"),
    "PartialCredentialsError": ("denied", f"The AWS credentials are incomplete. {_CREDENTIALS}"),
    "CredentialRetrievalError": ("denied", f"The AWS credentials could not be fetched. {_CREDENTIALS}"),
    "TokenRetrievalError": ("denied", f"The AWS credentials could not be fetched. {_CREDENTIALS}"),
    "SSOTokenLoadError": ("denied", "The AWS single sign-on session is missing or over: sign in again."),
    "UnauthorizedSSOTokenError": (
        "denied",
        "The AWS single sign-on session is missing or over: sign in again.",
    ),
    "ProfileNotFound": ("misconfigured", "The AWS profile named in the environment does not exist."),
    "ConfigParseError": ("misconfigured", "The AWS configuration file cannot be read."),
    "SSLError": ("misconfigured", "The store's TLS certificate is not accepted: check `store.endpoint_url`."),
    "InvalidProxiesConfigError": ("misconfigured", "The proxy settings of the environment cannot be used."),
    "ProxyConnectionError": ("unreachable", "The proxy named in the environment does not answer."),
    "ResponseParserError": ("misconfigured", "Check `store.endpoint_url`: this may be no S3 store."),
    "RecursionError": (
        "misconfigured",
        "This address answers with a redirect, again and again: set `store.endpoint_url` to where it leads (https?).",
    ),
    "NoRegionError": ("misconfigured", _REGION),
    "InvalidRegionError": ("misconfigured", _REGION),
    "ParamValidationError": ("misconfigured", "Correct the bucket or prefix in `store.uri`."),
    "InvalidS3AddressingStyleError": ("misconfigured", "Set `store.addressing_style` to path or virtual."),
    "ValueError": (
        "misconfigured",
        "Correct `store.endpoint_url`: it must be http://host or https://host of an S3 store.",
    ),
}


def code_and_status(error: Exception) -> tuple[str, int]:
    """A server's error code and HTTP status; ("", 0) if the error is no answer of a server."""
    answer: Any = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", ""))
    return code, int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_store_failure(error: Exception) -> bool:
    """Whether an exception is the store's or the network's doing. Anything else is a defect of ours.

    A RecursionError is how botocore ends when every answer is a 301: it asks where the bucket is, and is redirected.
    """
    maker = type(error).__module__.partition(".")[0]
    return maker in ("botocore", "urllib3") or isinstance(error, OSError | ValueError | RecursionError)


def store_error(error: Exception, operation: str, address: str) -> StoreError:
    """What an exception of botocore means for `address`."""
    code, status = code_and_status(error)
    if code or status:
        reason, advice = _CODES.get(code) or _by_status(status)
        return StoreError(
            reason, f"{operation} {address}: the store answered {code or 'an error'} ({status}). {advice}"
        )
    for kind in type(error).__mro__:
        if kind.__name__ in _EXCEPTIONS:
            reason, advice = _EXCEPTIONS[kind.__name__]
            return StoreError(reason, f"{operation} {address}: {advice}")
    return StoreError("unreachable", f"{operation} {address}: no answer ({type(error).__name__}). {_LATER}")


def _by_status(status: int) -> _Meaning:
    if status in (401, 403):
        return "denied", _RIGHTS
    if status in (408, 409, 425, 429) or status >= 500:
        return "unreachable", "Wait for the store to recover, then relaunch."
    return "misconfigured", "Check `store.uri` and `store.endpoint_url`: this may be no S3 store."
