"""The link of a frontier to its service: one that starts late, dies, comes back, is away, or refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamsched.api.views import Observed
from streamsched.client import AccessDenied, AsyncClient, Outcome, ServiceUnavailable
from streamsched.connectors.crawlers import service_link
from streamsched.connectors.crawlers.service_link import Report, ServiceLink, shared_loop

OUTCOMES = [Outcome(f"https://a.example/{number}", 1_755_820_800.0) for number in range(4)]
AWAY = ServiceUnavailable("POST", "away")
REFUSED = AccessDenied("POST", "the token has expired", 401)


class Service:
    """A service, and what connects to it; ``error``: what its calls raise."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.observed: list[Outcome] = []
        self.discovered: list[str] = []
        self.connections = self.calls = 0
        self.answers: list[tuple[list[Outcome], Observed | None]] = []
        self.starts = asyncio.Event()
        self.starts.set()

    def _answer(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error

    async def observe(self, outcomes: Sequence[Outcome], *, positions: bool) -> Observed:
        assert positions
        self._answer()
        self.observed += outcomes
        return Observed(applied=len(outcomes), positions=[])

    async def discover(self, urls: Sequence[str]) -> None:
        self._answer()
        self.discovered += urls

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        await self.starts.wait()
        self.connections += 1
        try:
            yield self
        finally:
            self.connections -= 1

    def hear(self, reports: Sequence[Report], answer: Observed | None) -> None:
        self.answers.append(([report.outcome for report in reports], answer))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_link, "_PAUSES_S", (0.001,))


def begun(service: Service) -> ServiceLink:
    link = ServiceLink(service.connected, positions=True)
    link.start(service.hear, lambda: None)
    return link


async def ended(link: ServiceLink, within_s: float = 10.0) -> Exception | None:
    """Return what the end of a link reports. It leaves no task."""
    told: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    link.finish(within_s, told.set_result)
    error = await told
    while asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.sleep(0)
    return error


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10.0):
        while not holds():
            await asyncio.sleep(0.001)


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@in_a_loop
async def test_what_is_reported_before_the_service_has_started_is_sent_then() -> None:
    service = Service()
    service.starts.clear()
    link = begun(service)
    assert [link.report(Report(outcome)) for outcome in OUTCOMES[:2]] == [1, 2]
    link.send()
    link.discover(["https://b.example/"])
    await asyncio.sleep(0.01)
    assert (service.calls, len(link.unsent), link.has_links) == (0, 2, True)
    service.starts.set()
    await link.flush()
    await link.discovered()
    assert (service.observed, service.discovered) == (OUTCOMES[:2], ["https://b.example/"])
    assert (link.unsent, link.has_links) == ([], False)
    assert await ended(link) is None
    assert [outcomes for outcomes, _ in service.answers] == [OUTCOMES[:2]]
    assert service.connections == 0


@in_a_loop
async def test_a_service_that_does_not_start_is_the_error_of_each_call() -> None:
    @asynccontextmanager
    async def connected() -> AsyncIterator[AsyncClient]:
        raise AWAY
        yield

    service = Service()
    link = ServiceLink(connected, positions=True)
    link.start(service.hear, lambda: None)
    link.report(Report(OUTCOMES[0]))
    heard: list[object] = []

    async def work(_: AsyncClient) -> int:
        return 1

    link.perform(work, heard.append)
    await until(lambda: heard)
    with pytest.raises(ServiceUnavailable):
        await link.flush()
    assert heard == [AWAY]
    assert await ended(link) is AWAY
    assert link.unsent == OUTCOMES[:1]


@in_a_loop
async def test_a_service_that_dies_gets_all_once_it_is_back() -> None:
    service = Service()
    link = begun(service)
    link.report(Report(OUTCOMES[0]))
    await link.flush()
    service.error = AWAY
    for outcome in OUTCOMES[1:]:
        link.report(Report(outcome))
        link.send()
    link.discover(["https://b.example/", "https://c.example/"])
    calls = service.calls
    await until(lambda: service.calls > calls + 5)
    assert (link.unsent, link.has_links, link.failure) == (OUTCOMES[1:], True, None)
    service.error = None
    await until(lambda: not link.unsent and not link.has_links)
    assert (service.observed, service.discovered) == (OUTCOMES, ["https://b.example/", "https://c.example/"])
    assert await ended(link) is None
    assert [outcome for outcomes, _ in service.answers for outcome in outcomes] == OUTCOMES


@in_a_loop
async def test_an_end_without_the_service_keeps_the_outcomes_and_a_new_start_begins_without_them() -> None:
    service = Service(AWAY)
    link = begun(service)
    link.report(Report(OUTCOMES[0]))
    link.discover(["https://b.example/"])
    error = await ended(link, 0.05)
    assert isinstance(error, ServiceUnavailable)
    assert (link.unsent, link.links_dropped, service.connections) == (OUTCOMES[:1], 1, 0)
    service.error = None
    link.start(service.hear, lambda: None)
    link.report(Report(OUTCOMES[1]))
    assert await ended(link) is None
    assert (service.observed, link.unsent) == (OUTCOMES[1:2], [])


@in_a_loop
async def test_after_a_refusal_outcomes_are_heard_of_without_an_answer() -> None:
    service = Service(REFUSED)
    link = begun(service)
    link.report(Report(OUTCOMES[0]))
    with pytest.raises(AccessDenied):
        await link.flush()
    link.report(Report(OUTCOMES[1]))
    link.send()
    link.discover(["https://b.example/"])
    await link.discovered()
    assert (link.failure, link.links_dropped) == (REFUSED, 1)
    assert service.answers == [(OUTCOMES[1:2], None)]
    assert await ended(link) is REFUSED
    assert sorted(outcome.url for outcome in link.unsent) == [outcome.url for outcome in OUTCOMES[:2]]
    assert service.answers[1:] == [(OUTCOMES[:1], None)]


def test_a_crawler_without_a_loop_is_served_by_a_thread() -> None:
    service, crawler, heard = Service(), threading.current_thread(), list[Callable[[], None]]()
    link = ServiceLink(
        service.connected,
        to_loop=shared_loop().call_soon_threadsafe,
        to_crawler=lambda call, *arguments: heard.append(lambda: call(*arguments)),
        positions=True,
    )
    ends: list[tuple[Exception | None, threading.Thread]] = []
    link.start(service.hear, lambda: None)
    link.report(Report(OUTCOMES[0]))
    link.finish(10.0, lambda error: ends.append((error, threading.current_thread())))
    assert link.has_ended.wait(10.0)
    for call in heard:
        call()
    assert ends == [(None, crawler)]
    assert service.answers == [(OUTCOMES[:1], Observed(applied=1, positions=[]))]


def test_the_end_of_a_program_does_not_wait_for_the_start_of_its_service() -> None:
    """As after Ctrl-C while Scrapy opens the spider and the service compiles its kernels."""
    program = """
import asyncio, threading
from streamsched.connectors.crawlers import service_link
starts = threading.Event()
service_link.LocalService.open = lambda state, serve: (starts.set(), threading.Event().wait())
asyncio.run_coroutine_threadsafe(service_link.connection(None, "state", None).__aenter__(), service_link.shared_loop())
starts.wait()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
