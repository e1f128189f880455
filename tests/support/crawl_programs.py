"""Programs that crawl until they are stopped: ``python -m tests.support.crawl_programs KIND SERVICE``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import httpx

from streamsched.client import AsyncClient, RetryPolicy
from streamsched.connectors.crawlers import LeaseSettings, leased_pages

TASKS = 4
SIZE = 10


def open_client(url: str) -> AsyncClient:
    return AsyncClient(url, retries=RetryPolicy(attempt_s=2.0))


async def crawl_by_loop(url: str) -> None:
    """Visit pages by httpx, in some tasks."""

    async def work(http: httpx.AsyncClient, pages: Any) -> None:
        async for page in pages:
            try:
                answer = await http.get(page.url, follow_redirects=True)
            except httpx.HTTPError as error:
                page.failed(error)
            else:
                page.done(answer.status_code, answer.content, headers=answer.headers, final_url=str(answer.url))
            del page

    async with httpx.AsyncClient() as http, open_client(url) as client, asyncio.TaskGroup() as tasks:
        pages = leased_pages(client, size=SIZE, wait="1s")
        for _ in range(TASKS):
            tasks.create_task(work(http, pages))


async def crawl_by_crawlee(url: str) -> None:
    """Visit pages by Crawlee."""
    from crawlee import ConcurrencySettings, service_locator
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
    from crawlee.storage_clients import MemoryStorageClient

    from streamsched.connectors.crawlee import LeasedRequests

    service_locator.set_storage_client(MemoryStorageClient())

    async def handle(context: HttpCrawlingContext) -> None:
        pass

    settings = LeaseSettings(size=SIZE, wait="1s")
    async with open_client(url) as client, LeasedRequests(client, settings) as requests:
        tasks = ConcurrencySettings(min_concurrency=TASKS, desired_concurrency=TASKS, max_concurrency=TASKS)
        crawler = HttpCrawler(request_manager=requests, request_handler=handle, concurrency_settings=tasks)
        requests.attach_to(crawler)
        await crawler.run()


PROGRAMS = {"loop": crawl_by_loop, "crawlee": crawl_by_crawlee}

if __name__ == "__main__":
    asyncio.run(PROGRAMS[sys.argv[1]](sys.argv[2]))
