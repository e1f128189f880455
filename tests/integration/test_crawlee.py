"""Crawlee's crawlers on the pages of a service, against a local site: each request for a page is counted once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched.client import AccessDenied, AsyncClient, RetryPolicy
from streamsched.errors import SettingsError
from tests.support.browser import CHROMIUM
from tests.support.faulty_proxy import Fault, proxy_before
from tests.support.http_service import TOKENS, Running, running
from tests.support.local_site import LocalSite, local_site

pytest.importorskip("crawlee", reason="needs Crawlee: pip install 'streamsched[crawlee]'")

from crawlee import Request, service_locator
from crawlee.configuration import Configuration
from crawlee.crawlers import BasicCrawler, HttpCrawler, ParselCrawler, PlaywrightCrawler
from crawlee.events import LocalEventManager
from crawlee.storage_clients import MemoryStorageClient

from streamsched.connectors.crawlee import LeasedRequests, LeaseSettings

ONCE = ("/b", "/c", "/moved", "/moved-out", "/file", "/empty", "/big", "/gone", "/broken", "/closed")
ENDS = LeaseSettings(size=4, wait=0, follow=False)


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, rate=1_000_000, keep_changes="7d") as service:
        politeness = {"min_revisit": 1e6, "host_backoff_429": None}  # each page once, and no host rests
        service.client.put("/v1/politeness", json=politeness).raise_for_status()
        yield service


@pytest.fixture(autouse=True)
def no_files(tmp_path: Path) -> Iterator[None]:
    """Let Crawlee keep what it keeps in memory, and forget it after the test."""
    service_locator.set_configuration(Configuration(storage_dir=str(tmp_path / "storage"), purge_on_start=True))
    service_locator.set_event_manager(LocalEventManager())
    service_locator.set_storage_client(MemoryStorageClient())
    yield
    service_locator._configuration = service_locator._event_manager = service_locator._storage_client = None


def add(service: Running, *urls: str) -> None:
    service.client.post("/v1/discover", json={"urls": urls}).raise_for_status()


def view(service: Running, url: str) -> Any:
    found = service.scheduler.page(url, now=service.clock.now_s)
    assert found is not None, url
    assert found.lease_until_s is None, f"{url} is leased"
    return found


def visits(service: Running, url: str) -> int:
    """Return how many visits of a page the service has counted."""
    found = view(service, url)
    return int(found.visits + found.failures + (found.last_visit_s is not None))


def crawl(
    url: str,
    kind: type[Any],
    *,
    settings: LeaseSettings = ENDS,
    token: str | None = None,
    fails: bool = False,
    start: tuple[str, ...] = (),
    **options: Any,
) -> list[str]:
    """Run a crawler to its end; return the URLs that its handler got, which enqueues the links of /a."""

    async def handle(context: Any) -> None:
        handled.append(context.request.url)
        if context.request.url.endswith("/a") and hasattr(context, "enqueue_links"):
            await context.enqueue_links()
        if fails:
            raise LookupError

    async def main() -> None:
        policy = RetryPolicy(first_s=1e-4, most_s=1e-3, attempt_s=5.0)
        async with (
            AsyncClient(url, retries=policy, token=token) as client,
            LeasedRequests(client, settings) as requests,
        ):
            crawler = kind(request_manager=requests, request_handler=handle, configure_logging=False, **options)
            if kind is not BasicCrawler:
                requests.attach_to(crawler)
            await crawler.run(start)

    handled = list[str]()
    asyncio.run(main())
    return handled


def address(service: Running) -> str:
    return f"http://{service.server.address}"


@pytest.mark.parametrize("kind", [HttpCrawler, ParselCrawler])
def test_every_request_for_a_page_is_one_visit(kind: type[Any], service: Running, site: LocalSite) -> None:
    add(service, *(site.url + path for path in (*ONCE, "/loop")))
    handled = crawl(address(service), kind)
    assert sorted(handled) == sorted(site.url + path for path in ONCE if path not in ("/gone", "/broken", "/closed"))
    visited = {path: visits(service, site.url + path) for path in (*ONCE, "/loop", "/reached")}
    assert visited == dict.fromkeys(visited, 1)
    assert visits(service, site.other + "/reached-out") == 1
    assert {path: count for path, count in site.requests.items() if count != 1} == {"/loop": 21}  # one failed visit
    failed = {path for path in visited if view(service, site.url + path).failures}
    assert failed == {"/broken", "/closed", "/loop"}
    assert view(service, site.url + "/gone").gone == 1


def test_content_decides_what_is_a_change_and_links_are_discovered(service: Running, site: LocalSite) -> None:
    add(service, site.url + "/a")
    settings = LeaseSettings(size=4, wait="2s", limit=2)
    assert crawl(address(service), ParselCrawler, settings=settings) == [site.url + "/a", site.url + "/more"]
    service.clock.now_s += 2e6
    assert crawl(address(service), ParselCrawler, settings=LeaseSettings(limit=2)) != []
    assert [view(service, site.url + path).visits for path in ("/a", "/more")] == [1, 1]
    assert [view(service, site.url + path).changes for path in ("/a", "/more")] == [0, 0]
    site.edition = 2
    service.clock.now_s += 2e6
    crawl(address(service), ParselCrawler, settings=LeaseSettings(limit=2))
    assert [view(service, site.url + path).changes for path in ("/a", "/more")] == [1, 1]
    change = service.client.get("/v1/changes").json()["changes"][0]
    assert change["url"] in {site.url + "/a", site.url + "/more"}
    assert change["content"] is not None


def test_crawl_that_ends_visits_its_start_urls_and_what_they_link_to(service: Running, site: LocalSite) -> None:
    handled = crawl(address(service), ParselCrawler, start=(site.url + "/a",))
    assert handled == [site.url + "/a", site.url + "/more"]
    assert [visits(service, site.url + path) for path in ("/a", "/more")] == [1, 1]


def test_page_that_robots_txt_forbids_is_not_visited(service: Running, site: LocalSite) -> None:
    add(service, site.url + "/private", site.url + "/b")
    assert crawl(address(service), ParselCrawler, respect_robots_txt_file=True) == [site.url + "/b"]
    assert view(service, site.url + "/private").robots_denied
    assert site.requests["/private"] == 0


def test_storm_of_429_and_503_is_one_failed_visit_of_each_page(service: Running, site: LocalSite) -> None:
    urls = [f"{site.url}/p{i}" for i in range(12)]
    add(service, *urls)
    site.storm = 12
    assert crawl(address(service), HttpCrawler) == []
    assert [view(service, url).failures for url in urls] == [1] * 12
    assert Counter(site.requests.values()) == {1: 12}


def test_faults_of_the_service_lose_and_double_nothing(service: Running, site: LocalSite) -> None:
    urls = [f"{site.url}/p{i}" for i in range(30)]
    add(service, *urls)
    with proxy_before(service.place) as proxy:
        proxy.fail([Fault.BUSY, Fault.ANSWER_LOST, Fault.TOO_MANY, Fault.HALF_A_BODY, Fault.NONE, Fault.GATEWAY] * 4)
        handled = crawl(proxy.url, HttpCrawler)
    assert sorted(handled) == sorted(urls)
    assert [visits(service, url) for url in urls] == [1] * 30
    assert set(site.requests.values()) == {1}


def test_error_of_a_handler_is_no_failed_visit(service: Running, site: LocalSite) -> None:
    add(service, site.url + "/b")

    assert crawl(address(service), HttpCrawler, fails=True) == [site.url + "/b"]
    assert (visits(service, site.url + "/b"), view(service, site.url + "/b").failures) == (1, 0)


def test_crawler_without_hooks_reports_that_it_was_there(service: Running, site: LocalSite) -> None:
    add(service, site.url + "/b")
    assert crawl(address(service), BasicCrawler) == [site.url + "/b"]
    assert (visits(service, site.url + "/b"), view(service, site.url + "/b").failures) == (1, 0)

    async def attach() -> None:
        async with AsyncClient(address(service)) as client:
            LeasedRequests(client).attach_to(BasicCrawler())  # type: ignore[arg-type]

    with pytest.raises(SettingsError, match="post_navigation_hook"):
        asyncio.run(attach())


def test_refusal_of_the_service_ends_the_crawl_with_its_error(tmp_path: Path) -> None:
    with running(tmp_path, tokens=True) as service, pytest.raises(AccessDenied):
        crawl(address(service), HttpCrawler, token=TOKENS["read"])


def test_requests_without_an_outcome_are_handed_out_again_or_given_back(service: Running, site: LocalSite) -> None:
    async def main() -> None:
        async with AsyncClient(address(service)) as client, LeasedRequests(client, ENDS) as requests:
            while (request := await requests.fetch_next_request()) is None:
                await asyncio.sleep(0.01)
            again = await requests.reclaim_request(request)
            assert (again.was_already_handled, await requests.is_empty(), await requests.is_finished()) == (
                False,
                False,
                False,
            )
            assert await requests.fetch_next_request() is request
            assert await requests.add_request(Request.from_url(site.url, method="POST")) is None
            assert await requests.add_request(site.url + "/found", forefront=True) is not None
            await requests.add_requests([site.url + "/new"], wait_for_all_requests_to_be_added=True)

    add(service, site.url + "/a", site.url + "/b")
    asyncio.run(main())
    assert [visits(service, site.url + path) for path in ("/a", "/b", "/found", "/new")] == [0, 0, 0, 0]
    assert view(service, site.url + "/found").asked_for


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no browser: Debian's package chromium is missing")
def test_browser_reports_what_it_shows(service: Running, site: LocalSite) -> None:
    paths = ("/b", "/moved", "/moved-out", "/gone", "/closed", "/script")
    add(service, *(site.url + path for path in paths))
    options = {"executable_path": str(CHROMIUM), "args": ["--no-sandbox"]}
    handled = crawl(address(service), PlaywrightCrawler, browser_launch_options=options, fingerprint_generator=None)
    assert sorted(handled) == sorted(site.url + path for path in ("/b", "/moved", "/moved-out", "/script"))
    visited = {path: visits(service, site.url + path) for path in (*paths, "/reached")}
    assert visited == dict.fromkeys(visited, 1)
    assert visits(service, site.other + "/reached-out") == 1
    assert view(service, site.url + "/closed").failures == 1
    assert view(service, site.url + "/gone").gone == 1
