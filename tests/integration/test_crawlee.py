"""Crawlee's crawlers on the pages of a service, against a local site: each request of a page is counted once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched.client import AsyncClient, RetryPolicy
from streamsched.scheduler.results import Observed  # noqa: F401
from tests.support.http_service import Running, running
from tests.support.local_site import LocalSite, local_site

crawlee = pytest.importorskip("crawlee")

PATHS = ("/a", "/b", "/moved", "/moved-out", "/loop", "/file", "/empty", "/big", "/gone", "/broken", "/closed")


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, rate=1_000_000) as service:
        politeness = {"min_revisit": 1e6, "host_backoff_429": None}
        service.client.put("/v1/politeness", json=politeness).raise_for_status()
        yield service


def views(service: Running) -> dict[str, Any]:
    """Return what the service knows of its pages, by path."""
    hosts = service.client.get("/v1/rank", params={"k": 1000}).json()
    raise AssertionError(hosts)


def test_it(service: Running, site: LocalSite, tmp_path: Path) -> None:
    from crawlee import ConcurrencySettings
    from crawlee.configuration import Configuration
    from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
    from crawlee.events import LocalEventManager
    from crawlee.storage_clients import MemoryStorageClient

    from streamsched.connectors.crawlee import LeasedRequests, LeaseSettings

    service.client.post("/v1/discover", json={"urls": [site.url + path for path in PATHS]}).raise_for_status()

    async def main() -> list[str]:
        handled = []
        async with (
            AsyncClient(f"http://{service.server.address}") as client,
            LeasedRequests(client, LeaseSettings(size=4, wait=0, follow=False)) as requests,
        ):
            crawler = ParselCrawler(
                request_manager=requests,
                configuration=Configuration(storage_dir=str(tmp_path / "storage")),
                storage_client=MemoryStorageClient(),
                event_manager=LocalEventManager(),
                configure_logging=False,
            )
            requests.attach_to(crawler)

            @crawler.router.default_handler
            async def handle(context: ParselCrawlingContext) -> None:
                handled.append(context.request.url)

            await crawler.run()
            return handled

    handled = asyncio.run(main())
    print(handled)
    for path in (*PATHS, "/reached"):
        view = service.scheduler.page(site.url + path, now=service.clock.now_s)
        print(path, site.requests[path], view and (view.visits, view.failures, view.last_visit_s, view.gone, view.lease_until_s, view.succeeded))
    view = service.scheduler.page(site.other + "/reached-out", now=service.clock.now_s)
    print(view)
    print(site.requests)
    assert 0
