"""``python -m examples.scrapy_news``: a Scrapy crawl of 2,000 pages whose changes are those of a real log.

The service knows four months of visits. Then its clock and the site's go fast, and Scrapy fetches pages over HTTP in
a budget: what it finds is compared with oldest first, and with a crawler that knows how often each page changes: the
same number of visits at the same times, computed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from examples.scrapy_news.news_site import DAY_S, NewsSite, open_site
from streamsched.client import Client
from tests.support.child_processes import run_to_end
from tests.support.http_service import started

_START_S: Final = 1_755_820_800.0  # 2025-08-22
_ADDON: Final = {"streamsched.connectors.scrapy.StreamschedAddon": 500}


@click.command()
@click.option("--pages", type=click.IntRange(10), default=2_000, help="The most pages of the site.")
@click.option("--history", type=click.IntRange(2), default=120, help="Days of visits that the service knows.")
@click.option("--days", type=click.IntRange(1), default=30, help="Length of the crawl.")
@click.option("--seconds", type=click.FloatRange(1.0), default=150.0, help="In which it passes.")
@click.option("--budget", type=click.FloatRange(0.001, 1.0), default=0.05, help="Share of the pages a day.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(pages: int, history: int, days: int, seconds: float, budget: float, *, as_json: bool) -> None:
    """Let a Scrapy spider revisit a local site for some days, and say what that saves."""
    speed = days * DAY_S / seconds
    with tempfile.TemporaryDirectory() as folder, open_site(_START_S, history, 3 * days, pages) as site:
        start = f"clock.start={datetime.fromtimestamp(_START_S, UTC).isoformat()}"
        serve = "serve", "--state", Path(folder) / "state", "--set", start
        with started(*serve) as (_, address), Client(f"http://{address}", timeout_s=600.0) as client:
            for outcomes in site.past():
                client.observe(outcomes)
        with started(*serve, "--set", f"clock.speed={speed:f}") as (_, address):
            with Client(f"http://{address}", timeout_s=600.0) as client:
                site.set_clock(client.rank(1).now, speed)
            visits = max(1, round(budget * site.pages * days))
            found = _crawl(address, visits, speed, seconds / visits)
    result = compare(site, found)
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, value in result.items():
        click.echo(f"{name:36} {value:,.4g}" if isinstance(value, float) else f"{name:36} {value:,}")


def compare(site: NewsSite, stats: dict[str, Any]) -> dict[str, float | int]:
    """Return what the crawl has found beside oldest first, with the same visits at the same times."""
    visits = len(site.log)
    hits = site.count_hits(site.log)
    oldest = site.count_hits([(number % site.pages, now) for number, (_, now) in enumerate(site.log)])
    return {
        "pages": site.pages,
        "visits": visits,
        "days": (site.log[-1][1] - site.log[0][1]) / DAY_S,
        "changes found": hits,
        "changes that callbacks saw": int(stats.get("streamsched/outcomes/changed", 0)),
        "pages saved": int(stats.get("item_scraped_count", 0)),
        "changes found by oldest first": oldest,
        "changes found by known rates": site.count_hits(site.follow_rates([now for _, now in site.log])),
        "visits for as many, oldest first": round(hits * visits / max(oldest, 1)),
        "times as many changes a request": hits / max(oldest, 1),
    }


def _crawl(address: str, visits: int, speed: float, delay_s: float) -> dict[str, Any]:
    """Run the spider for a number of leased pages; return its figures."""
    settings = {
        "ADDONS": _ADDON,
        "STREAMSCHED_URL": f"http://{address}",
        "STREAMSCHED_PAGES": visits,
        "STREAMSCHED_BATCH": 50,
        "STREAMSCHED_LEASE": "10d",
        "STREAMSCHED_CLOCK_SPEED": speed,
        "DOWNLOAD_DELAY": delay_s,
        "DOWNLOAD_DELAY_JITTER": 0.0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }
    done = run_to_end((sys.executable, "-m", "examples.scrapy_news.crawl", json.dumps(settings)))
    if done.returncode:
        raise click.ClickException(done.stderr[-2_000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
