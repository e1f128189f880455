"""PutURLs: discovered URLs are discoveries, known ones are outcomes, by names in their metadata.

What has arrived on a stream is applied in one call of the scheduler, and acknowledged once it is on disk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

import numpy as np

from streamsched.frontier.messages import message
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import NEVER_S, ROBOTS_DENIED, OutcomeBatch, OutcomeEvent
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.http_settings import DEFAULT_CRAWL

URL_ITEM: Final = message("urlfrontier.URLItem")
ACK: Final = message("urlfrontier.AckMessage")
OK, SKIPPED, FAIL = 0, 1, 2

# Names in the metadata of known items. docs/url-frontier.md lists them.
STATUS: Final = "fetch.statusCode"
SIGNATURE: Final = "signature"
FETCHED_AT: Final = "lastProcessedDate"
MOVED_TO: Final = "_redirTo"
ETAG: Final = "protocol.etag"
LAST_MODIFIED: Final = "protocol.last-modified"
RETRY_AFTER: Final = "protocol.retry-after"
ERROR_CAUSE: Final = "error.cause"
ERROR_COUNT: Final = "fetch.error.count"
_ROBOTS: Final = "robots.txt"  # an error cause: robots.txt forbids the page
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MOST_STATUS: Final = 999
LAST_DATE_S: Final = 253_402_300_799  # the end of the year 9999: what is later is in other units, as milliseconds


class Part:
    """The items of one crawl. ``outcomes``, ``discovered``: those to apply; `statuses`: of all items, by place."""

    def __init__(self, statuses: list[int]) -> None:
        self.outcomes: list[OutcomeEvent] = []
        self.discovered: list[str] = []
        self._statuses = statuses
        self._known: list[int] = []  # places of the outcomes
        self._found: list[int] = []  # places of the discoveries

    def add_discovered(self, place: int, url: str) -> None:
        """Add a discovery."""
        self._found.append(place)
        self.discovered.append(url)

    def add_known(self, place: int, outcome: OutcomeEvent) -> None:
        """Add an outcome."""
        self._known.append(place)
        self.outcomes.append(outcome)

    def fail(self) -> None:
        """Let those items be sent again that have been taken."""
        for place in (*self._found, *self._known):
            if self._statuses[place] == OK:
                self._statuses[place] = FAIL

    def apply(self, scheduler: DurableScheduler, now: float) -> None:
        """Apply the items."""
        if self.discovered:
            self._discover(scheduler, now)
        if self.outcomes:
            self._observe(scheduler)

    def _discover(self, scheduler: DurableScheduler, now: float) -> None:
        core = scheduler.core
        packed = PackedUrls.pack(self.discovered)
        with core.lock:
            new = core.pages.find(packed) < 0
            added = scheduler.discover(packed, now=now).added
            if added == len(packed):
                return
            new &= core.pages.find(packed) >= 0
        seen: set[str] = set()
        for place, url, is_new in zip(self._found, self.discovered, new.tolist(), strict=True):
            if not is_new or url in seen:  # known before, refused, or no URL
                self._statuses[place] = SKIPPED
            seen.add(url)

    def _observe(self, scheduler: DurableScheduler) -> None:
        batch = OutcomeBatch.from_events(self.outcomes)
        wrong = scheduler.core.url_rule.check(batch, batch.problems())
        left_out = {problem.record for problem in wrong}
        for record in left_out:
            self._statuses[self._known[record]] = SKIPPED
        right = [record for record in range(len(batch)) if record not in left_out] if wrong else None
        scheduler.observe(batch if right is None else batch.take(np.array(right, np.intp)))


class Items:
    """The items of some messages of a stream, and how each is acknowledged.

    `keeps_dates`: whether known ones name the earliest time of the next visit. ``parts``: by crawl; ``unproven``: how
    many known ones show no state of the page; ``foreign``: how many are of crawls that are not served;
    ``misdated``: how many have dates that are not in seconds, which are not obeyed.
    """

    def __init__(self, crawls: Collection[str], now: float, *, keeps_dates: bool) -> None:
        self.parts: dict[str, Part] = {}
        self.unproven = 0
        self.foreign = 0
        self.misdated = 0
        self._crawls = crawls
        self._now = now
        self._keeps_dates = keeps_dates
        self._names: list[str] = []
        self._statuses: list[int] = []

    def add(self, raw: bytes) -> None:
        """Add a message. Raises DecodeError if it is none."""
        item = URL_ITEM.FromString(raw)
        kind = item.WhichOneof("item")
        holder = item.discovered if kind == "discovered" else item.known
        info = holder.info
        url = info.url
        place = len(self._names)
        self._names.append(item.ID or url)
        if not url:
            self._statuses.append(SKIPPED)
            return
        crawl = name_of(info.crawlID)
        if crawl not in self._crawls:
            self._statuses.append(FAIL)
            self.foreign += 1
            return
        self._statuses.append(OK)
        part = self.parts.get(crawl)
        if part is None:
            part = self.parts[crawl] = Part(self._statuses)
        if kind == "discovered":
            part.add_discovered(place, url)
        else:
            outcome = read_outcome(url, info.metadata, self._now, self._read_date(holder.refetchable_from_date))
            self.unproven += outcome.status is None and outcome.content is None
            part.add_known(place, outcome)

    def _read_date(self, date: int) -> float | None:
        """Return the `not_before` of a known item with this date."""
        if not date:
            return NEVER_S
        if not self._keeps_dates:
            return None
        if date > LAST_DATE_S:
            self.misdated += 1
            return None
        return min(float(date), NEVER_S)

    def acknowledge(self) -> list[bytes]:
        """Return the acknowledgements."""
        return [
            ACK(ID=name, status=status).SerializeToString()
            for name, status in zip(self._names, self._statuses, strict=True)
        ]


def name_of(given: str) -> str:
    """Return the crawl that the crawl ID `given` names: an empty one names the default crawl."""
    return given.strip() or DEFAULT_CRAWL


def read_outcome(url: str, metadata: Any, now: float, not_before: float | None = None) -> OutcomeEvent:
    """Return the outcome in the metadata of a known item that has arrived at `now`.

    >>> one = {"fetch.statusCode": message("urlfrontier.StringList")(values=["304"])}
    >>> read_outcome("https://a.example/", one, 5.0).status
    304
    """
    if not metadata:
        return OutcomeEvent(url, now, not_before=not_before)

    def first(name: str) -> str | None:
        texts = metadata.get(name)
        values = () if texts is None else texts.values
        return values[0] if values else None

    signature = first(SIGNATURE)
    hashed = hashlib.blake2b(signature.encode(), digest_size=8).digest() if signature else None
    return OutcomeEvent(
        url,
        _read_time(first(FETCHED_AT), now),
        status=_read_status(first),
        content=None if hashed is None else int.from_bytes(hashed),
        moved_to=first(MOVED_TO) or None,
        etag=first(ETAG),
        last_modified=first(LAST_MODIFIED),
        retry_after=_read_number(first(RETRY_AFTER)),
        not_before=not_before,
    )


def _read_status(first: Callable[[str], str | None]) -> int | None:
    status = _read_number(first(STATUS))
    if status is not None and status <= _MOST_STATUS:
        return int(status)
    cause = first(ERROR_CAUSE)
    if cause == _ROBOTS:
        return ROBOTS_DENIED
    return None if cause is None and first(ERROR_COUNT) is None else 0


def _read_number(text: str | None) -> float | None:
    return float(text) if text is not None and _NUMBER.fullmatch(text.strip()) else None


def _read_time(text: str | None, now: float) -> float:
    """Return the time in `text`, `now` if it has none or a later one."""
    if text is None:
        return now
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now
    return min(moment.timestamp(), now) if moment.tzinfo is not None and moment.year > 1970 else now
