"""Processor time that leasing and reporting add to a request of a crawler, beside the same crawler with a list of URLs.

The service and the site are processes of their own; both crawlers extract the same text and compute the same hash.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.report import Row, digits
from streamsched.client import AsyncClient
from streamsched.connectors.crawlers import ContentRules, LeasedPages, LeaseSettings, Visit, leased_pages, outcomes_of
from tests.support.http_service import make_client, started

_TASKS: Final = 20
_FETCH_S: Final = 0.001
_EXACT: Final = ContentRules(has_fingerprint=False)
_WORDS: Final = "The price of a page is what its text says, and 300 words are what a short article has. "
_PAGE: Final = (
    f"<html><head><title>T</title></head><body><nav>Menu</nav><main>{f'<p>{_WORDS}</p>' * 16}</main></body></html>"
)
_SITE: Final = f"""
import asyncio
BODY = {_PAGE!r}.encode()
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY)
async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            writer.write(HEAD + BODY)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark of crawlers."""
    with TemporaryDirectory() as folder, _site() as site, _service(Path(folder)) as address:
        urls = [f"{site}/p{number}" for number in range(pages)]
        with make_client(address) as client:
            for start in range(0, pages, 10_000):
                client.post("/v1/discover", json={"urls": urls[start : start + 10_000]}).raise_for_status()
        return [
            _beside(
                "Crawlee's HttpCrawler", lambda: _crawlee(urls, address), lambda: _crawlee(urls, None), pages, repeats
            ),
            _beside(
                f"{_TASKS} tasks that fetch nothing",
                lambda: _loop(urls, address),
                lambda: _loop(urls, None),
                pages,
                repeats,
            ),
        ]


@contextmanager
def _site() -> Iterator[str]:
    with subprocess.Popen((sys.executable, "-c", _SITE), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextmanager
def _service(folder: Path) -> Iterator[str]:
    with started("serve", "--state", folder / "state", "--set", "http.rate=1000000") as (_, address):
        yield address


def _beside(
    what: str, ours: Callable[[], Awaitable[None]], rival: Callable[[], Awaitable[None]], pages: int, repeats: int
) -> Row:
    """Return the row of both processor times of a request, each the best of several runs in turn."""
    times_s: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for run, found in zip((ours, rival), times_s, strict=True):
            found.append(asyncio.run(_time(run)))
    ours_ms, rival_ms = (1e3 * min(found) / pages for found in times_s)
    return Row(
        f"processor time of a request by {what}; ratio: what is added",
        f"{digits(ours_ms)} ms",
        f"{digits(rival_ms)} ms",
        f"{digits(ours_ms - rival_ms, 2)} ms",
    )


async def _time(run: Callable[[], Awaitable[None]]) -> float:
    begin = time.process_time()
    await run()
    return time.process_time() - begin


async def _loop(urls: list[str], address: str | None) -> None:
    """Read the same page for each URL: pages that the service leases, or those of the list."""
    body, headers = _PAGE.encode(), {"content-type": "text/html"}

    async def visit_leased(pages: LeasedPages) -> None:
        async for page in pages:
            await asyncio.sleep(_FETCH_S)
            page.done(200, body, headers=headers)

    async def visit_listed(left: list[str]) -> None:
        while left:
            url = left.pop()
            await asyncio.sleep(_FETCH_S)
            outcomes_of(Visit(url, 1.0, 200, headers, body), _EXACT)

    if address is None:
        left = urls.copy()
        await asyncio.gather(*(visit_listed(left) for _ in range(_TASKS)))
        return
    async with AsyncClient(f"http://{address}") as client:
        pages = leased_pages(client, limit=len(urls), wait=0, rules=_EXACT)
        await asyncio.gather(*(visit_leased(pages) for _ in range(_TASKS)))


async def _crawlee(urls: list[str], address: str | None) -> None:
    """The same by Crawlee."""
    from crawlee import ConcurrencySettings, service_locator  # noqa: PLC0415  an extra, and slow to import
    from crawlee.configuration import Configuration  # noqa: PLC0415
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext  # noqa: PLC0415
    from crawlee.events import LocalEventManager  # noqa: PLC0415
    from crawlee.storage_clients import MemoryStorageClient  # noqa: PLC0415

    from streamsched.connectors.crawlee import LeasedRequests  # noqa: PLC0415

    async def handle_leased(_: HttpCrawlingContext) -> None:
        pass

    async def handle_listed(context: HttpCrawlingContext) -> None:
        answer = context.http_response
        outcomes_of(Visit(context.request.url, 1.0, answer.status_code, answer.headers, await answer.read()), _EXACT)

    service_locator._configuration = service_locator._event_manager = service_locator._storage_client = None  # noqa: SLF001
    service_locator.storage_instance_manager.clear_cache()  # a queue knows which URLs were visited
    service_locator.set_configuration(Configuration(purge_on_start=True))
    service_locator.set_event_manager(LocalEventManager())
    service_locator.set_storage_client(MemoryStorageClient())
    options: dict[str, Any] = {
        "configure_logging": False,
        "concurrency_settings": ConcurrencySettings(
            min_concurrency=_TASKS, desired_concurrency=_TASKS, max_concurrency=_TASKS
        ),
    }
    if address is None:
        _check(await HttpCrawler(request_handler=handle_listed, **options).run(urls), len(urls))
        return
    settings = LeaseSettings(limit=len(urls), wait=0)
    async with AsyncClient(f"http://{address}") as client, LeasedRequests(client, settings, _EXACT) as requests:
        crawler = HttpCrawler(request_manager=requests, request_handler=handle_leased, **options)
        requests.attach_to(crawler)
        _check(await crawler.run(), len(urls))


def _check(done: Any, pages: int) -> None:
    """Raise RuntimeError unless a crawler has visited all pages."""
    if done.requests_finished != pages:
        raise RuntimeError(f"{done.requests_finished} of {pages} pages were visited")
