"""A service in this process, and raw connections to it."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched import DurableScheduler
from streamsched.http.open_http import open_http
from streamsched.http.server import HttpServer, listen
from streamsched.http.service_clock import ServiceClock
from streamsched.http.tokens import SCOPES, write_entry
from streamsched.scheduler.warm import WORKLOADS
from streamsched.service.http_settings import HttpSettings
from streamsched.state.stream_clock import WallClock
from tests.support.command_line import start

NOW = 1_755_820_800.0  # 2025-08-22
TOKENS = {name: f"ss_{name}" for name in (*SCOPES, "all", "expired")}
URLS = [f"https://h{page % 5}.example/p{page}" for page in range(40)]


@dataclass
class Clock:
    """A clock that tests set. Its readings advance by a millisecond each, so that no two are equal."""

    now_s: float = NOW

    def read(self) -> float:
        self.now_s += 0.001
        return self.now_s


@dataclass
class GoingClock(Clock):
    """Likewise, but its readings advance as the machine's clock, as those that clients make between two answers."""

    at_s: float = field(default_factory=time.monotonic)

    def read(self) -> float:
        before, self.at_s = self.at_s, time.monotonic()
        self.now_s += self.at_s - before
        return self.now_s


@dataclass(frozen=True)
class Running:
    """A service that answers. ``client``: calls it with the token "all", if it has tokens."""

    scheduler: DurableScheduler
    server: HttpServer
    client: httpx.Client
    clock: Clock

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.server.address.rpartition(":")
        return host, int(port)

    def as_token(self, name: str) -> httpx.Client:
        """Return a client with another token."""
        return make_client(self.server.address, TOKENS.get(name, name))


def make_client(address: str, token: str | None = None) -> httpx.Client:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"http://{address}", headers=headers, timeout=300.0)


def write_tokens(path: Path) -> Path:
    """Write a file with a token for each scope, one for all and one that has expired."""
    entries = [write_entry(TOKENS[name], name, [name]) for name in SCOPES]
    entries += [
        write_entry(TOKENS["all"], "all", SCOPES),
        write_entry(TOKENS["expired"], "expired", ["read"], 1e9),
    ]
    path.write_text("\n".join(entries))
    return path


@cache
def compile_kernels() -> None:
    """Compile what most requests need: a test that measures answers would measure the compiler."""
    for name in ("rank", "observe", "keep on disk"):
        WORKLOADS[name]()


@contextmanager
def running(
    folder: Path,
    *,
    tokens: bool = False,
    clock: Clock | None = None,
    address: str = "127.0.0.1:0",
    keep_changes: str | float = "7d",
    **settings: Any,
) -> Iterator[Running]:
    """Serve the state in `folder` within the block, on a free port unless `address` has one."""
    compile_kernels()
    clock = Clock() if clock is None else clock
    given: dict[str, Any] = {"tokens": write_tokens(folder / "tokens.toml")} if tokens else {}
    wall = ServiceClock(clock.read, time.monotonic).read
    http = HttpSettings(address, **given, **settings)
    with (
        DurableScheduler.open(folder / "state", clock=WallClock(wall), keep_changes=keep_changes) as scheduler,
        listen(http) as listener,
        open_http(scheduler, http, wall, listener) as server,
        make_client(server.address, TOKENS["all"] if tokens else None) as client,
    ):
        yield Running(scheduler, server, client, clock)


def clock_now() -> float:
    """The time by the clock that a service in another process reads."""
    return time.time()  # noqa: TID251  that process has no other


@contextmanager
def started(*words: str | Path, log: list[str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command that serves HTTP; yield its process and address once it does. Kill it at the end.

    `log`: gets the lines that it logs from then on.
    """
    process = start(*words, "--http", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
    assert process.stderr is not None
    lines = list[str]() if log is None else log
    thread = threading.Thread(target=lines.extend, args=(process.stderr,))  # so that it can always write
    try:
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "serving http":
                break
        else:
            pytest.fail(f"it has ended: {process.wait()}")
        thread.start()
        yield process, event["address"]
    finally:
        process.kill()
        if thread.ident is not None:
            thread.join()
        process.communicate()


def outcome(url: str, at: float, **fields: object) -> dict[str, object]:
    """Return an outcome as JSON has it."""
    return {"url": url, "fetched_at": at, **fields}


def head(method: str, path: str, *fields: str) -> bytes:
    """Return the head of a request, with header `fields`."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *fields, "", ""]).encode()


def exchange(place: tuple[str, int], *parts: bytes, timeout_s: float = 10.0) -> bytes:
    """Send `parts` over a connection of their own; return all that comes back until the other side closes it."""
    with socket.create_connection(place, timeout=timeout_s) as connection:
        for part in parts:
            connection.sendall(part)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Return what arrives until the other side closes the connection."""
    received = []
    while part := connection.recv(1 << 16):
        received.append(part)
    return b"".join(received)
