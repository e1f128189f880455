"""Crawls of Scrapy that are stopped or killed, and services that go away meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy")

from streamsched.client import Client
from tests.support.child_processes import child_process
from tests.support.crawled_site import Site, html, serving
from tests.support.http_service import Running, running
from tests.support.scrapy_runs import ONCE, Present, check_nothing_is_left, crawl, described, figure, words

PAGES = [f"/p{number}" for number in range(60)]


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site) as site:
        slow = {link: html(link) for link in PAGES}
        site.replies = {"/": html("all", *PAGES), **slow}
        yield site


@contextmanager
def serve(folder: Path, address: str = "127.0.0.1:0") -> Iterator[Running]:
    with running(folder, clock=Present(), address=address) as service:
        service.scheduler.set_politeness(ONCE)
        yield service


def wait_until(done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for what a crawl does, which must not end before."""
    until_s = time.monotonic() + 60.0
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until_s
        time.sleep(0.02)


@contextmanager
def crawling(service: Running, site: Site, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a crawl that does not end by itself, slow enough to be interrupted in a batch."""
    slow: dict[str, Any] = {"DOWNLOAD_DELAY": 0.05, "DOWNLOAD_DELAY_JITTER": 0.0, "STREAMSCHED_IDLE_CLOSE": "1h"}
    told = described(service, "links", [site.url("/")], **{**slow, **settings})
    with child_process(words(told), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        yield process


def leases(service: Running, site: Site) -> list[str]:
    """Return the pages that are leased."""
    with Client(f"http://{service.server.address}") as client:
        pages = {path: client.page(site.url(path)) for path in PAGES}
    return [path for path, page in pages.items() if page is not None and page.lease_until_s is not None]


def test_one_interruption_gives_pages_back(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path) as service:
        with crawling(service, site) as process:
            wait_until(lambda: site.visits.total() > 15, process)
            assert leases(service, site)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60.0)
        (found,) = json.loads(out)
        check_nothing_is_left(service, found, site)
        assert found["stats"]["finish_reason"] == "shutdown", err[-2000:]
        assert figure(found, "released") > 0
        assert figure(found, "leased") == figure(found, "released") + figure(found, "reported") - 1
        assert figure(found, "reported") == site.visits.total()


def test_two_interruptions_give_back_what_they_can(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path) as service:
        with crawling(service, site, DOWNLOAD_DELAY=0.2, DOWNLOAD_TIMEOUT=100) as process:
            wait_until(lambda: site.visits.total() > 5, process)
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            started_s = time.monotonic()
            process.communicate(timeout=60.0)
            assert time.monotonic() - started_s < 20.0
        assert leases(service, site) == []


def test_leases_of_a_killed_crawl_expire(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path) as service:
        with crawling(service, site, STREAMSCHED_LEASE="3s") as process:
            wait_until(lambda: site.visits.total() > 15, process)
            process.kill()
            process.wait()
        assert leases(service, site)
        (found,) = crawl(described(service, "links", [site.url("/")], STREAMSCHED_IDLE_CLOSE="4s"))
        check_nothing_is_left(service, found, site)
        assert leases(service, site) == []
        with Client(f"http://{service.server.address}") as client:
            assert all(page.last_visit_s for path in PAGES if (page := client.page(site.url(path))))
        assert set(PAGES) <= set(site.visits)


def test_a_service_that_restarts_loses_no_page(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path) as service:
        address = service.server.address
        told = {"STREAMSCHED_BATCH": 8, "STREAMSCHED_PAGES": 60, "STREAMSCHED_IDLE_CLOSE": "5s", "DOWNLOAD_DELAY": 0.02}
        crawl_of = crawling(service, site, **told)
        process = crawl_of.__enter__()
        wait_until(lambda: site.visits.total() > 15, process)
    with serve(tmp_path, address) as service:
        out, _ = process.communicate(timeout=120.0)
        crawl_of.__exit__(None, None, None)
        (found,) = json.loads(out)
        check_nothing_is_left(service, found, site)
        assert [site.visits[path] for path in PAGES] == [1] * 60
        assert figure(found, "leased") == 60


def test_a_service_of_its_own_ends_with_the_crawl(site: Site, tmp_path: Path) -> None:
    state = tmp_path / "own"
    told = described(None, "links", [site.url("/")], STREAMSCHED_STATE=str(state), STREAMSCHED_PAGES=20)
    (found,) = crawl(told)
    assert figure(found, "leased") == 20
    assert figure(found, "reported") == figure(found, "outcomes/applied") == 21


@pytest.mark.soak
def test_a_service_of_its_own_ends_with_a_killed_crawl(site: Site, tmp_path: Path) -> None:
    state = str(tmp_path / "own")
    slow = described(None, "links", [site.url("/")], STREAMSCHED_STATE=state, DOWNLOAD_DELAY=0.1)
    with child_process(words(slow), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: site.visits.total() > 3, process)
        process.kill()
        process.wait()
    told = described(None, "links", [site.url("/")], STREAMSCHED_STATE=state, STREAMSCHED_PAGES=20)
    (again,) = crawl(told)  # its service has ended too, else the state would be in use
    assert figure(again, "leased") == 20
