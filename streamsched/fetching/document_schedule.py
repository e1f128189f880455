"""Which document is visited next: a durable scheduler of the documents, and the book of what is known of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import Final, Self

from streamsched.connectors.signals.entry_columns import find_host
from streamsched.errors import SettingsError
from streamsched.fetching.document_book import Document, DocumentBook
from streamsched.fetching.subscriptions import Subscription, SubscriptionLog, Subscriptions
from streamsched.fetching.visits import Visit
from streamsched.numerics.packed_urls import MAX_URL_BYTES
from streamsched.outcomes import NOT_ATTEMPTED, ROBOTS_DENIED, STATUSES, Outcome, StatusWord
from streamsched.persistence.files import as_snapshot_errors
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.scheduler.durable import DurableScheduler
from streamsched.web.robots import MOST_AGE_S, Robots, robots_url

DAY_S: Final = 86_400.0
INDEXED_REST_S: Final = 7 * DAY_S  # of a sitemap whose index says when it is newer
LEAST_PART: Final = 12.0  # a document is visited at most 12 times as often as on average,
MOST_PARTS: Final = 24.0  # and at least once in 24 mean intervals

_DOCUMENTS: Final = "documents.msgpack"
_SUBSCRIPTIONS: Final = "subscriptions.jsonl"
_LEASE: Final = "1h"  # longer than any visit: six requests, each with that of a robots.txt
_SOON_S: Final = 60.0  # what is not due in this time is not waited for
_ASKED: Final = 2  # the tier of pages that were asked for
_WORDS: Final[dict[int, StatusWord]] = {status.code: word for word, status in STATUSES.items()}


class DocumentSchedule:
    """The documents of a state directory, and when to visit them; a context manager.

    A document that was named, or that its index announces, is visited as soon as its host allows. The others share
    as many visits as there are documents in `every_s`: the scheduler chooses those that find most news.
    """

    def __init__(self, directory: Path, every_s: float, delay_s: float, clock: Callable[[], float]) -> None:
        self._lock = RLock()  # visits are noted in a thread, while robots.txt is taken
        self._directory = directory
        self._every_s = every_s
        self._delay_s = delay_s
        self._clock = clock
        self._log = SubscriptionLog(directory / _SUBSCRIPTIONS)
        self._resources = ExitStack()
        self._delays: dict[str, float] = {}  # that robots.txt asks for and the scheduler does not know yet
        self._wanted: set[str] = set()  # documents that were asked for and not visited since
        self._refilled_s = 0.0

    def __enter__(self) -> Self:
        """Open the state. Raises SnapshotError if it is in use or damaged."""
        politeness = Politeness(
            delay=self._delay_s,
            in_flight=1,
            per_batch=1,
            min_revisit=self._every_s / LEAST_PART,
            max_revisit=self._every_s * MOST_PARTS,
        )
        self._claim_directory()
        with ExitStack() as stack:
            settings = {"politeness": politeness, "host_share": None, "max_ahead": None}
            self.scheduler = stack.enter_context(DurableScheduler.open(self._directory, settings))
            if self.scheduler.politeness != politeness:
                self.scheduler.set_politeness(politeness)
            self.book = DocumentBook.load(self._directory / _DOCUMENTS)
            self.book.subscriptions = Subscriptions([*self.book.subscriptions.records(), *self._log.read()])
            self._resources.push(stack.pop_all())
        now = self._clock()
        self._refilled_s = self.book.saved_at or now
        self._recall(now)
        return self

    def _claim_directory(self) -> None:
        """Mark a new state directory as one of documents before it is one of a scheduler.

        Raises SettingsError for a directory that has anything else: the pages of a crawl are no documents.
        """
        marked = self._directory / _DOCUMENTS
        if marked.exists():
            return
        if self._directory.is_dir() and any(self._directory.iterdir()):
            expected = "a new folder, or the state of an earlier `signals fetch`"
            raise SettingsError("state", str(self._directory), expected)
        with as_snapshot_errors(self._directory, "cannot be written"):
            self._directory.mkdir(parents=True, exist_ok=True)
        DocumentBook().save(marked, 0.0)

    def _recall(self, now: float) -> None:
        """Free what a killed process had leased, and find what was asked for. O(documents)."""
        leased: list[str] = []
        for document in self.book:
            page = self.scheduler.page(document.url, now=now)
            if page is None:
                self._ask([] if document.gone else [document.url])
                continue
            if page.asked_for:
                self._wanted.add(document.url)
            if page.lease_until_s is not None:
                leased.append(document.url)
        self.give_back(leased)

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def __len__(self) -> int:
        return len(self.book)

    def add(self, documents: Iterable[Document]) -> None:
        """Add those of `documents` that are not known, and ask for a first visit. O(1) each."""
        with self._lock:
            new = [document.url for document in documents if _is_url(document.url) and self.book.add(document)]
            self._ask(new)

    def last_visit_s(self, document: Document) -> float | None:
        """Return when `document` was visited last, None if never. O(1)."""
        page = self.scheduler.page(document.url, now=self._clock())
        return None if page is None else page.last_visit_s

    def choose(self, room: int) -> list[tuple[Document, float | None]]:
        """Lease at most `room` documents to visit now; return each with the time of its last visit."""
        now = self._clock()
        if not len(self.scheduler):
            return []
        offer = self.scheduler.offer(room, now=now, lease=_LEASE)
        asked = offer.tiers == _ASKED
        rest = [url for url, is_asked in zip(offer.urls, asked.tolist(), strict=True) if not is_asked]
        rest = rest[: int(self.book.allowance)]
        urls = [url for url, is_asked in zip(offer.urls, asked.tolist(), strict=True) if is_asked] + rest
        if not urls:
            return []
        granted = self.scheduler.grant(urls, now=now, lease=_LEASE).batch.urls
        self.book.allowance = max(self.book.allowance - len(granted), 0.0)
        chosen: list[tuple[Document, float | None]] = []
        for url in granted:
            document, page = self.book.find(url), self.scheduler.page(url, now=now)
            if document is None or document.gone or page is None:
                self.scheduler.forget([url])  # its index was read, and not saved: it will be named again
            else:
                chosen.append((document, page.last_visit_s))
        return chosen

    def is_awaited(self) -> bool:
        """Return whether a document that was asked for may be visited soon. O(documents asked for)."""
        now = self._clock()
        pages = (self.scheduler.page(url, now=now) for url in self._wanted)
        return any(
            page is not None and page.eligible_from_s is not None and page.eligible_from_s - now < _SOON_S
            for page in pages
        )

    def next_due_s(self) -> float | None:
        """Return in how many seconds a document may be visited, None if none ever is. O(documents)."""
        now, rate = self._clock(), len(self.book) / self._every_s
        allowed_s = max(1.0 - self.book.allowance, 0.0) / rate if rate else math.inf
        waits: list[float] = []
        for document in self.book:
            page = self.scheduler.page(document.url, now=now)
            if page is not None and page.eligible_from_s is not None and not document.gone:
                wait_s = max(page.eligible_from_s - now, 0.0)
                waits.append(wait_s if document.url in self._wanted else max(wait_s, allowed_s))
        return min(waits, default=None)

    def give_back(self, urls: list[str]) -> None:
        """Give documents back that were not visited. O(1) each."""
        if urls:
            self.scheduler.release(urls)

    def note(self, visits: list[Visit]) -> None:
        """Take what visits found: outcomes, documents that were named, rests that were asked for. O(1) a visit."""
        with self._lock:
            self._note(visits)

    def _note(self, visits: list[Visit]) -> None:
        self.scheduler.observe([_to_outcome(visit) for visit in visits if not visit.is_pushed])
        rules: dict[str, Rule | HostRule | None] = {}
        for visit in visits:
            document = visit.document
            if visit.is_pushed:
                self._follow(visit)
                continue
            if visit.status != NOT_ATTEMPTED:
                self._wanted.discard(document.url)
            if visit.status == ROBOTS_DENIED:
                self.book.denied[document.url] = visit.at
            if visit.status == 410:
                document.gone = True
                self.scheduler.forget([document.url])
            if visit.blocked_s:
                self.scheduler.block(document.host, self._clock() + visit.blocked_s)
            if not visit.kind:
                rules |= self._rest(visit)
                self._follow(visit)
        delays, self._delays = self._delays, {}
        rules |= {host: HostRule(delay=delay_s) if delay_s else None for host, delay_s in delays.items()}
        if rules:
            self.scheduler.set_rules(rules)

    def take_robots(self, url: str, robots: Robots) -> None:
        """Note which documents the robots.txt of the host of `url` names, and the delay that it asks for."""
        place, host = robots_url(url), find_host(url) or ""
        named = [one for one in robots.sitemaps() if find_host(one) is not None]
        site = self.book.find(place.removesuffix("robots.txt"))
        if site is not None and site.kind == "site":
            self.add(Document(one, "sitemap", site.url) for one in named)
        with self._lock:
            if robots.reachable:
                self.book.vouch(host, named)
        delay_s = robots.delay_s()
        with self._lock:
            self._delays[host] = delay_s if delay_s > self._delay_s else 0.0

    def save(self) -> None:
        """Save the book; the scheduler saves itself. Raises SnapshotError."""
        with self._lock:
            self.book.save(self._directory / _DOCUMENTS, self._clock())
            self._log.drop(self.book.saved_at)

    def keep_subscription(self, one: Subscription) -> None:
        """Write a subscription to disk before the book is saved. Raises SnapshotError."""
        self._log.add(one, self._clock())

    def refill(self) -> None:
        """Let the visits that may be made grow with time, up to one of each document. O(documents forbidden)."""
        now = self._clock()
        passed_s, self._refilled_s = max(now - self._refilled_s, 0.0), now
        grown = self.book.allowance + len(self.book) * passed_s / self._every_s
        self.book.allowance = min(grown, float(len(self.book)))
        self._ask_denied(now)

    def _ask(self, urls: list[str]) -> None:
        if urls:
            self.scheduler.ask(urls, now=self._clock())
            self._wanted.update(urls)

    def _ask_denied(self, now: float) -> None:
        """Ask again for documents that robots.txt has forbidden for a day: it may allow them now."""
        due = [url for url, at in self.book.denied.items() if now - at >= MOST_AGE_S]
        for url in due:
            del self.book.denied[url]
        self._ask(due)

    def _rest(self, visit: Visit) -> dict[str, Rule | HostRule | None]:
        """Keep the validators of an answer; return the rule that the rest it asks for makes, if that is another one."""
        document = visit.document
        if visit.status != 304:
            document.etag, document.last_modified = visit.validators
        own_s = INDEXED_REST_S if document.indexed else DAY_S if document.kind == "site" else 0.0
        rest_s = max(visit.rest_s, own_s)
        if rest_s == document.rest_s or "*" in document.url:  # a star would make it a rule of a pattern
            return {}
        document.rest_s = rest_s
        if rest_s <= self._every_s / LEAST_PART:
            return {document.url: None}
        return {document.url: Rule(min_revisit=rest_s, max_revisit=max(2.0 * rest_s, self._every_s * MOST_PARTS))}

    def _follow(self, visit: Visit) -> None:
        """Add the documents that a front page or an index names, and ask for those that its index announces."""
        document, reading = visit.document, visit.reading
        if document.kind == "site":
            self.add(Document(url, "feed", document.url) for url in visit.feeds)
            robots = self.book.robots.get(robots_url(document.url))
            if robots is None or not robots.sitemaps():
                self.add([Document(f"{document.url.rstrip('/')}/sitemap.xml", "sitemap", document.url)])
        if reading is None or not reading.documents:
            return
        parent = self.book.find(document.parent)
        if parent is not None and parent.kind == "sitemap":
            return  # sitemaps.org knows no index of indexes
        is_timed = reading.untimed == 0 and reading.future == 0 and not reading.one_time
        known = [one for one in map(self.book.find, reading.documents) if one is not None and not one.gone]
        if is_timed:
            self._ask([one.url for one in known])
        self.add(
            Document(url, "sitemap", document.url, since=visit.last_visit_s, indexed=is_timed)
            for url in reading.documents
        )


def _is_url(url: str) -> bool:
    """Return whether the scheduler can know a page with this URL."""
    return find_host(url) is not None and len(url.encode("utf-8", "replace")) <= MAX_URL_BYTES


def _to_outcome(visit: Visit) -> Outcome:
    """Return what a visit means for the scheduler of documents: news are entries that are announced."""
    url, at = visit.document.url, visit.at
    if visit.status in _WORDS:
        return Outcome(url, at, _WORDS[visit.status])
    if visit.kind:
        return Outcome(url, at, visit.status, retry_after=visit.retry_after_s)
    if visit.status == 304:
        return Outcome(url, at, 304, moved_to=visit.moved_to)
    if visit.reading is None:
        names = "\n".join(visit.feeds).encode("utf-8", "replace")
        content = int.from_bytes(hashlib.blake2b(names, digest_size=8).digest(), "little")
        return Outcome(url, at, 200, content=content, moved_to=visit.moved_to)
    changed = None if visit.last_visit_s is None else visit.reading.new + visit.reading.changed > 0
    return Outcome(url, at, 200, changed=changed, moved_to=visit.moved_to)
