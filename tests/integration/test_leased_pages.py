"""Loops over leased pages against a service: each page has one holder, each visit one outcome, none stays leased."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamsched.client import AccessDenied, AsyncClient, RetryPolicy
from streamsched.connectors.crawlers import LeasedPage, LeaseSettings, leased_pages
from streamsched.errors import ServiceUnavailable, SettingsError
from tests.support.faulty_proxy import MENDED, Fault, proxy_before
from tests.support.http_service import TOKENS, URLS, GoingClock, Running, running

POLICY = RetryPolicy(first_s=1e-4, most_s=1e-3, attempt_s=5.0)
FAULTS = [fault for fault in MENDED if fault not in {Fault.SILENCE, Fault.TRICKLE}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), rate=1_000_000, clock=GoingClock()) as service:
        yield service


@pytest.fixture
def service(shared: Running) -> Running:
    """The service of these tests, to which all pages are new."""
    shared.scheduler.forget(host="*")
    prepare(shared)
    return shared


def prepare(service: Running) -> None:
    """Let the service know pages that may be visited once each."""
    headers = {"authorization": f"Bearer {TOKENS['all']}"}
    service.client.put("/v1/politeness", json={"min_revisit": 1e6}, headers=headers).raise_for_status()
    service.client.post("/v1/discover", json={"urls": URLS}, headers=headers).raise_for_status()


def leased(service: Running) -> set[str]:
    views = [service.scheduler.page(url, now=service.clock.now_s) for url in URLS]
    return {view.url for view in views if view is not None and view.lease_until_s is not None}


def visits(service: Running) -> Counter[str]:
    """Return how many visits of each page the service has counted."""
    views = [service.scheduler.page(url, now=service.clock.now_s) for url in URLS]
    counts = {view.url: view.visits + view.failures + (view.last_visit_s is not None) for view in views if view}
    return Counter({url: count for url, count in counts.items() if count})


def run(url: str, work: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> Any:
    async def main() -> Any:
        async with AsyncClient(url, retries=POLICY, **settings) as client:
            return await work(client)

    return asyncio.run(main())


def address(service: Running) -> str:
    return f"http://{service.server.address}"


def test_loop_visits_each_page_once_and_ends_when_none_is_due(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[str]:
        seen = []
        pages = leased_pages(client, size=8, wait=0, follow=False)
        async for page in pages:
            seen.append(page.url)
            page.done(200, f"<p>The page {page.url}")
            assert pages.leases.idle <= 8
        assert (pages.leases.leased, pages.leases.reported, pages.leases.given_back) == (len(URLS), len(URLS), 0)
        return seen

    assert sorted(run(address(service), crawl)) == sorted(URLS)
    assert visits(service) == dict.fromkeys(URLS, 1)
    assert leased(service) == set()


def test_next_pages_are_asked_for_while_half_of_the_last_are_left(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[tuple[int, int]]:
        pages, counts = leased_pages(client, size=10, wait=0, limit=30), list[tuple[int, int]]()
        async for page in pages:
            await asyncio.sleep(0.02)  # longer than a request takes
            counts.append((pages.leases.leased, pages.leases.idle))
            page.done(200, "text")
        return counts

    counts = run(address(service), crawl)
    assert len(counts) == 30
    assert max(idle for _, idle in counts) <= 10
    assert min(idle for count, idle in counts if count < 30) >= 1  # the loop did not wait for a request


@pytest.mark.parametrize("way", ["break", "error", "cancel", "task"])
def test_pages_without_an_outcome_are_given_back_however_the_loop_ends(way: str, service: Running) -> None:
    async def crawl(client: AsyncClient) -> None:
        count = 0
        async for page in leased_pages(client, size=20, wait=0):
            count += 1
            if count < 4:
                page.done(200, "text")
            elif way == "break":
                break
            elif way == "error":
                raise LookupError
            elif way == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(1.0)

    async def crawl_in_a_task(client: AsyncClient) -> None:
        task = asyncio.create_task(crawl(client))
        while not visits(service):
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    with suppress(LookupError, asyncio.CancelledError):
        run(address(service), crawl_in_a_task if way == "task" else crawl)
    assert sum(visits(service).values()) == 3 if way != "task" else sum(visits(service).values()) >= 3
    assert set(visits(service).values()) == {1}
    assert leased(service) == set()


def test_tasks_share_the_pages_of_one_loop(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[list[str]]:
        pages = leased_pages(client, size=8, wait=0, follow=False)

        async def work() -> list[str]:
            seen = []
            async for page in pages:
                await asyncio.sleep(random.random() / 100)
                seen.append(page.url)
                page.done(200, "text")
            return seen

        return await asyncio.gather(*(work() for _ in range(6)))

    seen = run(address(service), crawl)
    assert sorted(url for one in seen for url in one) == sorted(URLS)
    assert all(seen)
    assert leased(service) == set()


def test_pages_are_handed_to_tasks_and_no_more_than_the_program_may_hold(service: Running) -> None:
    async def crawl(client: AsyncClient) -> int:
        most = 0
        pages = leased_pages(client, size=8, in_hand=5, wait=0, follow=False)

        async def visit(page: LeasedPage) -> None:
            nonlocal most
            most = max(most, pages.leases.in_hand)
            await asyncio.sleep(0.01)
            if page.url == URLS[7]:
                raise LookupError  # it has no outcome
            page.done(200, "text")

        tasks = []
        async for page in pages:
            tasks.append(asyncio.create_task(visit(page)))
            del page
        await asyncio.gather(*tasks, return_exceptions=True)
        return most

    assert run(address(service), crawl) == 5
    assert visits(service) == {url: 1 for url in URLS if url != URLS[7]}
    assert leased(service) == set()


def test_tasks_report_after_the_loop_has_ended(service: Running) -> None:
    async def crawl(client: AsyncClient) -> None:
        ended = asyncio.Event()

        async def visit(page: LeasedPage) -> None:
            await ended.wait()
            page.done(200, "text")

        async with asyncio.TaskGroup() as tasks:
            async for page in leased_pages(client, size=8, wait=0, limit=8):
                tasks.create_task(visit(page))
                if page.url == URLS[5]:
                    break
            ended.set()

    run(address(service), crawl)
    assert 1 <= sum(visits(service).values()) <= 8
    assert leased(service) == set()


def test_page_that_is_dropped_without_an_outcome_is_given_back_while_the_loop_continues(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[str]:
        seen = list[str]()
        async for page in leased_pages(client, size=4, wait=0):
            seen.append(page.url)
            if seen.count(URLS[3]) == 2:
                break
            if page.url != URLS[3]:
                page.done(200, "text")
        return seen

    seen = run(address(service), crawl)
    assert seen[-1] == URLS[3]
    assert leased(service) == set()


def test_groups_are_what_waits_and_at_least_one_page(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[int]:
        sizes = []
        async for group in leased_pages(client, size=20, wait=0, follow=False).groups(6):
            sizes.append(len(group))
            for page in group:
                page.done(200, "text")
        return sizes

    sizes = run(address(service), crawl)
    assert sum(sizes) == len(URLS)
    assert max(sizes) == 6
    assert leased(service) == set()


def test_loop_waits_for_pages_and_gets_those_that_are_discovered(service: Running) -> None:
    async def crawl(client: AsyncClient) -> list[str]:
        seen = []
        async for page in leased_pages(client, size=40, wait="2s"):
            seen.append(page.url)
            page.done(200, "text")
            if len(seen) == len(URLS):
                asyncio.get_running_loop().call_later(0.3, lambda: tasks.append(asyncio.create_task(discover(client))))
            if page.url == "https://new.example/":
                break
        return seen

    async def discover(client: AsyncClient) -> None:
        await client.discover(["https://new.example/"])

    tasks = list[Any]()
    assert run(address(service), crawl)[-1] == "https://new.example/"
    assert leased(service) == set()


def test_page_reports_once_with_validators_and_failures(service: Running) -> None:
    async def crawl(client: AsyncClient) -> None:
        async for page in leased_pages(client, size=4, wait=0, limit=3):
            if page.url == first.setdefault("url", page.url):
                assert page.headers == {}
                page.done(200, "text", headers={"ETag": '"a"'}, cost=0.5)
            else:
                page.failed(OSError())
            for report in (page.failed, lambda page=page: page.done(200)):
                with pytest.raises(SettingsError, match="one outcome"):
                    report()

    first = dict[str, str]()
    run(address(service), crawl)
    view = service.scheduler.page(first["url"], now=service.clock.now_s)
    assert view is not None
    assert view.etag == '"a"'
    assert sorted(visits(service).values()) == [1, 1, 1]
    service.clock.now_s += 2e6

    async def crawl_again(client: AsyncClient) -> dict[str, str]:
        async for page in leased_pages(client, size=40, wait=0, limit=40):
            if page.url == first["url"]:
                return page.headers
        return {}

    assert run(address(service), crawl_again) == {"If-None-Match": '"a"'}


@pytest.mark.parametrize("seed", range(3))
def test_no_page_and_no_outcome_is_lost_or_doubled_whatever_fails(seed: int, service: Running) -> None:
    async def crawl(client: AsyncClient) -> Counter[str]:
        seen = Counter[str]()
        pages = leased_pages(client, size=6, wait=0, limit=len(URLS))

        async def work() -> None:
            async for page in pages:
                seen[page.url] += 1
                proxy.fail(chance.choices(FAULTS, k=1) if chance.random() < 0.5 and not proxy.script else [])
                page.done(200, "text")

        await asyncio.gather(*(work() for _ in range(3)))
        return seen

    chance = random.Random(seed)
    with proxy_before(service.place) as proxy:
        proxy.fail(chance.choices(FAULTS, k=6))
        seen = run(proxy.url, crawl)
    assert seen == dict.fromkeys(URLS, 1)
    assert visits(service) == seen
    assert leased(service) == set()


class Served:
    """A service until it is closed."""

    def __init__(self, folder: Path, place: str) -> None:
        self.block = running(folder, address=place, rate=1_000_000)
        self.current = self.block.__enter__()

    def close(self) -> None:
        self.block.__exit__(None, None, None)


def test_loop_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    seen, restarts = Counter[str](), 0
    stack = Served(tmp_path, "127.0.0.1:0")

    async def crawl(client: AsyncClient) -> None:
        nonlocal restarts
        async for page in leased_pages(client, size=4, wait=0, limit=len(URLS)):
            seen[page.url] += 1
            if len(seen) in (10, 20) and restarts < len(seen) // 10:
                restarts += 1
                await asyncio.to_thread(restart)
            page.done(200, "text")

    def restart() -> None:
        nonlocal stack
        place = stack.current.server.address
        stack.close()
        stack = Served(tmp_path, place)

    try:
        prepare(stack.current)
        run(address(stack.current), crawl)
        assert restarts == 2
        assert visits(stack.current) == seen == dict.fromkeys(URLS, 1)
        assert leased(stack.current) == set()
    finally:
        stack.close()


def test_loop_ends_with_the_error_of_a_service_that_refuses(tmp_path: Path) -> None:
    async def crawl(client: AsyncClient) -> None:
        async for _ in leased_pages(client, wait=0):
            pytest.fail("it has no token")

    with running(tmp_path, tokens=True) as service, pytest.raises(AccessDenied):
        run(address(service), crawl, token=TOKENS["read"])


def test_outcomes_that_cannot_be_sent_are_an_error_and_are_kept(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsched.connectors.crawlers.page_leases._CLOSE_S", 0.3)

    async def crawl(client: AsyncClient) -> None:
        async with leased_pages(client, size=4, wait=0, limit=4) as pages:
            held.append(pages)
            async for page in pages:
                proxy.fail([Fault.BUSY] * 100_000)
                page.done(200, "text")

    held = list[Any]()
    with proxy_before(service.place) as proxy, pytest.raises(Exception, match="POST") as raised:
        run(proxy.url, crawl, timeout_s=1.0)
    assert getattr(raised.value, "retriable", None) is True
    assert {one.url for one in held[0].leases.unsent} <= set(URLS)
    assert len(held[0].leases.unsent) >= 1


def test_cancelled_loop_ends_while_the_service_does_not_answer(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_CLOSE_S", "_ANSWER_S"):
        monkeypatch.setattr(f"streamsched.connectors.crawlers.page_leases.{name}", 0.2)

    async def crawl(client: AsyncClient) -> None:
        async for page in leased_pages(client, size=4, wait=0):
            proxy.fail([Fault.BUSY] * 100_000)
            page.done(200, "text")

    async def cancel(client: AsyncClient) -> None:
        task = asyncio.create_task(crawl(client))
        while not proxy.script:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with proxy_before(service.place) as proxy, pytest.raises(ServiceUnavailable, match="outcomes"):
        run(proxy.url, cancel)


def test_page_in_a_cycle_is_given_back_by_the_garbage_collector(service: Running) -> None:
    async def crawl(client: AsyncClient) -> int:
        pages = leased_pages(client, size=4, wait=0)
        async for page in pages:
            cycle: list[Any] = [page]
            cycle.append(cycle)
            del page, cycle
            break
        assert pages.leases.in_hand == 1
        gc.collect()
        while pages.leases.given_back < pages.leases.leased:
            await asyncio.sleep(0.01)
        return pages.leases.in_hand

    assert run(address(service), crawl) == 0
    assert leased(service) == set()


def test_pages_whose_leases_end_are_not_handed_out_nor_given_back(service: Running) -> None:
    async def crawl(client: AsyncClient) -> None:
        pages = leased_pages(client, size=20, lease="4s", wait=0)
        async for page in pages:
            clock.now_s += 3.5
            del page
            break
        await asyncio.sleep(0.2)
        assert pages.leases.given_back == 0

    clock = Later()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsched.connectors.crawlers.page_loop.PageLeases", clock.leases)
        run(address(service), crawl)
    gc.collect()
    assert leased(service) != set()  # they wait for the service's clock


class Later:
    """A clock that tests set."""

    now_s = 100.0

    def leases(self, *arguments: Any) -> Any:
        from streamsched.connectors.crawlers.page_leases import PageLeases

        return PageLeases(*arguments, clock=lambda: self.now_s)


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": 10_001}, {"in_hand": 0}, {"limit": 0}, {"wait": "soon"}, {"lease": -1}, {"size": True}],
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as raised:
        LeaseSettings(**wrong)
    assert raised.value.setting == next(iter(wrong))
