"""The pages that the service has leased to a crawler: those that wait, and those that are being visited.

A `Frontier` lives in the crawler's thread and never waits. It asks for the next batch while half of the last one is
left, never holds more than a batch that waits, and hands out no more pages, of a host or in all, than the crawler may
have at a time. Each visit has a number, whatever redirects and retries make of its request, and is reported once.
A call for a batch is never abandoned: the service would lease pages that nobody visits. So it has one key until it is
answered, and an end waits for it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from streamsched.api.answers import LeasedBatch, LeasedPage
from streamsched.api.views import Observed
from streamsched.client import AsyncClient, Outcome
from streamsched.connectors.crawlers.service_link import Report, ServiceLink, Then
from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration, parse_lease

_LOG: Final = logging.getLogger("streamsched.crawlers")
_PAUSES_S: Final = (0.25, 0.5, 1.0, 2.0, 5.0)  # after failed calls, on top of the client's own; then always the last
_PAUSE_S: Final = 0.1  # after a batch without pages
_EMPTY_S: Final = 0.5  # ... which is asked for no more often than that
_TOO_MANY: Final = 429
_MOST_UNSENT: Final = 50_000  # outcomes; then no page is handed out until the service takes some
_LEAST_LEFT: Final = 0.25  # of a lease: a page with less is given back in place of being handed out
_MARGIN_S: Final = 1.0  # before a lease ends: another crawler's lease must not be given back
_LINKS_S: Final = 0.25  # that links wait for others
_LINKS: Final = 500  # ... or until this number waits


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
class LeaseSettings:
    """What a crawler asks for, and how it reports.

    ``size``: pages that are leased ahead, 1 to 10,000; ``lease``: for how long; ``wait``: for how long the service
    waits for a page to lease in one request, which closing may have to wait for; ``hosts``, ``per_host``: as for
    `next_batch`; ``in_hand``: the most pages without an outcome in the program's hands; ``limit``: the most pages in
    all; ``follow``: False to end once no page is due.

    ``of_host``: the most pages of a host in the program's hands, 0 for any number. With it, an answer 429 gives those
    of its host back that wait. ``idle_close_s``: after how long without a page to end; ``clock_speed``: seconds of the
    service's clock a second; ``frame``, ``every_s``: how many outcomes make a call, and how long the first one waits.
    """

    size: int = 100
    lease: str | float = "10m"
    wait: str | float = "5s"
    hosts: tuple[str, ...] | None = None
    per_host: int | None = None
    in_hand: int = 1_000
    limit: int | None = None
    follow: bool = True
    of_host: int = 0
    idle_close_s: float | None = None
    clock_speed: float = 1.0
    frame: int = 200
    every_s: float = 0.5

    def __post_init__(self) -> None:
        for name, most in (("size", 10_000), ("in_hand", None), ("limit", None)):
            value = getattr(self, name)
            if value is None and name == "limit":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most and value > most):
                raise SettingsError(name, value, f"1 to {most:,} pages" if most else "1 or more pages")
        parse_duration(self.wait, "wait", zero=True)
        parse_lease(self.lease)


@dataclass(slots=True, eq=False)
class OpenVisit:
    """A visit that is not reported yet. ``page``: as it was leased, None for one that the crawler chose itself.

    ``until_s``: when its lease ends, by the clock that is never set; ``lasts_s``: for how long it was leased.
    """

    number: int
    url: str
    page: LeasedPage | None = None
    host: str = ""
    until_s: float = 0.0
    lasts_s: float = 0.0


@dataclass(slots=True)
class _Asked:
    """A call for a batch; its key stays until it is answered, so that a batch whose answer is lost comes again."""

    key: str
    k: int
    since_s: float  # when it was first sent


class Frontier:
    """Leases pages through `link` and reports their visits. All methods are for the crawler's thread.

    ``clock``: seconds of a clock that is never set; ``wall``: the machine's time; ``is_done``: no page will be asked
    for; ``is_stopping``: since `stop`, until `start`.
    """

    def __init__(
        self,
        link: ServiceLink,
        settings: LeaseSettings,
        around: Surroundings,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251  until the first batch tells the service's time
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_done = self.is_stopping = False
        self.leased = 0
        self._link = link
        self._settings = settings
        self._around = around
        self._wall = wall
        self._clock = clock
        self._anchor: tuple[float, float] | None = None  # the service's time at one of the clock
        self._numbers = count(
            secrets.randbits(40)
        )  # requests of another process that a job directory kept have other numbers
        self._ready: deque[OpenVisit] = deque()
        self._parked: dict[str, deque[OpenVisit]] = {}  # by host, where as many pages as may are being visited
        self._waiting = 0  # ready and parked
        self._visits: dict[int, OpenVisit] = {}  # being visited
        self._active: Counter[str] = Counter()  # pages by host, being visited
        self._asked: _Asked | None = None
        self._is_asking = False
        self._asked_s = self._ask_at_s = 0.0
        self._failures = 0
        self._unsent = 0  # outcomes without an answer
        self._empty_since_s: float | None = None
        self._links: list[str] = []
        self._stopped: Callable[[], None] | None = None  # hears of the end of the call that is under way

    @property
    def waiting(self) -> int:
        """The number of leased pages that wait for their visits."""
        return self._waiting

    @property
    def in_hand(self) -> int:
        """The number of pages that are being visited."""
        return len(self._visits)

    @property
    def has_page(self) -> bool:
        """Whether a page is ready, and the crawler may have another one."""
        return bool(self._ready) and len(self._visits) < self._settings.in_hand and self._unsent < _MOST_UNSENT

    @property
    def has_links(self) -> bool:
        """Whether the service has yet to hear of some link."""
        return bool(self._links) or self._link.has_links

    def now(self) -> float:
        """Return the service's time, UTC epoch seconds: by its last batch; before the first one the machine's."""
        if self._anchor is None:
            return self._wall()
        now, at_s = self._anchor
        return now + (self._clock() - at_s) * self._settings.clock_speed

    def start(self) -> None:
        """Open the link and ask for pages."""
        self._link.start(self._hear, self.note_discovered)
        self.resume()

    def resume(self) -> None:
        """Ask for pages again, after the service had none or after `stop`."""
        self.is_done = self.is_stopping = False
        self._empty_since_s = None
        self.ask()

    def next_visit(self) -> OpenVisit | None:
        """Begin the visit of the best page that may be visited now, None if there is none. Amortised O(1)."""
        visit = self._begin_best()
        self.ask()
        return visit

    def begin_own(self, url: str) -> OpenVisit:
        """Begin the visit of a page that the crawler has chosen itself."""
        return self._begin(OpenVisit(next(self._numbers), url))

    def find(self, number: object) -> OpenVisit | None:
        """Return the visit with this number if it is not reported."""
        return self._visits.get(number) if isinstance(number, int) else None

    def report(self, visit: OpenVisit, outcomes: Sequence[Outcome], then: Then | None = None) -> None:
        """Report the outcomes of a visit and end it; the last one is of the page that has answered.

        `then` is called with whether that page has changed, None if it is not known: at its first visit, if the outcome
        was not applied, or without an answer of the service.
        """
        self._end(visit)
        self._around.count("reported", len(outcomes))
        for outcome in outcomes[:-1]:
            self._send(Report(outcome))
        self._send(Report(outcomes[-1], then))
        if visit.host and self._settings.of_host and outcomes[0].status == _TOO_MANY:  # not where it redirects to
            self._give_back_host(visit.host)

    def give_back(self, visits: Iterable[OpenVisit]) -> None:
        """Give pages back unvisited whose leases last; the others are free already."""
        now_s, now = self._clock(), self.now()
        for visit in visits:
            self._end(visit)
            if visit.page is not None and visit.until_s - now_s > _MARGIN_S:
                self._send(Report(Outcome(visit.url, now, status="not_attempted")))

    def add_link(self, url: str) -> None:
        """Tell the service of a page, soon; a place within it is the same page."""
        self._links.append(url.partition("#")[0])
        if len(self._links) == 1:
            self._around.later(_LINKS_S, self.send_links)
        elif len(self._links) >= _LINKS:
            self.send_links()

    def send_links(self) -> None:
        """Tell the service of the links that wait."""
        links, self._links = self._links, []
        if links:
            self._around.count("discovered", len(links))
            self._link.discover(links)

    def note_discovered(self) -> None:
        """The service has heard of links: one of them may be due."""
        if self.is_done and not (self._settings.follow or self.is_stopping):
            self.resume()

    def ask(self) -> None:
        """Ask for pages if half a batch or less waits, unless a call is under way or it is too early for another."""
        if self._is_asking or self.is_done or self.is_stopping or self._clock() < self._ask_at_s:
            return
        settings = self._settings
        if self._asked is None:
            room = settings.size - self._waiting
            if settings.limit is not None:
                room = min(room, settings.limit - self.leased)
                self.is_done = self.leased >= settings.limit
            if room <= 0 or 2 * self._waiting > settings.size:
                return
            self._asked = _Asked(secrets.token_urlsafe(18), room, self._clock())
        asked, self._is_asking, self._asked_s = self._asked, True, self._clock()

        async def work(client: AsyncClient) -> LeasedBatch:
            return await client.next_batch(
                asked.k,
                lease=settings.lease,
                hosts=settings.hosts,
                per_host=settings.per_host,
                key=asked.key,
                wait=settings.wait,
            )

        self._link.perform(work, self._take)

    def stop(self, within_s: float, then: Callable[[], None]) -> None:
        """Ask for no more pages, and give back those that wait; then call `then`.

        A batch that is on its way is waited for, `within_s` seconds at most, so that its pages are given back too.
        """
        self.is_stopping = True

        def finish() -> None:
            self._stopped = None
            self._give_back_waiting()
            then()

        if self._is_asking:
            self._stopped = finish
            self._around.later(within_s, self._stop_late)
        else:
            finish()

    def finish(self, within_s: float, then: Callable[[Exception | None], None]) -> None:
        """Give back all pages without an outcome, send what waits, and end the link; `then` as in `ServiceLink.finish`.

        Of what is asked for meanwhile nobody hears: call it after `stop`, unless there is no time.
        """
        self.is_stopping, self._is_asking = True, False
        self.send_links()
        self._give_back_waiting()
        self.give_back(list(self._visits.values()))
        self._link.finish(within_s, then)

    def _stop_late(self) -> None:
        """End without the batch that was asked for: the service does not answer."""
        if self._stopped is not None:
            _LOG.warning("a request for pages has no answer: pages that it may have leased wait for their expiry")
            self._stopped()

    def _send(self, report: Report) -> None:
        """Hand an outcome to the link, which sends it with others."""
        self._unsent += 1
        kept = self._link.report(report)
        if kept >= self._settings.frame:
            self._link.send()
        elif kept == 1:
            self._around.later(self._settings.every_s, self._link.send)

    def _end(self, visit: OpenVisit) -> None:
        """End a visit, unless it has ended or not begun."""
        if self._visits.pop(visit.number, None) is None or not visit.host:
            return
        self._active[visit.host] -= 1
        if (parked := self._parked.get(visit.host)) is not None:
            self._ready.appendleft(parked.popleft())
            if not parked:
                del self._parked[visit.host]
        if not self._active[visit.host]:
            del self._active[visit.host]

    def _give_back_waiting(self) -> None:
        self.give_back([*self._ready, *(visit for parked in self._parked.values() for visit in parked)])
        self._ready.clear()
        self._parked.clear()
        self._waiting = 0

    def _give_back_host(self, host: str) -> None:
        """Give the pages of a host back that wait: it has had too many requests, and the service lets it rest.

        They follow that outcome in the same frame: given back before, they would be leased again at once.
        """
        given = [*self._parked.pop(host, ()), *(visit for visit in self._ready if visit.host == host)]
        self._ready = deque(visit for visit in self._ready if visit.host != host)
        self._waiting -= len(given)
        self.give_back(given)
        self._link.send()
        self._pause(_PAUSE_S)  # the service should know before it leases again

    def _begin_best(self) -> OpenVisit | None:
        most = self._settings.of_host
        while self.has_page:
            visit = self._ready.popleft()
            if visit.until_s - self._clock() <= _LEAST_LEFT * visit.lasts_s:
                self._waiting -= 1
                self._around.count("expired")
                self.give_back([visit])
            elif most and self._active[visit.host] >= most:
                self._parked.setdefault(visit.host, deque()).append(visit)
            else:
                self._waiting -= 1
                return self._begin(visit)
        return None

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
            self._add(result)
        if self._stopped is not None:
            self._stopped()

    def _note_failure(self, error: Exception) -> None:
        self._around.count("failed_calls")
        if not getattr(error, "retriable", False):  # another attempt is in vain, as with a token that is not valid
            self.is_done = True
            self._around.fail(error)
            return
        if not self._failures:
            _LOG.warning("the service leases no pages, further attempts follow: %s", error)
        self._pause(_PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)])
        self._failures += 1

    def _add(self, batch: LeasedBatch) -> None:
        assert self._asked is not None
        if not batch.repeated:
            # It was made between the call and now. A time that goes on from the one before keeps a page's outcomes in
            # order: one that seems older than the last is late, and would not end its lease.
            at_s = self._clock()
            latest = batch.now + (at_s - self._asked_s) * self._settings.clock_speed
            known = batch.now if self._anchor is None else self.now()
            self._anchor = min(max(known, batch.now), latest), at_s
        elif self._anchor is None:  # it was leased after it was first asked for
            self._anchor = batch.now, self._asked.since_s
        self._failures, self._asked = 0, None
        now, speed = self.now(), self._settings.clock_speed
        for page in batch.pages:
            until_s = self._clock() + (page.lease_until - now) / speed
            lasts_s = (page.lease_until - batch.now) / speed
            self._ready.append(OpenVisit(next(self._numbers), page.url, page, page.host, until_s, lasts_s))
        self._waiting += len(batch.pages)
        self.leased += len(batch.pages)
        if batch.pages:
            self._around.count("batches")
            self._around.count("leased", len(batch.pages))
            self._empty_since_s = None
            if not self.is_stopping:
                self._around.wake()
        else:
            self._note_nothing()

    def _note_nothing(self) -> None:
        """The service has no page for now: ask again, or end if that has lasted."""
        if self._visits or self._waiting:
            self._empty_since_s = None
        elif self._empty_since_s is None:
            self._empty_since_s = self._clock()
        idle_s = self._settings.idle_close_s
        is_idle = (
            idle_s is not None and self._empty_since_s is not None and self._clock() - self._empty_since_s >= idle_s
        )
        if is_idle or not self._settings.follow:
            self.is_done = True
            self._around.wake()
        else:
            self._pause(max(_PAUSE_S, _EMPTY_S - (self._clock() - self._asked_s)))

    def _pause(self, seconds: float) -> None:
        self._ask_at_s = self._clock() + seconds
        self._around.later(1.01 * seconds, self.ask)

    def _hear(self, reports: Sequence[Report], answer: Observed | None) -> None:
        """Take the answer to a call with outcomes, None if there will be none."""
        is_full = self._unsent >= _MOST_UNSENT
        self._unsent -= len(reports)
        self._count(answer)
        verdicts: dict[int, bool] = {}
        if answer is not None:  # that of an older service has no positions
            verdicts |= dict.fromkeys(answer.unchanged or (), False) | dict.fromkeys(answer.positions or (), True)
        for position, report in enumerate(reports):
            if report.then is not None:
                report.then(verdicts.get(position))
        if is_full and self._unsent < _MOST_UNSENT:
            self._around.wake()

    def _count(self, answer: Observed | None) -> None:
        if answer is None:
            self._around.count("failed_calls")
            return
        self._around.count("outcomes/applied", answer.applied - answer.not_attempted)
        self._around.count("released", answer.not_attempted)
        for name in ("changed", "first_visits", "failures", "duplicates", "late", "refused", "rejected"):
            self._around.count(f"outcomes/{name}", getattr(answer, name))
