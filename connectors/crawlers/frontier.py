"""The pages that the service has leased to a crawler: those that wait, and those that are being visited.

A `Frontier` lives in the crawler's thread and never waits. It asks for the next batch while half of the last one is
left, never holds more than a batch that waits, and hands out no more pages of a host at a time than the crawler visits.
Each visit has a number, whatever redirects and retries make of its request, and is reported once.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from streamsched.api.answers import LeasedBatch, LeasedPage
from streamsched.api.views import Observed
from streamsched.client import AsyncClient, Outcome
from streamsched.connectors.crawlers.service_link import ServiceLink, is_final

_LOG: Final = logging.getLogger("streamsched.crawlers")
_WAIT: Final = "2s"  # of a call for the service's next page: also the longest that a stop waits for it
_PAUSES_S: Final = (0.25, 0.5, 1.0, 2.0, 5.0)  # after failed calls, on top of the client's own; then always the last
_PAUSE_S: Final = 0.1  # after a batch without pages
_TOO_MANY: Final = 429
_MOST_SEEN: Final = 1_000_000  # pages that are known to have evidence from a visit: 60 MB


class Surroundings(Protocol):
    """What a frontier uses of its crawler."""

    def count(self, name: str, number: int = 1, /) -> None:
        """Add to a figure."""

    def wake(self) -> None:
        """Let the crawler ask for pages soon: there are some again."""

    def later(self, seconds: float, call: Callable[[], None], /) -> None:
        """Call a function after some seconds, in the crawler's thread."""

    def fail(self, error: Exception, /) -> None:
        """Hear that the service will lease no page to this crawler."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How pages are leased and reported.

    ``pages``: the most in all, 0 for any number; ``active``: of a host at a time, 0 for any; ``frame``, ``every_s``:
    how many outcomes make a call, and for how long the first of them waits.
    """

    batch: int
    lease_s: float
    hosts: Sequence[str] | None = None
    per_host: int | None = None
    pages: int = 0
    active: int = 0
    idle_close_s: float | None = None
    clock_speed: float = 1.0
    frame: int = 100
    every_s: float = 0.2


@dataclass(slots=True, eq=False)
class OpenVisit:
    """A visit that is not reported yet. ``page``: as it was leased, None for one that the crawler chose itself."""

    number: int
    url: str
    page: LeasedPage | None = None
    host: str = ""
    until_s: float = 0.0  # of the clock that is never set, when its lease ends


class ServiceTime:
    """The service's time, by the last batch and the seconds since; before the first batch the machine's.

    ``speed``: seconds of the service's clock a second.
    """

    def __init__(self, speed: float, wall: Callable[[], float], clock: Callable[[], float]) -> None:
        self._speed = speed
        self._wall = wall
        self._clock = clock
        self._anchor: tuple[float, float] | None = None

    def read(self) -> float:
        """Return the present, UTC epoch seconds."""
        if self._anchor is None:
            return self._wall()
        now, at_s = self._anchor
        return now + (self._clock() - at_s) * self._speed

    def set(self, now: float, *, is_old: bool) -> None:
        """Learn the time of a batch that has just come; `is_old`: it may have been leased long ago."""
        if not is_old or self._anchor is None:
            self._anchor = now, self._clock()


@dataclass(slots=True)
class _Asked:
    """A call for a batch; its key stays until it is answered, so that a batch whose answer is lost comes again."""

    key: str
    k: int


@dataclass(slots=True)
class _Seen:
    """Hashes of the URLs whose last visit the service knows with a content: another visit shows a change or none."""

    hashes: set[int] = field(default_factory=set[int])

    def note(self, outcome: Outcome) -> None:
        if outcome.content is None:
            self.hashes.discard(hash(outcome.url))
            return
        if len(self.hashes) >= _MOST_SEEN:
            self.hashes.clear()
        self.hashes.add(hash(outcome.url))

    def __contains__(self, outcome: Outcome) -> bool:
        return hash(outcome.url) in self.hashes


class Frontier:
    """Leases pages through `link` and reports their visits. All methods are for the crawler's thread.

    ``clock``: seconds of a clock that is never set; ``time``: the service's.
    """

    def __init__(
        self,
        link: ServiceLink,
        limits: Limits,
        around: Surroundings,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.time = ServiceTime(limits.clock_speed, wall, clock)
        self.is_done = False
        self._link = link
        self._limits = limits
        self._around = around
        self._clock = clock
        self._number = secrets.randbits(40)  # requests of another process that a job directory kept have other numbers
        self._ready: deque[OpenVisit] = deque()
        self._parked: dict[str, deque[OpenVisit]] = {}  # by host, where as many pages as may are being visited
        self._waiting = 0  # ready and parked
        self._visits: dict[int, OpenVisit] = {}  # being visited
        self._active: Counter[str] = Counter()  # pages by host, being visited
        self._leased = 0
        self._asked: _Asked | None = None
        self._is_asking = False
        self._ask_at_s = 0.0
        self._failures = 0
        self._empty_since_s: float | None = None
        self._seen = _Seen()
        self._finish: Callable[[], None] | None = None

    @property
    def waiting(self) -> int:
        """The number of leased pages that wait for their visits."""
        return self._waiting

    @property
    def unvisited(self) -> list[str]:
        """The leased pages without an outcome. O(pages)."""
        waiting = [*self._ready, *(visit for parked in self._parked.values() for visit in parked)]
        return [visit.url for visit in (*waiting, *self._visits.values()) if visit.page is not None]

    def next_visit(self) -> OpenVisit | None:
        """Begin the visit of the best page that may be visited now, None if there is none. Amortised O(1)."""
        self.ask()
        while self._ready:
            visit = self._ready.popleft()
            if self._clock() >= visit.until_s:
                self._waiting -= 1
                self._around.count("expired")
            elif self._limits.active and self._active[visit.host] >= self._limits.active:
                self._parked.setdefault(visit.host, deque()).append(visit)
            else:
                self._waiting -= 1
                return self._begin(visit)
        return None

    def begin_own(self, url: str) -> OpenVisit:
        """Begin the visit of a page that the crawler has chosen itself."""
        return self._begin(self._make(url))

    def find(self, number: object) -> OpenVisit | None:
        """Return the visit with this number if it is not reported."""
        return self._visits.get(number) if isinstance(number, int) else None

    def report(self, visit: OpenVisit, outcomes: Sequence[Outcome], then: Callable[[bool | None], None]) -> None:
        """Report the outcomes of a visit and end it; the last one is of the page that has answered.

        `then` is called with whether that page has changed, None if it is not known: at its first visit, or without an
        answer of the service.
        """
        self.end(visit)
        self._around.count("reported", len(outcomes))
        for number, outcome in enumerate(outcomes, 1):
            kept = self._link.report(outcome, self._reader(outcome, then if number == len(outcomes) else _ignore))
            if kept >= self._limits.frame:
                self._link.send()
            elif kept == 1:
                self._around.later(self._limits.every_s, self._link.send)
        if visit.host and outcomes[0].status == _TOO_MANY:  # not of the page that it redirects to
            self._give_back(visit.host)

    def end(self, visit: OpenVisit) -> None:
        """End a visit without an outcome, unless it has ended."""
        if self._visits.pop(visit.number, None) is None or not visit.host:
            return
        self._active[visit.host] -= 1
        if (parked := self._parked.get(visit.host)) is not None:
            self._ready.appendleft(parked.popleft())
            if not parked:
                del self._parked[visit.host]
        if not self._active[visit.host]:
            del self._active[visit.host]

    def discover(self, urls: Iterable[str]) -> None:
        """Tell the service of pages."""
        found = list(urls)
        self._around.count("discovered", len(found))
        self._link.discover(found)

    def ask(self) -> None:
        """Ask for pages if half a batch or less waits, unless a call is under way or it is too early for another."""
        if self._is_asking or self.is_done or self._finish is not None or self._clock() < self._ask_at_s:
            return
        limits = self._limits
        room = limits.batch - self._waiting
        if self._asked is None:
            if limits.pages:
                room = min(room, limits.pages - self._leased)
            if room <= 0:
                self.is_done = bool(limits.pages) and self._leased >= limits.pages
                return
            if 2 * self._waiting > limits.batch:
                return
            self._asked = _Asked(secrets.token_urlsafe(18), room)
        asked, self._is_asking = self._asked, True

        async def work(client: AsyncClient) -> LeasedBatch:
            return await client.next_batch(
                asked.k,
                lease=limits.lease_s,
                hosts=limits.hosts,
                per_host=limits.per_host,
                key=asked.key,
                wait=_WAIT,
            )

        self._link.perform(work, self._take)

    def close(self, within_s: float, then: Callable[[int | Exception], None]) -> None:
        """Give all pages back that have no outcome, and end the link; `then` as in `ServiceLink.finish`.

        A batch that is on its way is waited for, so that its pages are given back too.
        """
        until_s = self._clock() + within_s

        def finish() -> None:
            self._finish = _nothing
            self._link.finish(self.unvisited, max(1.0, until_s - self._clock()), then)

        if self._is_asking:
            self._finish = finish
            self._around.later(within_s / 2, self._finish_late)
        else:
            finish()

    def _finish_late(self) -> None:
        """End without the batch that was asked for: the service does not answer."""
        if self._is_asking and self._finish is not None:
            self._is_asking = False
            self._finish()

    def _give_back(self, host: str) -> None:
        """Give the pages of a host back that wait: it has had too many requests, and the service lets it rest.

        They follow that outcome in the same frame: given back before, they would be leased again at once.
        """
        given = [*self._parked.pop(host, ()), *(visit for visit in self._ready if visit.host == host)]
        self._ready = deque(visit for visit in self._ready if visit.host != host)
        self._waiting -= len(given)
        for visit in given:
            outcome = Outcome(visit.url, self.time.read(), status="not_attempted")
            self._link.report(outcome, self._reader(outcome, _ignore))
        self._link.send()

    def _make(self, url: str, page: LeasedPage | None = None, until_s: float = 0.0) -> OpenVisit:
        self._number += 1
        return OpenVisit(self._number, url, page, "" if page is None else page.host, until_s)

    def _begin(self, visit: OpenVisit) -> OpenVisit:
        self._visits[visit.number] = visit
        if visit.host:
            self._active[visit.host] += 1
        return visit

    def _take(self, result: LeasedBatch | Exception) -> None:
        """Take the answer to a call for pages."""
        self._is_asking = False
        if isinstance(result, Exception):
            self._note_failure(result)
        else:
            self._failures, self._asked = 0, None
            self._add(result)
        if self._finish is not None:
            self._finish()

    def _note_failure(self, error: Exception) -> None:
        self._around.count("failed_calls")
        if is_final(error):
            self.is_done = True
            self._around.fail(error)
            return
        if not self._failures:
            _LOG.warning("the service leases no pages, further attempts follow: %s", error)
        self._pause(_PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)])
        self._failures += 1

    def _add(self, batch: LeasedBatch) -> None:
        self.time.set(batch.now, is_old=batch.repeated)
        now = self.time.read()
        for page in batch.pages:
            until_s = self._clock() + (page.lease_until - now) / self._limits.clock_speed
            self._ready.append(self._make(page.url, page, until_s))
        self._waiting += len(batch.pages)
        self._leased += len(batch.pages)
        if batch.pages:
            self._around.count("batches")
            self._around.count("leased", len(batch.pages))
            self._empty_since_s = None
            if self._finish is None:
                self._around.wake()
        else:
            self._note_nothing()

    def _note_nothing(self) -> None:
        """The service has no page for now: ask again, or end if that has lasted."""
        if self._visits or self._waiting:
            self._empty_since_s = None
        elif self._empty_since_s is None:
            self._empty_since_s = self._clock()
        idle_s = self._limits.idle_close_s
        if idle_s is not None and self._empty_since_s is not None and self._clock() - self._empty_since_s >= idle_s:
            self.is_done = True
        else:
            self._pause(_PAUSE_S)

    def _pause(self, seconds: float) -> None:
        self._ask_at_s = self._clock() + seconds
        self._around.later(1.01 * seconds, self.ask)

    def _reader(self, outcome: Outcome, then: Callable[[bool | None], None]) -> Any:
        """Return a function that reads from the service's answer whether the page of `outcome` has changed."""

        def read(position: int, answer: Observed | None) -> None:
            if position == 0:
                self._count(answer)
            then(self._verdict(outcome, position, answer))

        return read

    def _verdict(self, outcome: Outcome, position: int, answer: Observed | None) -> bool | None:
        if answer is None or answer.positions is None:
            return None
        was_seen = outcome in self._seen
        self._seen.note(outcome)
        if position in answer.positions:
            return True
        if answer.duplicates or answer.late or answer.refused or answer.rejected:  # perhaps this one
            return None
        if outcome.status == 304:
            return False
        is_compared = was_seen or not (answer.first_visits or answer.unproven)
        return False if is_compared and outcome.content is not None else None

    def _count(self, answer: Observed | None) -> None:
        if answer is None:
            self._around.count("failed_calls")
            return
        self._around.count("outcomes/applied", answer.applied - answer.not_attempted)
        self._around.count("released", answer.not_attempted)
        for name in ("changed", "first_visits", "failures", "duplicates", "late", "refused", "rejected"):
            self._around.count(f"outcomes/{name}", getattr(answer, name))


def _ignore(_changed: bool | None) -> None: ...


def _nothing() -> None: ...
