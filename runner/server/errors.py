"""Errors of the server. Each has a machine-readable `reason` and says what to do."""

from runner.errors import InfrastructureError, Refused


class DatabaseFailed(InfrastructureError):
    """The database cannot be opened, or did not take a transaction. Whoever asked may ask again."""

    def __init__(self, message: str) -> None:
        super().__init__("database", message)


class ServeRefused(Refused):
    """`runner serve` cannot work as asked: folder, token, template, command, address."""

    def __init__(self, *problems: str) -> None:
        super().__init__("serve_refused", problems)
