"""What can go wrong with a confined process before it runs."""


class SpawnFailed(OSError):
    """A command could not be started; nothing of it runs. The sentence is meant for the model that asked for it."""

    reason = "spawn_failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message
