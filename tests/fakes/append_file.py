"""A file that lines are appended to, in memory, and that fails when a test wants it to."""


class FakeAppendFile:
    """Takes writes until `capacity` bytes are reached: then short writes, and nothing (ENOSPC) once it is full."""

    def __init__(self, capacity: int | None = None) -> None:
        self.data = b""
        self.writes: list[bytes] = []
        self.capacity = capacity
        self.sync_error: OSError | None = None
        self.synced = 0
        self.closed = 0

    def write(self, data: bytes) -> int:
        self.writes.append(data)
        room = len(data) if self.capacity is None else self.capacity - len(self.data)
        if room <= 0:
            raise OSError(28, "No space left on device")
        taken = data[:room]
        self.data += taken
        return len(taken)

    def sync(self) -> None:
        if self.sync_error is not None:
            raise self.sync_error
        self.synced += 1

    def close(self) -> None:
        self.closed += 1
