"""A web site whose pages change while it is served, a crawler that visits its oldest copies first, and a service.

A page of 20 changes every second or so, the others once in minutes; what changes is a sentence among menus and times.
Some pages vanish. The site knows what it has shown, so that copies can be compared with it.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from bisect import bisect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import httpx

VERSION: Final = "Version"  # the header of an answer that has the page's version
_BUSY: Final = 20  # one page of this number changes often
_OFTEN_S, _SELDOM_S = 1.0, 300.0  # between two changes
_GONE_SHARE: Final = 0.05  # of pages vanish within `_LIFE_S`
_LIFE_S: Final = 15.0
_LONGEST_S: Final = 600.0  # for which changes are drawn
_TOPICS: Final = (
    "harbour",
    "orchard",
    "railway",
    "glacier",
    "library",
    "market",
    "bridge",
    "theatre",
    "meadow",
    "tower",
)


class ChangingSite:
    """A site of `pages` pages below ``url``. It changes from `start` on; ``requests``: how many it has answered."""

    def __init__(self, pages: int, clock: Callable[[], float], seed: int = 1) -> None:
        self.url = ""
        self.paths = [f"/{_TOPICS[number % len(_TOPICS)]}/{number}" for number in range(pages)]
        self.requests = 0
        self._clock = clock
        self._start_s = float("inf")
        rng = random.Random(seed)
        self._changes: dict[str, list[float]] = {}
        self._gone: dict[str, float] = {}
        for number, path in enumerate(self.paths):
            mean_s, at_s = _SELDOM_S if number % _BUSY else _OFTEN_S, 0.0
            times = list[float]()
            while (at_s := at_s + rng.expovariate(1.0 / mean_s)) < _LONGEST_S:
                times.append(at_s)
            self._changes[path] = times
            if number % _BUSY and rng.random() < _GONE_SHARE:
                self._gone[path] = rng.uniform(1.0, _LIFE_S)

    @property
    def urls(self) -> list[str]:
        """The URLs of all pages."""
        return [self.url + path for path in self.paths]

    def start(self) -> None:
        """Let the pages change from now on."""
        self._start_s = self._clock()

    def version(self, path: str) -> int | None:
        """Return how often a page has changed by now, None if it is gone."""
        age_s = self._clock() - self._start_s
        return None if age_s >= self._gone.get(path, float("inf")) else bisect(self._changes[path], age_s)

    def page(self, path: str) -> str | None:
        """Return a page as HTML, None if it is gone."""
        version = self.version(path)
        return None if version is None else self._edition(path, version)

    def _edition(self, path: str, version: int) -> str:
        rng = random.Random(f"{path} {version}")
        words, place = " ".join(rng.choices(_TOPICS, k=4)), path.split("/")[1]
        return (
            f"<html><nav>Home, {self.requests} visitors</nav><main><h1>{path}</h1>"
            f"<p>Edition {version}: {words} near the {place}.</p>"
            f"<p>Seen {self.requests % 59 + 1} seconds ago</p></main></html>"
        )

    @asynccontextmanager
    async def served(self) -> AsyncIterator[ChangingSite]:
        """Serve the site within the block."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
                self.requests += 1
                version = self.version(path) if path in self._changes else None
                body = ("gone" if version is None else self._edition(path, version)).encode()
                status = b"404 Not Found" if version is None else b"200 OK\r\n%s: %d" % (VERSION.encode(), version)
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
                )
                writer.write(body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


class Pace:
    """Turns at `per_s` a second, `most` of them in all, for two crawlers with the same budget."""

    def __init__(self, per_s: float, most: int, clock: Callable[[], float]) -> None:
        self._every_s, self._left, self._clock = 1.0 / per_s, most, clock
        self._next_s = clock()

    async def turn(self) -> bool:
        """Wait for the next turn; return False if there is none."""
        if self._left <= 0:
            return False
        self._left -= 1
        self._next_s = max(self._next_s + self._every_s, self._clock() - 1.0)  # at most a second is made up for
        await asyncio.sleep(max(0.0, self._next_s - self._clock()))
        return True


class Finds:
    """What the visits of a crawler have found: ``changes`` after each visit; ``copies``: the version seen last."""

    def __init__(self, site: ChangingSite) -> None:
        self._site = site
        self.copies: dict[str, int | None] = dict.fromkeys(site.paths, 0)
        self.changes: list[int] = []

    def note(self, answer: httpx.Response) -> None:
        """Note a visit of a page by the site's answer, which has the version that it shows."""
        path = str(answer.url).removeprefix(self._site.url)
        version = int(answer.headers[VERSION]) if answer.status_code == httpx.codes.OK else None
        self.changes.append((self.changes[-1] if self.changes else 0) + (version != self.copies[path]))
        self.copies[path] = version

    def visits_until(self, changes: int) -> int:
        """Return after how many visits it had found that many changes, all visits if it has not."""
        return next((count for count, found in enumerate(self.changes, 1) if found >= changes), len(self.changes))

    def current(self) -> float:
        """Return the share of copies that are current."""
        return sum(self._site.version(path) == seen for path, seen in self.copies.items()) / len(self.copies)


async def crawl_oldest_first(site: ChangingSite, pace: Pace, http: httpx.AsyncClient) -> Finds:
    """Visit the page whose copy is the oldest, again and again."""
    finds, queue = Finds(site), deque(site.urls)
    while await pace.turn():
        url = queue.popleft()
        finds.note(await http.get(url))
        queue.append(url)
    return finds


@contextmanager
def open_service(state: Path, *settings: str) -> Iterator[str]:
    """Run a service with its state in `state` within the block; yield its URL."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "streamsched", "serve", "--state", str(state), "--http", "127.0.0.1:0", *words]
    log = state.with_name("log.jsonl")
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--log-format", "json", "--log-level", "info"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            process_group=0,  # Ctrl-C is for the crawler, which then has outcomes to send
        )
        try:
            yield f"http://{_wait_for_address(process, log)}"
        finally:
            process.terminate()
            process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            event = json.loads(line) if line.endswith("}") else {}
            if event.get("event") == "serving http":
                return str(event["address"])
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    raise SystemExit(f"the service has ended: {log.read_text()}")
