"""A link with a delay, as a process of its own: `python -m bench.slow_link PORT DELAY_MS` prints the port it listens on
and passes every byte on, each way half of the delay later.
"""

import asyncio
import sys
from contextlib import suppress


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Pieces keep their order and their distance: a delay, not a brake."""
    loop = asyncio.get_running_loop()
    coming: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            due, piece = await coming.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
        writer.close()

    sending = asyncio.ensure_future(send())
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            coming.put_nowait((loop.time() + delay_s, piece))
    coming.put_nowait((loop.time() + delay_s, b""))
    with suppress(ConnectionError):
        await sending


async def _serve(port: int, delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, far_writer, delay_s), _pass_on(far_reader, writer, delay_s))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]) / 2000))
