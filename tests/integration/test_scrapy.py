"""Crawls of Scrapy processes against a local site and a service in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy")

from streamsched import Politeness
from streamsched.client import Client
from tests.support.browser import CHROMIUM
from tests.support.crawled_site import Reply, Site, html, serving
from tests.support.http_service import Running, running
from tests.support.scrapy_runs import ONCE, Present, check_nothing_is_left, crawl, described, figure

SELECT = {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site) as site:
        yield site


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, clock=Present()) as service:
        service.scheduler.set_politeness(ONCE)
        yield service


def unruly(site: Site) -> None:
    """Describe pages of every kind, all linked from the first."""
    moved = {"location": "/target"}
    site.replies = {
        "/robots.txt": Reply(body=b"User-agent: *\nDisallow: /private\nCrawl-delay: 0.02\n"),
        "/plain": html("plain", "/plain", "/plain#part"),
        "/old": Reply(301, headers=moved),
        "/older": Reply(302, headers={"location": "/old"}),
        "/target": html("target"),
        "/out": Reply(302, headers={"location": f"http://localhost:{site.address.rpartition(':')[2]}/outside"}),
        "/outside": html("outside"),
        "/loop": Reply(302, headers={"location": "/loop"}),
        "/there": Reply(302, headers={"location": "/back"}),
        "/back": Reply(302, headers={"location": "/there"}),
        "/flaky": [Reply(503), Reply(503), html("flaky")],
        "/down": Reply(500),
        "/slow": Reply(wait_s=9.0),
        "/broken": Reply(body=None),
        "/paper": Reply(body=b"%PDF-1.7 \xff\xfe", headers={"content-type": "application/pdf"}),
        "/empty": Reply(headers={"content-type": "text/html"}),
        "/junk": Reply(body=b"<\x00\xff" * 5_000, headers={"content-type": "text/html; charset=none"}),
        "/large": Reply(body=b"<p>word</p>" * 600_000, headers={"content-type": "text/html"}),
        "/private": html("private"),
    }
    others = ("/robots.txt", "/target", "/outside", "/paper")
    links = [*(path for path in site.replies if path not in others), "/gone", "/paper#page=2"]
    site.replies["/"] = html("all", *links, "/plain")


def test_a_redirect_to_a_host_that_is_not_allowed_is_reported_and_not_followed(site: Site, service: Running) -> None:
    elsewhere = f"http://localhost:{site.address.rpartition(':')[2]}/outside"
    site.replies = {"/": html("all", "/out", elsewhere), "/out": Reply(302, headers={"location": elsewhere})}
    with Client(f"http://{service.server.address}") as client:
        client.discover(["https://other.example/"])  # of a host that the spider does not ask for
        (found,) = crawl(described(service, "links", [site.url("/")], allowed=["127.0.0.1"]))
        out, target = client.page(site.url("/out")), client.page(elsewhere)
    check_nothing_is_left(service, found, site)
    assert out is not None
    assert out.failures == 0
    assert target is not None  # as `moved_to`
    assert target.last_outcome_s is None
    assert (figure(found, "leased"), figure(found, "dropped"), site.visits["/outside"]) == (1, 1, 0)


def test_unchanged_pages_are_not_sent_again_with_validators(site: Site, service: Running) -> None:
    tagged = Reply(body=html("page").body, headers={"content-type": "text/html", "etag": '"1"'})
    site.replies = {"/": [tagged, Reply(304, headers={"etag": '"1"'})]}
    service.scheduler.set_politeness(Politeness())
    (found,) = crawl(described(service, "links", [site.url("/")], STREAMSCHED_VALIDATORS=True, STREAMSCHED_PAGES=3))
    check_nothing_is_left(service, found, site)
    assert len(found["items"]) == 1
    assert (figure(found, "reported"), figure(found, "outcomes/changed")) == (4, 0)
    assert found["stats"]["downloader/response_status_count/304"] == 3


def test_costs_are_reported_in_the_unit_that_the_settings_give(site: Site, service: Running) -> None:
    site.replies = {"/paid": html("paid")}
    crawl(described(service, "links", [site.url("/paid")], STREAMSCHED_COST="1ms"))
    with Client(f"http://{service.server.address}") as client:
        paid = client.page(site.url("/paid"))
    assert paid is not None
    assert 0.1 < paid.cost < 5_000.0
    assert paid.cost != 1.0


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no browser: Debian's package chromium is missing")
def test_a_browser_visits_each_page_once(site: Site, service: Running) -> None:
    pytest.importorskip("scrapy_playwright", reason="scrapy-playwright is not installed")
    script = b"<html><body><main></main><script>document.body.append('shown by a script')</script></body></html>"
    site.replies = {
        "/": html("all", "/old", "/script", "/gone", "/broken"),
        "/old": Reply(301, headers={"location": "/target"}),
        "/target": html("target"),
        "/script": Reply(body=script, headers={"content-type": "text/html"}),
        "/gone": Reply(404, body=b"gone"),  # to Chromium one without a body is a failure
        "/broken": Reply(body=None),
    }
    scheme = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    options: dict[str, Any] = {
        "DOWNLOAD_HANDLERS": {"http": scheme, "https": scheme},
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": str(CHROMIUM), "args": ["--no-sandbox"]},
        "STREAMSCHED_META": {"playwright": True},
        "STREAMSCHED_IDLE_CLOSE": "2s",
        "DOWNLOAD_TIMEOUT": 30,
        "RETRY_ENABLED": False,
    }
    with Client(f"http://{service.server.address}") as client:
        client.discover([site.url("/")])
        (found,) = crawl(described(service, "links", [], **options))
        check_nothing_is_left(service, found, site)
        for path in ("/", "/old", "/target", "/script", "/gone", "/broken"):
            page = client.page(site.url(path))
            assert page is not None, path
            assert page.last_outcome_s is not None, path
            assert (page.failures > 0, page.gone > 0) == (path == "/broken", path == "/gone"), path
    assert [site.visits[path] for path in ("/", "/old", "/script", "/gone")] == [1, 1, 1, 1]
    assert figure(found, "leased") == figure(found, "reported") - 1  # the redirect's target is one more
    assert {site.url(path) for path in ("/", "/target", "/script")} <= {item["url"] for item in found["items"]}
    assert found["stats"]["playwright/request_count/navigation"] >= figure(found, "leased")


@pytest.mark.soak
def test_pages_of_50_megabytes_are_reported(site: Site, service: Running) -> None:
    page = Reply(body=b"<p>word</p>" * 5_000_000, headers={"content-type": "text/html"})
    site.replies = {"/": html("all", "/page", "/paper"), "/page": page}
    site.replies["/paper"] = Reply(body=b"%PDF" * 13_000_000, headers={"content-type": "application/pdf"})
    (found,) = crawl(described(service, "rules", [site.url("/")], DOWNLOAD_TIMEOUT=100))
    check_nothing_is_left(service, found, site)
    assert (figure(found, "reported"), figure(found, "outcomes/failures")) == (2, 0)


def test_a_service_that_refuses_closes_the_spider(site: Site, tmp_path: Path) -> None:
    site.replies = {"/": html("all")}
    with running(tmp_path, clock=Present(), tokens=True) as service:
        (found,) = crawl(described(service, "links", [site.url("/")], STREAMSCHED_TOKEN="ss_wrong"))
    assert found["stats"]["finish_reason"] == "streamsched_refused"
    assert figure(found, "leased") == 0


@pytest.mark.parametrize(
    "reactor", [pytest.param({}, id="asyncio"), pytest.param(SELECT, id="select", marks=pytest.mark.soak)]
)
def test_each_visit_is_reported_once_whatever_pages_answer(
    site: Site, service: Running, reactor: dict[str, Any]
) -> None:
    unruly(site)
    (found,) = crawl(described(service, "links", [site.url("/")], ROBOTSTXT_OBEY=True, **reactor))
    check_nothing_is_left(service, found, site)
    with Client(f"http://{service.server.address}") as client:
        rules = client.rules().hosts
        pages = {path: client.page(site.url(path)) for path in site.replies if path != "/robots.txt"}
        outside = client.page(f"http://localhost:{site.address.rpartition(':')[2]}/outside")
    assert rules[site.address].delay == 0.02
    assert outside is not None
    assert outside.last_visit_s is not None
    denied = pages.pop("/private")
    assert denied is not None
    assert denied.robots_denied
    assert site.visits["/private"] == 0
    del pages["/outside"]  # of this host nobody has heard
    for path, page in pages.items():
        assert page is not None, path
        assert page.last_outcome_s is not None, path
        assert (page.failures > 0) == (path in FAILING), path
        assert page.cost == 1.0, path  # no setting gives a unit
    assert [site.visits[path] for path in ("/flaky", "/down", "/plain", "/gone")] == [3, 3, 1, 1]
    urls = Counter(item["url"] for item in found["items"])
    assert {url for url, count in urls.items() if count > 1} <= {site.url("/target")}


FAILING = ("/loop", "/there", "/back", "/down", "/slow", "/broken")


def test_a_storm_of_refusals_ends_the_visits_of_a_host(site: Site, service: Running) -> None:
    links = [f"/p{number}" for number in range(30)]
    site.replies = {"/": html("all", *links)}
    for number, link in enumerate(links):
        site.replies[link] = Reply(429 if number % 2 else 503, headers={"retry-after": "60"})
    (found,) = crawl(described(service, "links", [site.url("/")], RETRY_TIMES=1, CONCURRENT_REQUESTS_PER_DOMAIN=2))
    check_nothing_is_left(service, found, site)
    assert figure(found, "leased") == figure(found, "outcomes/failures") + figure(found, "released")
    assert figure(found, "outcomes/failures") < 20  # the next batch is asked for while half of one is left
    assert 2 <= sum(site.visits[link] for link in links) < 40


def test_spiders_know_what_has_changed(site: Site, service: Running) -> None:
    site.replies = {"/": html("all", "/same", "/new"), "/same": html("same"), "/new": [html("one"), html("two")]}
    service.scheduler.set_politeness(Politeness())
    (found,) = crawl(described(service, "links", [site.url("/")], STREAMSCHED_PAGES=40, STREAMSCHED_BATCH=3))
    check_nothing_is_left(service, found, site)
    verdicts: dict[str, list[bool | None]] = {}
    for item in found["items"]:
        verdicts.setdefault(item["url"], []).append(item["changed"])
    for path, (first, *later) in ((path, verdicts[site.url(path)]) for path in site.replies):
        assert first is None
        assert later == [path == "/new", *[False] * (len(later) - 1)]
    assert figure(found, "leased") == 40


def test_a_lease_brings_the_callback_of_a_rule(site: Site, service: Running) -> None:
    site.replies = {"/": html("all", "/list", "/item/1"), "/list": html("list", "/item/2")}
    site.replies |= {f"/item/{number}": html("item") for number in (1, 2)}
    (found,) = crawl(described(service, "rules", [site.url("/")]))
    check_nothing_is_left(service, found, site)
    assert sorted(item["url"] for item in found["items"]) == [site.url("/item/1"), site.url("/item/2")]
    assert figure(found, "leased") == 3


def test_a_sitemap_is_read_by_scrapy_and_its_pages_are_leased(site: Site, service: Running) -> None:
    paths = ("/item/1", "/about")
    index = "".join(f"<sitemap><loc>{site.url('/second.xml')}</loc></sitemap>")
    entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
    kind = {"content-type": "text/xml"}
    site.replies = {
        "/first.xml": Reply(body=f"<sitemapindex>{index}</sitemapindex>".encode(), headers=kind),
        "/second.xml": Reply(body=f"<urlset>{entries}</urlset>".encode(), headers=kind),
        **{path: html(path) for path in paths},
    }
    (found,) = crawl(described(service, "sitemaps", [site.url("/first.xml")]))
    check_nothing_is_left(service, found, site)
    assert {(item["url"], item["by"]) for item in found["items"]} == {
        (site.url("/item/1"), "parse_item"),
        (site.url("/about"), "parse"),
    }
    assert figure(found, "leased") == figure(found, "reported") == 2


def test_requests_that_a_lease_cannot_bring_back_stay_with_scrapy(site: Site, service: Running) -> None:
    site.replies = {"/": html("all", "/item/1", "/other"), "/item/1": html("item"), "/own": html("own")}
    site.replies["/other"] = html("other")
    (found,) = crawl(
        described(service, "items", [site.url("/")], STREAMSCHED_CALLBACKS={"/item/": "parse_item"}),
    )
    check_nothing_is_left(service, found, site)
    assert figure(found, "leased") == 1  # the item
    assert figure(found, "links_kept") == 2  # its callback is not that of its URL; and it has arguments
    assert {(item["by"], item.get("mark", 0)) for item in found["items"]} == {
        ("parse", 0),
        ("parse_item", 0),
        ("parse_item", 1),
    }
    assert sum(site.visits.values()) == 4


def test_two_spiders_share_one_service(site: Site, service: Running) -> None:
    links = [f"/p{number}" for number in range(40)]
    site.replies = {"/": html("all", *links), **{link: html(link) for link in links}}
    both = [described(service, "links", [site.url("/")], STREAMSCHED_BATCH=5) for _ in range(2)]
    found = crawl(*both)
    assert [site.visits[link] for link in links] == [1] * 40
    assert sum(figure(one, "leased") for one in found) == 40
