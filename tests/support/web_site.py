"""Sites on this machine for a fetcher: what they answer, and what they were asked; signals are kept in a list."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from streamsched.fetching.document_book import Document, Kind
from streamsched.fetching.fetcher import Fetcher, FetchSettings
from streamsched.signals import Signal, SignalBatch
from tests.support.raw_server import local_reach, raw_server, respond

NOW = 1_800_000_000.0


class Page(NamedTuple):
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}


class Request(NamedTuple):
    host: str
    path: str
    headers: Mapping[str, str]
    at_s: float


async def everywhere(_host: str, _port: int) -> list[str]:
    """Resolve each name to this machine."""
    return ["127.0.0.1"]


@dataclass
class Web:
    """``pages``: by host and path, such as ``a.example/feed``; 404 for others. Bodies have ``PORT`` for the port."""

    port: int
    pages: dict[str, Page | Callable[[Request], Page]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    now: float = NOW
    begun_s: float = field(default_factory=time.monotonic)

    def clock(self) -> float:
        """Return ``now`` and the time since the beginning: hosts rest for moments of real time."""
        return self.now + time.monotonic() - self.begun_s

    async def talk(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        request = Request(headers["host"].partition(":")[0], first.split()[1], headers, time.monotonic())
        self.requests.append(request)
        found = self.pages.get(request.host + request.path, Page(status=404))
        page = found if isinstance(found, Page) else found(request)
        etag = page.headers.get("ETag")
        if etag is not None and headers.get("if-none-match") == etag:
            page = page._replace(status=304, body=b"")
        named = {name: value.replace("PORT", str(self.port)) for name, value in page.headers.items()}
        writer.write(respond(page.status, page.body.replace(b"PORT", str(self.port).encode()), named))

    def url(self, place: str) -> str:
        host, _, path = place.partition("/")
        return f"http://{host}:{self.port}/{path}"

    def asked(self, *, robots: bool = False) -> list[str]:
        """Return what was asked since the last call, in order, without robots.txt."""
        found = [f"{one.host}{one.path}" for one in self.requests if robots or one.path != "/robots.txt"]
        self.requests.clear()
        return found


@asynccontextmanager
async def web() -> AsyncIterator[Web]:
    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        await site.talk(head, writer)

    async with raw_server(talk) as (port, _):
        site = Web(port)
        yield site


class Run(NamedTuple):
    signals: list[Signal]
    counts: Counter[str]

    def paths(self) -> list[str]:
        """Return what follows the port in each URL that was announced."""
        return sorted("/" + one.url.split("/", 3)[3] for one in self.signals)


async def run_once(site: Web, directory: Path, named: Mapping[str, Kind] | None = None, **settings: object) -> Run:
    """Run a fetcher once at the time of `site`, with the documents `named` by their places."""
    given = FetchSettings(delay_s=0.001, reach=local_reach(site.port), resolve=everywhere, every_s=3_600.0)
    given = replace(given, **settings)  # type: ignore[arg-type]
    signals: list[Signal] = []

    def deliver(batch: SignalBatch) -> None:
        signals.extend(batch)

    with Fetcher(directory, deliver, given, clock=site.clock, monotonic=time.monotonic) as fetcher:
        fetcher.schedule.add(Document(site.url(place), kind) for place, kind in (named or {}).items())
        await fetcher.run(asyncio.Event(), once=True)
    return Run(signals, fetcher.counts)
