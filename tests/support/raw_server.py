"""A server on this machine that answers each connection as a test says, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from streamsched.web.reach import Reach, read_networks

Talk: TypeAlias = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
LOCAL = "127.0.0.0/8"


def local_reach(*ports: int) -> Reach:
    """This machine's addresses, at `ports` too."""
    return Reach(read_networks([LOCAL]), allow_ports=frozenset(ports))


@asynccontextmanager
async def raw_server(talk: Talk, host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[bytes]]]:
    """Yield the port of a server that passes the head of each request to `talk`, and the list of these heads."""
    heads: list[bytes] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await talk(heads[-1], writer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        writer.transport.abort()

    server = await asyncio.start_server(serve, host, 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)


def respond(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of an answer."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def always(answer: bytes) -> Talk:
    """Return what gives the same answer to all."""

    async def talk(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return talk
