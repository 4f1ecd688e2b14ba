"""A cooperative abort: who is asked to stop looks at the signal; nothing is killed here."""

import asyncio
from collections.abc import Callable


class AbortSignal:
    """Read side. `aborted` never goes back to False."""

    __slots__ = ("_aborted", "_callbacks", "_event")

    def __init__(self) -> None:
        self._aborted = False
        self._event: asyncio.Event | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def aborted(self) -> bool:
        return self._aborted

    async def wait(self) -> None:
        """Return once aborted."""
        if self._aborted:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once, at the abort (at once if it has happened). Returns the way to take it back."""
        if self._aborted:
            callback()
            return lambda: None
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def _abort(self) -> None:
        if self._aborted:
            return
        self._aborted = True
        if self._event is not None:
            self._event.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class AbortController:
    """Write side; call `abort` from the event loop's thread."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self) -> None:
        self.signal._abort()  # pyright: ignore[reportPrivateUsage]
