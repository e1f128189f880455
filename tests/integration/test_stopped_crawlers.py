"""Crawlers in processes of their own that are interrupted or killed, and services that are: no visit counts twice."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.child_processes import child_process
from tests.support.crawl_programs import TASKS
from tests.support.faulty_proxy import proxy_before
from tests.support.http_service import Running, make_client, running, started
from tests.support.local_site import LocalSite, local_site
from tests.support.paths import ROOT

PAGES = 150
KINDS = ["loop", "crawlee"] if importlib.util.find_spec("crawlee") else ["loop"]
MIN_REVISIT = {"min_revisit": 1e6}


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        site.delay_s = 0.02
        yield site


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, rate=1_000_000) as service:
        yield service


def urls(site: LocalSite) -> list[str]:
    return [f"{site.url}/p{i}" for i in range(PAGES)]


def prepare(client: Any, site: LocalSite) -> None:
    client.put("/v1/politeness", json=MIN_REVISIT).raise_for_status()
    client.post("/v1/discover", json={"urls": urls(site)}).raise_for_status()


@contextmanager
def crawler(kind: str, url: str) -> Iterator[subprocess.Popen[str]]:
    words = (sys.executable, "-m", "tests.support.crawl_programs", kind, url)
    with child_process(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        yield process


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def pages_of(client: Any, site: LocalSite) -> dict[str, dict[str, Any]]:
    """Return what the service knows of each page, by its path."""
    found = [client.get("/v1/pages/" + url.replace(":", "%3A").replace("/", "%2F")).json() for url in urls(site)]
    return {page["url"].removeprefix(site.url): page for page in found}


def visits(page: dict[str, Any]) -> int:
    return int(page["visits"] + page["failures"] + (page["last_visit_s"] is not None))


def leased(pages: dict[str, dict[str, Any]]) -> list[str]:
    return [path for path, page in pages.items() if page["lease_until_s"] is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_crawler_reports_and_gives_back_all_that_it_has(
    kind: str, service: Running, site: LocalSite
) -> None:
    prepare(service.client, site)
    with crawler(kind, f"http://{service.server.address}") as process:
        wait_until(lambda: len(site.requests) >= 30, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    pages = pages_of(service.client, site)
    assert leased(pages) == []
    assert len(site.requests) < PAGES
    counted = {path: visits(page) for path, page in pages.items() if visits(page)}
    assert set(counted.values()) == {1}
    assert set(site.requests.values()) == {1}
    assert len(site.requests) - TASKS <= len(counted) <= len(site.requests)  # requests that were cut off


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.soak] * (kind == "crawlee")) for kind in KINDS])
@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([signal.SIGKILL], id="killed"),
        pytest.param([signal.SIGINT, signal.SIGINT], id="twice", marks=pytest.mark.soak),
    ],
)
def test_pages_of_a_crawler_that_ends_at_once_are_visited_by_the_next_one(
    kind: str, signals: list[signal.Signals], service: Running, site: LocalSite
) -> None:
    prepare(service.client, site)
    with crawler(kind, f"http://{service.server.address}") as process:
        wait_until(lambda: len(site.requests) >= 30, process)
        for one in signals:
            process.send_signal(one)
            time.sleep(0.05)
        process.communicate(timeout=30)
    first = site.requests.copy()
    pages = pages_of(service.client, site)
    assert not any(visits(pages[path]) for path in leased(pages))
    service.clock.now_s += 1_000.0  # the leases have ended
    with crawler(kind, f"http://{service.server.address}") as process:
        wait_until(lambda: sum(map(visits, pages_of(service.client, site).values())) >= PAGES, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    pages = pages_of(service.client, site)
    assert [visits(page) for page in pages.values()] == [1] * PAGES
    assert leased(pages) == []
    again = [path for path, count in site.requests.items() if count > 1]  # whose outcomes were lost with the crawler
    assert set(again) <= set(first)
    assert max(site.requests.values()) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_crawler_survives_services_that_are_killed(kind: str, tmp_path: Path, site: LocalSite) -> None:
    serve = ("serve", "--state", tmp_path / "state", "--set", "http.rate=1000000")
    with proxy_before(("127.0.0.1", 9)) as proxy, crawler(kind, proxy.url) as process:
        for part in (1, 2, 3):
            with started(*serve) as (server, address), make_client(address) as client:
                if part == 1:
                    prepare(client, site)
                host, _, port = address.rpartition(":")
                proxy.upstream = (host, int(port))
                wait_until(lambda part=part: len(site.requests) >= part * PAGES // 3, process)  # type: ignore[misc]
                if part < 3:
                    server.kill()
                    continue
                wait_until(lambda: sum(map(visits, pages_of(client, site).values())) >= PAGES, process)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=30)
                pages = pages_of(client, site)
    assert [visits(page) for page in pages.values()] == [1] * PAGES
    assert set(site.requests.values()) == {1}
    assert leased(pages) == []
