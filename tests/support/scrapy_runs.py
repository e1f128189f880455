"""Crawls of Scrapy as processes, and what is to be true after them."""

from __future__ import annotations

import json
import sys
from typing import Any

from streamsched import Politeness
from streamsched.client import Client
from tests.support.child_processes import run_to_end
from tests.support.crawled_site import Site
from tests.support.http_service import Clock, Running, clock_now

ONCE = Politeness(min_revisit="1h")  # each page is visited once, then nothing is due
RUN_OUT: dict[str, Any] = {"STREAMSCHED_IDLE_CLOSE": "500ms", "STREAMSCHED_BATCH": 10, "DOWNLOAD_TIMEOUT": 2}


class Present(Clock):
    """The machine's clock: rests of hosts end."""

    def read(self) -> float:
        return clock_now()


def words(*crawls: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.support.scrapy_crawl", json.dumps(crawls)]


def described(
    service: Running | None, spider: str, start: list[str], allowed: list[str] | None = None, **settings: Any
) -> dict[str, Any]:
    """Return a crawl that ends when nothing is due."""
    where = {} if service is None else {"STREAMSCHED_URL": f"http://{service.server.address}"}
    return {"spider": spider, "start": start, "allowed": allowed, "settings": {**where, **RUN_OUT, **settings}}


def crawl(*crawls: dict[str, Any]) -> list[dict[str, Any]]:
    """Run crawls in one process; return the figures and items of each."""
    done = run_to_end(words(*crawls), timeout=300.0)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [one["stats"].get("spider_exceptions/count") for one in found] == [None] * len(crawls), done.stderr[-3000:]
    return found


def figure(found: dict[str, Any], name: str) -> int:
    return int(found["stats"].get(f"streamsched/{name}", 0))


def check_nothing_is_left(service: Running, found: dict[str, Any], site: Site) -> None:
    """No page is leased, and each outcome was applied."""
    with Client(f"http://{service.server.address}") as client:
        for path in site.visits:
            page = client.page(site.url(path))
            assert page is None or page.lease_until_s is None, path
    assert figure(found, "reported") == figure(found, "outcomes/applied")
