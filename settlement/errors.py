"""Errors of the wire: secrets, signatures, addresses. Each has a machine-readable `reason` and says what to
do.

Refuses to carry a secret, a signature or a body: messages name places and rules only, so they may be logged
as they are.
"""


class SettlementError(ValueError):
    """A value that cannot be used. `reason` is stable and meant for machines."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SecretInvalid(SettlementError):
    """The signing secret is not of the form `whsec_<base64>`, one per line."""

    def __init__(self, message: str) -> None:
        super().__init__("callback_secret_invalid", message)


class SignatureInvalid(SettlementError):
    """A request is not proven to come from a holder of the secret.

    `reason`: `header_missing`, `header_malformed`, `too_old`, `too_new` or `signature_mismatch`.
    """


class AddressInvalid(SettlementError):
    """An address that nothing can be delivered to."""

    def __init__(self, message: str) -> None:
        super().__init__("address_invalid", message)
