"""The control channel on a Unix socket: each line that comes in is answered by one on the same connection.

A thread and a loop of its own, so that a cancel is taken also while a tool holds the pipeline's loop. The socket is
made under a hidden name before the claim and put in its place after it, atomically: over what a process left that was
killed, or one that was overtaken and sleeps. Whoever owns the pipeline owns the path.

Refuses processes of other users, and those that descend from this one: no tool steers its own run. Clients that never
end a line, never read or never leave cost each other their places, and nobody else anything.
"""

import asyncio
import json
import os
import secrets
import socket
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from checkpoint.head import Head
from checkpoint.jsontypes import JsonObject
from runner.control import Control
from runner.control_lines import LineSplitter, Refusal
from runner.errors import Refused
from runner.isolation.process_table import ProcessRow, read_row
from runner.logs import Logger

MOST_CLIENTS = 16
"""Of more, the one that has been silent for longest loses its connection."""
SEND_S = 5.0
PACE_S = 0.002
"""Between two pieces of one client: a flood of commands leaves the run its time."""
LEAVE_S = 1.0
BACKLOG = 1024
_CREDENTIALS = struct.Struct("3i")


def descends(pid: int, ancestor: int, row_of: Callable[[int], ProcessRow | None] = read_row) -> bool | None:
    """Whether a process is `ancestor` or descends from it; None if it has ended, so that nobody can tell."""
    while pid not in (0, 1):
        if pid == ancestor:
            return True
        row = row_of(pid)
        if row is None:
            return None
        pid = row.parent
    return pid == ancestor


class SocketControl:
    """A `Channel`. `path` is absolute; `runner check` has looked at it."""

    def __init__(self, path: Path, control: Control, log: Logger, own_pid: int | None = None) -> None:
        """`own_pid`: whose descendants are refused; None: this process's."""
        self._path = path
        self._control = control
        self._log = log
        self._socket: socket.socket | None = None
        self._folder = -1
        self._hidden = f".{secrets.token_hex(6)}.control"
        self._inode: tuple[int, int] | None = None
        self._serving: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._clients: OrderedDict[asyncio.StreamWriter, None] = OrderedDict()
        self._closed = False
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._thread: threading.Thread | None = None

    # --- the socket's life ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the socket, listening, under a hidden name beside its place. Raises Refused."""
        try:
            self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            place = f"/proc/self/fd/{self._folder}/{self._hidden}"  # short, however long the folder's path is
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket = made
            made.bind(place)
            os.chmod(self._hidden, 0o600, dir_fd=self._folder)
            status = os.stat(self._hidden, dir_fd=self._folder, follow_symlinks=False)
            self._inode = (status.st_dev, status.st_ino)
            made.listen(BACKLOG)  # only now can anybody connect
            made.setblocking(False)
        except OSError as error:
            self.close()
            why = error.strerror or str(error)
            raise Refused("control_unusable", [f"control: {self._path} cannot be made ({why}): name another"]) from None

    def open(self, head: Head) -> None:
        del head
        try:
            os.replace(self._hidden, self._path.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._thread = threading.Thread(target=self._work, daemon=True, name="control")
            self._thread.start()
        except (OSError, RuntimeError) as error:
            self._log.warning("control_not_open", path=str(self._path), error=str(error))

    def close(self) -> None:
        """Remove the socket, if the path is still ours; called again it does nothing."""
        if self._closed:
            return
        self._closed = True
        for name in (self._hidden, self._path.name):
            self._remove(name)
        if self._folder >= 0:
            os.close(self._folder)
        if self._serving is not None:
            loop, task = self._serving
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(task.cancel)
        elif self._socket is not None:
            self._socket.close()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended, waited for so long."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            if (status.st_dev, status.st_ino) == self._inode:
                os.unlink(name, dir_fd=self._folder)

    # --- clients, on the thread of their own ----------------------------------------------------------------

    def _work(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            task = loop.create_task(self._serve())
            self._serving = (loop, task)
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception:  # noqa: BLE001 - a defect of the channel is no reason to end the run
            self._log.exception("control_ended")
        finally:
            loop.close()

    async def _serve(self) -> None:
        assert self._socket is not None, "it was prepared"
        clients: set[asyncio.Task[None]] = set()
        try:
            with self._socket as listening:
                await self._accept(listening, clients)
        finally:
            for client in clients:
                client.cancel()
            if clients:
                await asyncio.wait(clients, timeout=LEAVE_S)
            await asyncio.sleep(0)  # what was closed is closed in the loop's next round

    async def _accept(self, listening: socket.socket, clients: set[asyncio.Task[None]]) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # the client has left, or there are no descriptors for now
                await asyncio.sleep(PACE_S * 10)
                continue
            task = loop.create_task(self._talk(connection))
            clients.add(task)
            task.add_done_callback(clients.discard)
            await asyncio.sleep(PACE_S / 4)  # so that those who lose their places do so before more come

    async def _talk(self, connection: socket.socket) -> None:
        """One client, to its end."""
        try:
            refusal = self._refusal(connection)
            reader, writer = await asyncio.open_connection(sock=connection, limit=64 * 1024)
        except OSError:  # it has left
            connection.close()
            return
        self._clients[writer] = None
        if len(self._clients) > MOST_CLIENTS:
            silent, _ = self._clients.popitem(last=False)
            silent.transport.abort()
        try:
            if refusal is not None:
                await _send(writer, self._control.refuse(refusal))
                return
            await self._obey(reader, writer)
        except (OSError, TimeoutError):
            pass  # it left, or does not read
        finally:
            self._clients.pop(writer, None)
            if self._closed or writer.transport.get_write_buffer_size():
                writer.transport.abort()  # nobody waits for one that does not read
            writer.close()

    async def _obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = LineSplitter()
        while piece := await reader.read(64 * 1024):
            if writer in self._clients:
                self._clients.move_to_end(writer)
            for line in splitter.feed(piece):
                await _send(writer, self._control.obey(line))
                await asyncio.sleep(PACE_S)
            await asyncio.sleep(PACE_S)
        for line in splitter.finish():
            await _send(writer, self._control.obey(line))

    def _refusal(self, connection: socket.socket) -> Refusal | None:
        pid, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user not in (0, os.geteuid()):
            return Refusal("not_allowed", "only the user that runs the pipeline may control it")
        if descends(pid, self._own_pid) is False:
            return None
        return Refusal("not_allowed", "processes of the run cannot control it, nor those that end without their answer")


async def _send(writer: asyncio.StreamWriter, said: JsonObject) -> None:
    writer.write(json.dumps(said).encode() + b"\n")
    async with asyncio.timeout(SEND_S):
        await writer.drain()
