"""The frontier of a crawler, with a service and a clock that the tests set."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from streamsched.api.answers import LeasedBatch, LeasedPage
from streamsched.api.views import Observed
from streamsched.client import AccessDenied, Outcome, ServiceUnavailable
from streamsched.connectors.crawlers.frontier import Frontier, LeaseSettings, OpenVisit
from streamsched.connectors.crawlers.service_link import Report

NOW = 1_755_820_800.0


def pages(*urls: str, lease_s: float = 600.0, repeated: bool = False, now: float = NOW) -> LeasedBatch:
    leased = [
        LeasedPage(
            url=url,
            host=url.split("/")[2],
            score=1.0,
            tier=0,
            probability=0.5,
            lease_until=now + lease_s,
            why="in_batch_by_score",
        )
        for url in urls
    ]
    return LeasedBatch(pages=leased, now=now, repeated=repeated)


class Service:
    """A `ServiceLink` and what a frontier uses of its crawler: tests answer the calls."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.counts: Counter[str] = Counter()
        self.woken = 0
        self.failed: Exception | None = None
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.asked: list[dict[str, Any]] = []
        self.reports: list[Report] = []
        self.discovered: list[list[str]] = []
        self.has_finished = self.has_links = False
        self._waiting: list[Callable[[Any], None]] = []

    # What a link does

    def perform(self, work: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        asyncio.run(work(self))
        self._waiting.append(then)

    def start(self, on_answer: Any, _on_discovered: Any) -> None:
        self.on_answer = on_answer

    def report(self, report: Report) -> int:
        self.reports.append(report)
        return len(self.reports)

    def send(self) -> None: ...

    def discover(self, urls: list[str]) -> None:
        self.discovered.append(urls)

    def finish(self, _within_s: float, then: Callable[[Any], None]) -> None:
        self.has_finished = True
        then(None)

    # What its client does

    async def next_batch(self, k: int, **named: Any) -> None:
        self.asked.append({"k": k, **named})

    # What a crawler does

    def count(self, name: str, number: int = 1, /) -> None:
        self.counts[name] += number

    def wake(self) -> None:
        self.woken += 1

    def later(self, seconds: float, call: Callable[[], None], /) -> None:
        self.timers.append((self.now_s + seconds, call))

    def fail(self, error: Exception, /) -> None:
        self.failed = error

    # What tests do

    @property
    def given_back(self) -> list[str]:
        return [report.outcome.url for report in self.reports if report.outcome.status == "not_attempted"]

    def answer(self, result: LeasedBatch | Exception) -> None:
        self._waiting.pop(0)(result)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.now_s]
        for _, call in due:
            call()


@pytest.fixture
def service() -> Service:
    return Service()


def frontier_of(service: Service, **limits: Any) -> Frontier:
    named: dict[str, Any] = {"size": 4, "wait": "2s", **limits}
    link: Any = service
    frontier = Frontier(link, LeaseSettings(**named), service, wall=lambda: NOW, clock=lambda: service.now_s)
    frontier.start()
    return frontier


def begun(frontier: Frontier) -> list[OpenVisit]:
    found = []
    while (visit := frontier.next_visit()) is not None:
        found.append(visit)
    return found


A = [f"https://a.example/{number}" for number in range(6)]
B = [f"https://b.example/{number}" for number in range(6)]


def test_the_next_batch_is_asked_for_when_half_is_left_and_never_more_than_one_waits(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(*A[:4]))
    assert service.woken == 1
    assert len(service.asked) == 1
    for left in (3, 2, 1):
        frontier.next_visit()
        assert frontier.waiting == left
        frontier.ask()
        assert len(service.asked) == (1 if left > 2 else 2)
    assert service.asked[1]["k"] == 2
    service.answer(pages(*B[:2]))
    assert frontier.waiting == 3


def test_a_batch_whose_answer_is_lost_is_asked_for_with_the_same_key(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(ServiceUnavailable("POST", "away"))
    frontier.ask()
    assert len(service.asked) == 1  # not at once
    service.pass_time(0.3)
    assert [asked["key"] for asked in service.asked] == [service.asked[0]["key"]] * 2
    service.answer(pages(*A[:1]))
    frontier.next_visit()
    frontier.ask()
    assert service.asked[2]["key"] != service.asked[1]["key"]
    assert service.counts["failed_calls"] == 1


def test_a_refusal_ends_the_asking(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(AccessDenied("POST", "no token", 401))
    assert frontier.is_done
    assert isinstance(service.failed, AccessDenied)
    service.pass_time(100.0)
    assert len(service.asked) == 1


def test_no_more_pages_of_a_host_are_visited_at_a_time_and_others_are_not_held_up(service: Service) -> None:
    frontier = frontier_of(service, size=8, of_host=2)
    service.answer(pages(*A[:4], *B[:2]))
    visits = begun(frontier)
    assert [visit.url for visit in visits] == [*A[:2], *B[:2]]
    frontier.report(visits[0], [Outcome(A[0], NOW)])
    assert [visit.url for visit in begun(frontier)] == [A[2]]


def test_pages_whose_lease_has_ended_are_not_visited(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(*A[:2], lease_s=10.0))
    assert frontier.next_visit() is not None
    service.now_s += 10.0
    assert frontier.next_visit() is None
    assert (service.counts["expired"], frontier.waiting) == (1, 0)


def test_pages_with_less_than_a_quarter_of_their_lease_are_given_back_and_others_asked_for(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(*A[:4], lease_s=100.0))
    service.now_s += 76.0
    assert frontier.next_visit() is None
    assert service.given_back == A[:4]
    assert [asked["k"] for asked in service.asked] == [4, 4]


def test_pages_whose_lease_may_be_another_crawlers_are_not_given_back(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(*A[:2], lease_s=100.0))
    assert frontier.next_visit() is not None
    service.now_s += 99.5
    frontier.finish(1.0, lambda _: None)
    assert service.given_back == []


def test_a_first_batch_that_is_repeated_was_leased_when_it_was_first_asked_for(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(ServiceUnavailable("POST", "away"))
    service.pass_time(30.0)
    service.answer(pages(A[0], lease_s=100.0, repeated=True))
    assert frontier.now() == NOW + 30.0
    service.now_s += 50.0
    assert frontier.next_visit() is None


def test_no_more_pages_are_in_hand_than_the_settings_allow(service: Service) -> None:
    frontier = frontier_of(service, in_hand=2)
    service.answer(pages(*A[:4]))
    first, _ = begun(frontier)
    assert not frontier.has_page
    frontier.report(first, [Outcome(A[0], NOW)])
    assert len(begun(frontier)) == 1


def test_pages_wait_while_too_many_outcomes_are_unsent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.connectors.crawlers.frontier._MOST_UNSENT", 2)
    frontier = frontier_of(service)
    service.answer(pages(*A[:4]))
    for url in A[:2]:
        visit = frontier.next_visit()
        assert visit is not None
        frontier.report(visit, [Outcome(url, NOW)])
    woken = service.woken
    assert frontier.next_visit() is None
    service.on_answer(service.reports, Observed(applied=2, first_visits=2, positions=[]))
    assert service.woken == woken + 1
    assert frontier.next_visit() is not None


def test_links_go_in_groups_and_may_be_visited_by_a_crawler_that_had_nothing_left(service: Service) -> None:
    frontier = frontier_of(service, follow=False)
    service.answer(pages())
    assert frontier.is_done
    for url in (A[0], f"{A[1]}#part"):
        frontier.add_link(url)
    assert frontier.has_links
    service.pass_time(1.0)
    assert service.discovered == [A[:2]]
    frontier.note_discovered()
    assert not frontier.is_done
    assert len(service.asked) == 2


def test_a_host_with_too_many_requests_gets_its_pages_back(service: Service) -> None:
    frontier = frontier_of(service, size=8, of_host=1)
    service.answer(pages(*A[:3], *B[:2]))
    visits = begun(frontier)
    frontier.report(visits[0], [Outcome(A[0], NOW, status=429)])
    first, *others = [(report.outcome.url, report.outcome.status) for report in service.reports]
    assert first == (A[0], 429)
    assert sorted(others) == [(A[1], "not_attempted"), (A[2], "not_attempted")]
    assert frontier.waiting == 1
    frontier.finish(1.0, lambda _: None)
    assert service.given_back[2:] == [B[1], B[0]]


def test_a_visit_is_found_until_it_is_reported(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(A[0]))
    (visit,) = begun(frontier)
    assert frontier.find(visit.number) is visit
    frontier.report(visit, [Outcome(A[0], NOW)])
    assert frontier.find(visit.number) is None
    assert frontier.find("1") is frontier.find(None) is None


def test_the_end_gives_back_what_has_no_outcome_and_waits_for_a_batch_on_its_way(service: Service) -> None:
    frontier = frontier_of(service)
    service.answer(pages(*A[:3]))
    frontier.next_visit()
    frontier.begin_own("https://own.example/")
    frontier.ask()
    ended: list[Exception | None] = []
    frontier.stop(5.0, lambda: frontier.finish(5.0, ended.append))
    assert not service.has_finished
    service.answer(pages(*B[:1]))
    assert service.has_finished
    assert sorted(service.given_back) == [*A[:3], B[0]]
    assert ended == [None]
    frontier.ask()
    assert len(service.asked) == 2


def test_an_outage_is_one_warning(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    frontier_of(service)
    for _ in range(3):
        service.answer(ServiceUnavailable("POST", "away"))
        service.pass_time(6.0)
    assert len(service.asked) == 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_end_does_not_wait_long_for_a_service_that_is_away(service: Service) -> None:
    frontier = frontier_of(service)
    frontier.stop(5.0, lambda: frontier.finish(5.0, lambda _: None))
    assert not service.has_finished
    service.pass_time(5.0)
    assert service.has_finished


@pytest.mark.parametrize(
    ("answer", "changed"),
    [
        (
            Observed(applied=1, changed=1, first_visits=1, late=1, positions=[0], unchanged=[3]),
            [True, None, None, False],
        ),
        (Observed(late=1), [None] * 4),
        (None, [None] * 4),
    ],
)
def test_each_outcome_has_a_verdict_of_its_own(
    service: Service, answer: Observed | None, changed: list[bool | None]
) -> None:
    frontier = frontier_of(service)
    verdicts: list[bool | None] = []
    for url in A[:4]:
        frontier.report(frontier.begin_own(url), [Outcome(url, NOW, content=1)], verdicts.append)
    service.on_answer(service.reports, answer)
    assert verdicts == changed


def test_it_ends_after_its_pages_or_once_nothing_was_due_for_a_while(service: Service) -> None:
    frontier = frontier_of(service, limit=3)
    assert service.asked[0]["k"] == 3
    service.answer(pages(*A[:3]))
    begun(frontier)
    assert frontier.is_done
    patient = frontier_of(service, idle_close_s=5.0)
    for _ in range(4):
        assert not patient.is_done
        service.answer(pages())
        service.pass_time(2.0)
    assert patient.is_done


def test_its_time_is_that_of_the_service(service: Service) -> None:
    frontier = frontier_of(service, clock_speed=10.0)
    assert frontier.now() == NOW
    service.answer(pages(A[0], now=NOW + 1_000.0))
    service.now_s += 2.0
    assert frontier.now() == NOW + 1_020.0


def test_an_answer_that_was_long_on_its_way_does_not_set_its_time_back(service: Service) -> None:
    """Else a page that was given back and leased again could not be given back once more before that time."""
    frontier = frontier_of(service, size=1)
    service.answer(pages(A[0], now=NOW + 1_000.0))
    begun(frontier)
    service.now_s += 3.0
    service.answer(pages(A[1], now=NOW + 1_000.5))  # made half a second after the call
    assert frontier.now() == NOW + 1_003.0
    begun(frontier)
    service.now_s += 1.0
    service.answer(pages(A[2], now=NOW + 900.0))  # the service's clock was set back
    assert frontier.now() == NOW + 901.0
