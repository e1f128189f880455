"""``python -m examples.httpx_loop``: a crawler on httpx that visits what has probably changed, beside oldest first.

Both crawlers have the same budget of visits, on the same local site at the same time. The one that asks the service
learns which pages change. What it saves is printed: the visits that it did not need for as many changes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import httpx

from examples.changing_site import ChangingSite, Finds, Pace, crawl_oldest_first, open_service
from streamsched.client import AsyncClient
from streamsched.connectors.crawlers import LeasedPages, leased_pages

TASKS = 4


async def work(pages: LeasedPages, http: httpx.AsyncClient, pace: Pace, finds: Finds) -> None:
    """Visit leased pages until the budget is spent."""
    async for page in pages:
        if not await pace.turn():
            return
        try:
            answer = await http.get(page.url)
        except httpx.HTTPError as error:
            page.failed(error)
            continue
        page.done(answer.status_code, answer.content, headers=answer.headers, final_url=str(answer.url))
        finds.note(answer)


async def crawl(site: ChangingSite, client: AsyncClient, http: httpx.AsyncClient, pace: Pace) -> Finds:
    """Visit what the service leases, in some tasks."""
    finds = Finds(site)
    pages = leased_pages(client, size=10, lease="10s", wait="1s")
    async with asyncio.TaskGroup() as tasks:
        for _ in range(TASKS):
            tasks.create_task(work(pages, http, pace, finds))
    return finds


async def compare(service: str, count: int, per_s: float, seconds: float) -> tuple[Finds, Finds]:
    """Return what both crawlers have found: ours, and oldest first."""
    clock, most = time.monotonic, int(per_s * seconds)
    site = ChangingSite(count, clock)
    async with site.served(), AsyncClient(service) as client, httpx.AsyncClient() as http:
        await client.discover(site.urls)
        async for page in leased_pages(client, limit=count):  # the first visits, before the pages change
            page.done(200, (await http.get(page.url)).content, headers={"content-type": "text/html"})
        site.start()
        return await asyncio.gather(
            crawl(site, client, http, Pace(per_s, most, clock)),
            crawl_oldest_first(site, Pace(per_s, most, clock), http),
        )


def describe(ours: Finds, oldest: Finds) -> str:
    """Return a table of both, and what was saved."""
    lines = [f"{'':16}{'visits':>8}{'changes found':>16}"]
    for name, finds in (("oldest first", oldest), ("streamsched", ours)):
        lines.append(f"{name:16}{len(finds.changes):>8,}{finds.changes[-1]:>16,}")
    needed = ours.visits_until(oldest.changes[-1])
    lines.append(
        f"streamsched had found {min(ours.changes[-1], oldest.changes[-1]):,} changes after {needed:,} visits: "
        f"{1 - needed / len(oldest.changes):.0%} of the visits are saved"
    )
    return "\n".join(lines)


@click.command()
@click.option("--pages", default=400, show_default=True, help="Pages of the site.")
@click.option("--per-s", default=50.0, show_default=True, help="Visits of each crawler in a second.")
@click.option("--seconds", default=30.0, show_default=True, help="How long they crawl.")
def main(pages: int, per_s: float, seconds: float) -> None:
    """Crawl a local site by streamsched and by oldest first, and print what the first has saved."""
    try:
        with TemporaryDirectory() as folder, open_service(Path(folder) / "state", "scheduler.cycle=1s") as service:
            ours, oldest = asyncio.run(compare(service, pages, per_s, seconds))
    except KeyboardInterrupt:  # Ctrl-C: the loop has given its pages back
        sys.exit(130)
    click.echo(describe(ours, oldest))


if __name__ == "__main__":
    main()
