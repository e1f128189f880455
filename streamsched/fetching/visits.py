"""One visit of a document: the request that its robots.txt allows, and what the answer says."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from streamsched.connectors.signals.document_memory import DocumentMemory
from streamsched.connectors.signals.document_reader import Reading, read_document
from streamsched.connectors.signals.entry_columns import find_host
from streamsched.errors import DocumentError, FetchError, StreamschedError
from streamsched.fetching.document_book import Document, DocumentBook
from streamsched.fetching.document_links import Head, find_feeds, read_head, read_link_headers
from streamsched.fetching.host_gate import HostGate, HostRests
from streamsched.outcomes import NOT_ATTEMPTED, ROBOTS_DENIED
from streamsched.service.event_log import LOG
from streamsched.web.robots import Robots, fetch_robots, robots_url
from streamsched.web.safe_fetch import Answer, FetchLimits, SafeClient

LONGEST_REST_S: Final = 86_400.0  # that an answer may ask for: more, and a mistake would silence a document for good
_LONGEST_WAIT_S: Final = 30.0  # in a slot of the fetcher; beyond, the document is given back until its host is free
_LONGEST_RETRY_S: Final = 366 * 86_400.0
_PAGE_LIMITS: Final = FetchLimits(body_bytes=1 << 20, cut=True)  # of a front page: links to feeds are in its head
_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)
_NO_CACHE: Final = re.compile(r"(?:^|[\s,])no-(?:cache|store)(?:[\s,=]|$)", re.IGNORECASE)


@dataclass(slots=True)
class Visit:
    """What became of a visit of `document` that began at `at`, UTC epoch seconds; ``last_visit_s``: the one before.

    - ``status``: as an outcome has it; ``failure``: why there is nothing to read, "" if there is;
    - ``kind``: of that failure, as of a FetchError; also "status", "malformed" and "wait";
    - ``reading``: what a sitemap or feed announces; ``feeds``: what a front page names;
    - ``rest_s``: the least time until the next visit that the answer asks for;
    - ``validators``: ETag and Last-Modified of what was read; ``moved_to``: where it has moved permanently;
    - ``blocked_s``: how long its host must be left alone; ``is_read``: whether the memory may have changed;
    - ``head``: what the document says of itself, None if it was not read;
    - ``is_pushed``: whether a hub sent the document: then nothing was asked for.
    """

    document: Document
    at: float
    last_visit_s: float | None = None
    status: int = 0
    kind: str = ""
    failure: str = ""
    reading: Reading | None = None
    feeds: list[str] = field(default_factory=list)
    rest_s: float = 0.0
    retry_after_s: float | None = None
    validators: tuple[str, str] = ("", "")
    moved_to: str | None = None
    blocked_s: float = 0.0
    size: int = 0
    is_read: bool = False
    head: Head | None = None
    is_pushed: bool = False


class Visitor:
    """Visits documents through `client`; one reading at a time, in a thread, because it takes seconds for large ones.

    `clock`: UTC epoch seconds; `on_robots`: called with the URL of a host and its robots.txt whenever that is fetched.
    """

    def __init__(
        self,
        client: SafeClient,
        gate: HostGate,
        book: DocumentBook,
        memory: DocumentMemory,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._gate = gate
        self._book = book
        self._memory = memory
        self._clock = clock
        self._reading = asyncio.Lock()
        self._asking: dict[str, asyncio.Lock] = {}
        self.unfinished = 0  # visits whose document was read, and that have not ended
        self.on_robots: Callable[[str, Robots], None] = lambda _url, _robots: None

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Hold the memory within the block: no document is read, and the visits of those that were read have ended."""
        async with self._reading:
            while self.unfinished:
                await asyncio.sleep(0.01)
            yield

    async def visit(self, document: Document, last_visit_s: float | None) -> Visit:
        """Return what a visit finds; if `document` is not remembered, entries since `last_visit_s` are announced."""
        visit = Visit(document, self._clock(), last_visit_s)
        limits = _PAGE_LIMITS if document.kind == "site" else None
        try:
            headers = self._validators(document)
            async with self._client.fetch(document.url, headers=headers, limits=limits, permit=self._permit) as answer:
                await self._take(visit, answer)
        except FetchError as error:
            visit.kind, visit.failure = error.kind, str(error)
            if isinstance(error, _Waiting) and host_name(error.url) == host_name(document.url):  # else it backs off
                visit.status, visit.blocked_s = NOT_ATTEMPTED, error.seconds
            elif error.kind == "robots":
                visit.status = ROBOTS_DENIED
        except DocumentError as error:
            visit.status, visit.kind, visit.failure = 0, "malformed", str(error)
        except StreamschedError:
            raise
        except Exception as error:  # noqa: BLE001  no site may stop the visits of all others
            _note_defect(visit, error)
        finally:
            self.unfinished -= visit.is_read
        return visit

    async def read_pushed(self, document: Document, body: bytes, at: float, last_visit_s: float | None) -> Visit:
        """Return what `body` announces, which a hub sent at `at` for `document`, visited last at `last_visit_s`."""
        visit = Visit(document, at, last_visit_s, status=200, size=len(body), is_pushed=True)
        try:
            await self._read(visit, body)
        except DocumentError as error:
            visit.kind, visit.failure = "malformed", str(error)
        except Exception as error:  # noqa: BLE001  as of a visit
            _note_defect(visit, error)
        finally:
            self.unfinished -= visit.is_read
        return visit

    async def robots(self, url: str) -> Robots:
        """Return the robots.txt for `url`, fetched if the kept one is too old."""
        place = robots_url(url)
        async with self._asking.setdefault(place, asyncio.Lock()):
            found = self._book.robots.get(place)
            if found is None or not found.is_fresh(self._clock()):
                found = await fetch_robots(self._client, url, self._clock(), permit=self.passing)
                self._gate.slow(host_name(url), found.delay_s())
                self._book.keep_robots(place, found)
                self.on_robots(url, found)
            else:
                self._gate.slow(host_name(url), found.delay_s())
        self._asking.pop(place, None)
        return found

    @asynccontextmanager
    async def _permit(self, url: str) -> AsyncIterator[None]:
        """Let a request pass that robots.txt allows, once its host may be asked again. Raises FetchError."""
        robots = await self.robots(url)
        if not robots.reachable:
            reason = f"nothing may be fetched until its robots.txt can be ({robots.reason})"
            raise FetchError(url, "unreachable", reason)
        if not robots.allows(url):
            raise FetchError(url, "robots", "robots.txt forbids it")
        async with self.passing(url):
            yield

    @asynccontextmanager
    async def passing(self, url: str) -> AsyncIterator[None]:
        """Let a request pass once its host may be asked again. Raises FetchError."""
        try:
            async with self._gate.passing(host_name(url), _LONGEST_WAIT_S):
                yield
        except HostRests as error:
            raise _Waiting(url, error.seconds) from None

    def _validators(self, document: Document) -> dict[str, str]:
        """Return the headers that ask for what is new, if the old content is known."""
        if document.kind != "site" and document.url not in self._memory:
            return {}
        named = {"if-none-match": document.etag, "if-modified-since": document.last_modified}
        return {name: value for name, value in named.items() if value}

    async def _take(self, visit: Visit, answer: Answer) -> None:
        """Note in `visit` what the answer says. Raises DocumentError."""
        headers, document = answer.headers, visit.document
        visit.status, visit.size = answer.status, len(answer.body)
        visit.moved_to = answer.url if answer.moved else None
        visit.retry_after_s = read_retry_after(headers.get("retry-after", ""), visit.at)
        visit.rest_s = read_max_age(headers)
        if answer.status == 304:
            return
        if not 200 <= answer.status < 300:
            visit.kind, visit.failure = "status", f"{answer.url}: answers with status {answer.status}"
            visit.status = 0 if answer.status < 400 else answer.status
            return
        visit.validators = (_header(headers, "etag"), _header(headers, "last-modified"))
        if document.kind == "site":
            visit.feeds = await asyncio.to_thread(find_feeds, answer.body, answer.url)
            return
        head = await asyncio.to_thread(read_head, answer.body, answer.url)
        visit.rest_s = min(max(visit.rest_s, head.ttl_s), LONGEST_REST_S)
        await self._read(visit, answer.body)
        linked = read_link_headers(headers, answer.url)  # which come first, by WebSub, 4
        visit.head = Head(head.ttl_s, linked.hubs or head.hubs, linked.topic or head.topic)

    async def _read(self, visit: Visit, body: bytes) -> None:
        """Read the document; once that has begun, it ends, even if the visit is cancelled: the memory has it then."""
        document = visit.document
        async with self._reading:
            self.unfinished += 1
            visit.is_read = True
            reading = asyncio.ensure_future(asyncio.to_thread(self._parse, visit, body))
            try:
                found = await asyncio.shield(reading)
            except asyncio.CancelledError:
                found = await reading
        if found.kind == "indexnow":  # which may speak of any host that it names
            raise DocumentError(document.url, "expected a sitemap or a feed, found an IndexNow notice")
        visit.reading = found

    def _parse(self, visit: Visit, body: bytes) -> Reading:
        """Return what the document announces. A hub may leave out what it sent before: that stays remembered."""
        document = visit.document
        last = self._memory.recall(document.url) if visit.is_pushed else None
        reading = read_document(
            body,
            url=document.url,
            read_at=visit.at,
            memory=None if visit.is_pushed and last is None else self._memory,
            since=document.since if visit.last_visit_s is None else visit.last_visit_s,
            scope=self._book.scope(document),
        )
        if last is not None:
            self._memory.keep_too(document.url, last)
        return reading


class _Waiting(FetchError):
    """A host may be asked again only after a while."""

    def __init__(self, url: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(url, "wait", f"its host may be asked in {seconds:.0f} seconds")


def _note_defect(visit: Visit, error: Exception) -> None:
    LOG.exception("defect of streamsched: please report it", url=visit.document.url)
    visit.status, visit.kind, visit.failure = 0, "defect", repr(error)


def host_name(url: str) -> str:
    """Return the name of the host of `url`, without a port: of all its ports one is asked at a time."""
    host = find_host(url) or url
    return host if host.endswith("]") else re.sub(r":\d*$", "", host).rstrip(".")


def _header(headers: Mapping[str, str], name: str) -> str:
    """Return a validator if it can be sent back as it is."""
    text = headers.get(name, "")
    return text if text.isascii() and text.isprintable() and len(text) <= 1024 else ""


def read_retry_after(text: str, now: float) -> float | None:
    """Return the seconds of a Retry-After header, which has seconds or a date; None without one. Source: RFC 9110.

    >>> read_retry_after("120", 0.0), read_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0.0)
    (120.0, 60.0)
    """
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), _LONGEST_RETRY_S)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_S) if math.isfinite(seconds) else None


def read_max_age(headers: Mapping[str, str]) -> float:
    """Return for how many seconds an answer is fresh by Cache-Control, less its Age, at most a day. Source: RFC 9111.

    >>> read_max_age({"cache-control": "public, max-age=600", "age": "60"}), read_max_age({"cache-control": "no-cache"})
    (540.0, 0.0)
    """
    control = headers.get("cache-control", "")
    found = _MAX_AGE.search(control)
    if found is None or _NO_CACHE.search(control):
        return 0.0
    age = headers.get("age", "")
    spent = float(age[:12]) if age.isascii() and age.isdecimal() else 0.0
    return min(max(float(found[1]) - spent, 0.0), LONGEST_REST_S)
