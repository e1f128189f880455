"""``python -m examples.rag_refresh``: a vector index that follows a site, beside one that is filled by oldest first.

A crawler visits what the service leases, and keeps the texts. The change feed says which of them changed: only these
are embedded again, and those that are gone are deleted. The other crawler visits the oldest copies first and embeds
each of them, as it does not know what changed. The embedding is a hash of the words; put a model in its place.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import httpx

from examples.changing_site import ChangingSite, Finds, Pace, crawl_oldest_first, open_service
from examples.rag_refresh.index import VectorIndex
from streamsched.client import AsyncClient
from streamsched.connectors.crawlers import LeasedPages, leased_pages
from streamsched.content import content_hash, page_text

TASKS = 4
Fetch = Callable[[str], Awaitable[httpx.Response]]


async def refresh(index: VectorIndex, texts: dict[str, str], client: AsyncClient) -> None:
    """Apply each change of the feed to the index, for ever."""
    async for change in client.changes(index.cursor):
        if change.gone:
            index.remove(change.url)
        else:
            index.put(change.url, texts[change.url])
        index.cursor = change.cursor  # keep it with the index: after a crash the feed goes on from here


async def visit(pages: LeasedPages, fetch: Fetch, texts: dict[str, str], index: VectorIndex) -> None:
    """Visit leased pages; keep their texts, and put a page into the index that it lacks."""
    async for page in pages:
        try:
            answer = await fetch(page.url)
        except httpx.HTTPError as error:
            page.failed(error)
            continue
        if answer.status_code != 200:
            page.done(answer.status_code)
            continue
        texts[page.url] = text = page_text(answer.content, page.url)
        page.done(200, text=text)
        if page.url not in index.texts:
            index.put(page.url, text)


async def follow(
    site: ChangingSite, client: AsyncClient, http: httpx.AsyncClient, count: int, pace: Pace
) -> tuple[VectorIndex, Finds]:
    """Crawl and refresh an index until the budget is spent; return it, and what the visits have found."""

    async def fetch_in_turn(url: str) -> httpx.Response:
        await pace.turn()
        answer = await http.get(url)
        finds.note(answer)
        return answer

    index, texts, finds = VectorIndex((await client.read_changes("newest")).cursor), dict[str, str](), Finds(site)
    refresher = asyncio.create_task(refresh(index, texts, client))
    await visit(leased_pages(client, limit=len(site.urls)), http.get, texts, index)  # before the pages change
    site.start()
    pages = leased_pages(client, size=10, lease="10s", wait="1s", limit=count)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(TASKS):
            tasks.create_task(visit(pages, fetch_in_turn, texts, index))
    newest = (await client.read_changes("newest")).cursor
    async with asyncio.timeout(30):
        while index.cursor != newest:
            await asyncio.sleep(0.01)
    refresher.cancel()
    with suppress(asyncio.CancelledError):
        await refresher
    return index, finds


def current_share(site: ChangingSite, index: VectorIndex) -> float:
    """Return the share of the site's documents that the index has as they are."""
    pages = {site.url + path: site.page(path) for path in site.paths}
    right = [
        url not in index.texts
        if page is None
        else content_hash(index.texts.get(url, "")) == content_hash(page_text(page))
        for url, page in pages.items()
    ]
    return sum(right) / len(right)


async def compare(service: str, count: int, per_s: float, seconds: float) -> str:
    """Let both crawlers follow the site; return what they have found and embedded, as a table."""
    clock, most = time.monotonic, int(per_s * seconds)
    site = ChangingSite(count, clock)
    async with site.served(), AsyncClient(service) as client, httpx.AsyncClient() as http:
        await client.discover(site.urls)
        index, finds = await follow(site, client, http, most, Pace(per_s, most, clock))
        fresh = current_share(site, index)
        site.start()  # the same changes again
        oldest = await crawl_oldest_first(site, Pace(per_s, most, clock), http)
        oldest_fresh = oldest.current()
    needed, all_embedded = finds.visits_until(oldest.changes[-1]), count + most
    visits, embeddings = 1 - needed / most, 1 - index.embedded / all_embedded
    query = "a railway near the harbour"
    return "\n".join(
        (
            f"{'':16}{'visits':>8}{'changes found':>16}{'embeddings':>13}{'deleted':>9}{'current':>9}",
            f"{'oldest first':16}{most:>8,}{oldest.changes[-1]:>16,}{all_embedded:>13,}{'':9}{oldest_fresh:>9.0%}",
            f"{'streamsched':16}{most:>8,}{finds.changes[-1]:>16,}{index.embedded:>13,}{index.deleted:>9,}{fresh:>9.0%}",
            f"saved: {visits:.0%} of the visits for as many changes, {embeddings:.0%} of the embeddings",
            f"nearest to {query!r}: {', '.join(index.search(query))}",
        )
    )


@click.command()
@click.option("--pages", default=400, show_default=True, help="Pages of the site.")
@click.option("--per-s", default=50.0, show_default=True, help="Visits in a second.")
@click.option("--seconds", default=20.0, show_default=True, help="How long each crawler follows the site.")
def main(pages: int, per_s: float, seconds: float) -> None:
    """Keep a vector index of a local site fresh, and print what was saved against oldest first."""
    settings = ("scheduler.cycle=1s", "changes.keep=7d")
    try:
        with TemporaryDirectory() as folder, open_service(Path(folder) / "state", *settings) as service:
            click.echo(asyncio.run(compare(service, pages, per_s, seconds)))
    except KeyboardInterrupt:  # Ctrl-C: the loop has given its pages back
        sys.exit(130)


if __name__ == "__main__":
    main()
