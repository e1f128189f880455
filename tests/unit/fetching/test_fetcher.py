"""The fetcher against sites on this machine: what it asks for, and what it announces."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamsched.errors import ServiceUnavailable, SourceError
from streamsched.fetching.document_book import Document, Kind
from streamsched.fetching.document_schedule import DAY_S
from streamsched.fetching.fetcher import Fetcher, FetchSettings
from streamsched.signals import SignalBatch
from tests.support.raw_server import local_reach
from tests.support.web_site import NOW, Page, Request, Web, everywhere, run_once, web

HOUR_S = 3_600.0


def sitemap(*paths: str, times: Sequence[str] = (), host: str = "a.example", root: str = "urlset") -> bytes:
    entry = "url" if root == "urlset" else "sitemap"
    stated = [f"<lastmod>{each}</lastmod>" for each in times] or [""] * len(paths)
    items = "".join(
        f"<{entry}><loc>{path if '//' in path else f'http://{host}:PORT{path}'}</loc>{at}</{entry}>"
        for path, at in zip(paths, stated, strict=True)
    )
    return f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{items}</{root}>'.encode()


def rss(*links: str, head: str = "") -> bytes:
    items = "".join(f"<item><link>{link}</link></item>" for link in links)
    return f'<rss version="2.0"><channel>{head}{items}</channel></rss>'.encode()


def on_web(use: Callable[[Web], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with web() as site:
            await use(site)

    asyncio.run(run())


MAP: dict[str, Kind] = {"a.example/map.xml": "sitemap"}
FEED: dict[str, Kind] = {"a.example/feed": "feed"}


def test_what_is_new_since_the_last_visit_is_announced(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/map.xml"] = Page(sitemap("/1", "/2"))
        first = await run_once(site, tmp_path, MAP)
        assert (first.signals, first.counts["entries"], first.counts["documents"]) == ([], 2, 1)
        site.pages["a.example/map.xml"] = Page(sitemap("/1", "/2", "/3"))
        site.now += 2 * HOUR_S
        second = await run_once(site, tmp_path)
        assert second.paths() == ["/3"]
        assert second.signals[0].source == "sitemap"
        assert (await run_once(site, tmp_path)).counts["visits"] == 0, "not due again at the same time"

    on_web(use)


@pytest.mark.parametrize("headers", [{"ETag": '"1"'}, {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}])
def test_what_has_not_changed_is_not_sent_again(tmp_path: Path, headers: dict[str, str]) -> None:
    async def use(site: Web) -> None:
        def answer(request: Request) -> Page:
            is_known = bool({"if-none-match", "if-modified-since"} & set(request.headers))
            return Page(b"", 304, headers) if is_known else Page(sitemap("/1"), 200, headers)

        site.pages["a.example/map.xml"] = answer
        await run_once(site, tmp_path, MAP)
        for _ in range(2):
            site.now += 2 * HOUR_S
            assert (await run_once(site, tmp_path)).counts["not_modified"] == 1

    on_web(use)


def test_validators_are_not_sent_for_what_is_not_remembered(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        headers = {"ETag": '"1"'}
        site.pages["a.example/map.xml"] = Page(sitemap("/1"), 200, headers)
        await run_once(site, tmp_path, MAP)
        (tmp_path / "entries.msgpack").unlink()
        site.now += 2 * HOUR_S
        day = "2027-01-15T08:30:00Z"  # after the first visit
        site.pages["a.example/map.xml"] = Page(sitemap("/1", "/2", times=["2026-01-01", day]), 200, headers)
        run = await run_once(site, tmp_path)
        assert run.counts["not_modified"] == 0
        assert run.paths() == ["/2"], "what is dated after the last visit"

    on_web(use)


@pytest.mark.parametrize(
    ("page", "hours"),
    [
        (Page(sitemap("/1"), headers={"Cache-Control": "public, max-age=36000"}), 10),
        (Page(rss("http://a.example/1", head="<ttl>600</ttl>")), 10),
        (Page(sitemap("/1"), headers={"Cache-Control": "max-age=999999999"}), 24),
        (Page(b"", 503, headers={"Retry-After": "36000"}), 10),
        (Page(b"", 429, headers={"Retry-After": "36000"}), 10),
    ],
)
def test_a_document_rests_as_long_as_it_asks(tmp_path: Path, page: Page, hours: int) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/feed"] = page
        assert (await run_once(site, tmp_path, FEED)).counts["visits"] == 1
        site.now += (hours - 1) * HOUR_S
        assert (await run_once(site, tmp_path)).counts["visits"] == 0
        site.now += 2 * HOUR_S
        assert (await run_once(site, tmp_path)).counts["visits"] == 1

    on_web(use)


def test_410_ends_a_document(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/feed"] = Page(status=410)
        assert (await run_once(site, tmp_path, FEED)).counts["failed_status"] == 1
        site.pages["a.example/feed"] = Page(rss())
        for _ in range(3):
            site.now += 40 * DAY_S
            assert (await run_once(site, tmp_path, FEED)).counts["visits"] == 0

    on_web(use)


def test_of_an_index_only_what_is_newer_is_read(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        old, new = "2026-01-01T00:00:00Z", "2027-01-15T09:00:00Z"
        index = sitemap("/a.xml", "/b.xml", times=[old, "2026-01-02T00:00:00Z"], root="sitemapindex")
        site.pages |= {
            "a.example/map.xml": Page(index),
            "a.example/a.xml": Page(sitemap("/1")),
            "a.example/b.xml": Page(sitemap("/2")),
            "a.example/c.xml": Page(sitemap("/3", "/4", times=[old, new])),
        }
        await run_once(site, tmp_path, MAP)
        assert sorted(site.asked()) == ["a.example/a.xml", "a.example/b.xml", "a.example/map.xml"]
        site.now += 2 * HOUR_S
        paths, times = ["/a.xml", "/b.xml", "/c.xml"], [old, new, new]
        site.pages["a.example/map.xml"] = Page(sitemap(*paths, times=times, root="sitemapindex"))
        site.pages["a.example/b.xml"] = Page(sitemap("/2", "/5"))
        run = await run_once(site, tmp_path)
        assert sorted(site.asked()) == ["a.example/b.xml", "a.example/c.xml", "a.example/map.xml"]
        assert run.paths() == ["/4", "/5"]
        site.now += 2 * HOUR_S
        await run_once(site, tmp_path)
        assert site.asked() == ["a.example/map.xml"]

    on_web(use)


def test_an_index_of_indexes_is_not_followed(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/map.xml"] = Page(sitemap("/b.xml", root="sitemapindex"))
        site.pages["a.example/b.xml"] = Page(sitemap("/c.xml", "/map.xml", root="sitemapindex"))
        await run_once(site, tmp_path, MAP)
        assert sorted(site.asked()) == ["a.example/b.xml", "a.example/map.xml"]

    on_web(use)


def test_which_pages_a_sitemap_may_announce(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        pages = ["/in/1", "/out", "/in/../out", "/in/%2e%2e/out", "http://b.example:PORT/1", "http://c.example:PORT/1"]
        named: dict[str, Kind] = {"a.example/in/map.xml": "sitemap", "b.example/": "site"}
        site.pages["a.example/in/map.xml"] = Page(sitemap())
        await run_once(site, tmp_path, named)
        site.now += 2 * HOUR_S
        site.pages["a.example/in/map.xml"] = Page(sitemap(*pages))
        run = await run_once(site, tmp_path)
        assert (run.paths(), run.counts["other_host"]) == (["/in/1"], 5)
        line = f"Sitemap: {site.url('a.example/in/map.xml')}\n".encode()
        site.pages["b.example/robots.txt"] = Page(line)
        site.now += 2 * DAY_S
        signals = (await run_once(site, tmp_path)).signals  # the robots.txt of b names the sitemap
        site.now += 2 * HOUR_S
        signals += (await run_once(site, tmp_path)).signals
        assert [signal.url for signal in signals] == [site.url("b.example/1")]
        site.pages["a.example/robots.txt"] = Page(line)
        site.now += 2 * DAY_S
        runs = [await run_once(site, tmp_path)]
        site.now += 2 * HOUR_S
        runs.append(await run_once(site, tmp_path))
        announced = {path for run in runs for path in run.paths()}
        assert "/out" in announced, "its own host's robots.txt names it: any page of the host"

    on_web(use)


def test_robots_txt_is_asked_first_and_once_a_day(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages |= {
            "a.example/robots.txt": Page(b"User-agent: *\nDisallow: /no"),
            "a.example/yes": Page(rss()),
            "a.example/no": Page(rss()),
        }
        run = await run_once(site, tmp_path, {"a.example/yes": "feed", "a.example/no": "feed"})
        assert run.counts["failed_robots"] == 1
        assert site.asked(robots=True) == ["a.example/robots.txt", "a.example/yes"]
        site.now += 2 * HOUR_S
        await run_once(site, tmp_path)
        assert site.asked(robots=True) == ["a.example/yes"]
        site.pages["a.example/robots.txt"] = Page(status=404)
        site.now += DAY_S
        await run_once(site, tmp_path)
        assert sorted(site.asked(robots=True)) == ["a.example/no", "a.example/robots.txt", "a.example/yes"]

    on_web(use)


def test_nothing_is_fetched_while_robots_txt_fails(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages |= {"a.example/robots.txt": Page(status=503), "a.example/feed": Page(rss())}
        run = await run_once(site, tmp_path, FEED)
        assert run.counts["failed_unreachable"] == 1
        assert site.asked(robots=True) == ["a.example/robots.txt"]
        del site.pages["a.example/robots.txt"]
        site.now += 4 * HOUR_S
        await run_once(site, tmp_path)
        assert site.asked() == ["a.example/feed"]

    on_web(use)


def test_a_redirect_obeys_the_robots_txt_of_its_host(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages |= {
            "a.example/feed": Page(status=301, headers={"Location": "http://b.example:PORT/feed"}),
            "b.example/robots.txt": Page(b"User-agent: *\nDisallow: /feed"),
            "b.example/feed": Page(rss()),
        }
        assert (await run_once(site, tmp_path, FEED)).counts["failed_robots"] == 1
        assert "b.example/feed" not in site.asked()

    on_web(use)


def test_dots_in_a_path_do_not_pass_robots_txt(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages |= {
            "a.example/robots.txt": Page(b"User-agent: *\nDisallow: /no/"),
            "b.example/feed": Page(status=302, headers={"Location": "http://a.example:PORT/yes/../no/feed"}),
            "a.example/no/feed": Page(rss()),
        }
        named: dict[str, Kind] = {"b.example/feed": "feed", "a.example/yes/../no/feed": "feed"}
        assert (await run_once(site, tmp_path, named)).counts["failed_robots"] == 2
        assert site.asked() == ["b.example/feed"]

    on_web(use)


def test_sites_are_discovered(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        page = b'<html><head><link rel="alternate" type="application/rss+xml" href="/feed"><link href=/x>'
        site.pages |= {
            "a.example/robots.txt": Page(b"Sitemap: http://a.example:PORT/maps/1.xml\nSitemap: nonsense\n"),
            "a.example/maps/1.xml": Page(sitemap("/1")),
            "a.example/": Page(page),
            "a.example/feed": Page(rss("http://a.example:PORT/2")),
            "b.example/sitemap.xml": Page(sitemap("/3", host="b.example")),
            "b.example/": Page(b"<html>"),
        }
        run = await run_once(site, tmp_path, {"a.example/": "site", "b.example/": "site"})
        assert run.counts["documents"] == 5
        assert sorted(site.asked()) == [
            *("a.example/", "a.example/feed", "a.example/maps/1.xml", "b.example/", "b.example/sitemap.xml")
        ]
        site.now += 2 * HOUR_S
        site.pages["a.example/feed"] = Page(rss(*(f"http://{host}:PORT/4" for host in ("a.example", "c.example"))))
        site.pages["a.example/maps/1.xml"] = Page(sitemap("/1", "/out"))
        run = await run_once(site, tmp_path)
        assert run.paths() == ["/4", "/out"], "a feed that a site names speaks of that site"
        assert run.counts["other_host"] == 1

    on_web(use)


def test_a_host_is_asked_one_thing_at_a_time_and_not_too_often(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        named: dict[str, Kind] = {f"{host}.example/{n}": "feed" for host in "ab" for n in range(4)}
        site.pages |= {place: Page(rss()) for place in named}
        site.pages["a.example/3"] = Page(status=302, headers={"Location": "http://b.example:PORT/0"})
        await run_once(site, tmp_path, named, delay_s=0.1)
        for host in ("a.example", "b.example"):
            times = [request.at_s for request in site.requests if request.host == host]
            assert len(times) >= 5
            assert min(b - a for a, b in pairwise(times)) >= 0.1

    on_web(use)


def test_a_long_crawl_delay_holds_no_slot(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages |= {
            "a.example/robots.txt": Page(b"User-agent: *\nCrawl-delay: 3000"),
            "a.example/1": Page(rss()),
            "a.example/2": Page(status=302, headers={"Location": "http://b.example:PORT/1"}),
            "b.example/robots.txt": Page(b"User-agent: *\nCrawl-delay: 3000"),
            "b.example/1": Page(rss()),
            "c.example/1": Page(rss()),
        }
        named = [f"{host}.example/1" for host in "abc"]
        await run_once(site, tmp_path, dict.fromkeys([*named, "a.example/2"], "feed"), jobs=1)
        first = site.asked()
        assert set(named) <= {*first, "a.example/1"}
        assert len([place for place in first if place.startswith("a.")]) == 1
        for _ in range(3):
            site.now += HOUR_S
            await run_once(site, tmp_path)
        asked = site.asked()
        assert {"a.example/1", "a.example/2"} <= {*first, *asked}
        times = [place for place in asked if place.startswith("b.")]
        assert 1 <= len(times) <= 3, "by redirects too its host is asked every 3,000 seconds only"

    on_web(use)


@pytest.mark.parametrize(
    "headers",
    [
        {"Location": "http://a.example:PORT/" + "x" * 9_000},
        {"Location": "http://a.example:PORT/" + "\xe9" * 4_000},
        {"Location": "/feed", "Retry-After": "9" * 5_000, "Cache-Control": "max-age=" + "9" * 5_000},
        {"Location": "//[", "ETag": "\x80" * 3_000},
        {},
    ],
)
@pytest.mark.parametrize("status", [301, 299, 999])
def test_odd_answers_stop_nothing(tmp_path: Path, status: int, headers: dict[str, str]) -> None:
    async def use(site: Web) -> None:
        site.pages |= {"a.example/feed": Page(rss(), status, headers), "b.example/feed": Page(rss())}
        run = await run_once(site, tmp_path, {"a.example/feed": "feed", "b.example/feed": "feed"})
        assert run.counts["visits"] == 2
        assert run.counts["failed_defect"] == 0

    on_web(use)


BAD = [
    (b"<html><body>not found</body></html>", "malformed"),
    (b"", "malformed"),
    (b"<urlset><url><loc>http://a.example/", "malformed"),
    (b'<!DOCTYPE x [<!ENTITY a "b">]><rss/>', "malformed"),
    (b"{", "malformed"),
    (gzip.compress(bytes(60 << 20)), "malformed"),
    (b"\xff\xfe\x00", "malformed"),
]


@pytest.mark.parametrize(("body", "kind"), BAD)
def test_bad_documents_are_counted_and_left_alone_for_a_while(tmp_path: Path, body: bytes, kind: str) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/feed"] = Page(body)
        run = await run_once(site, tmp_path, FEED)
        assert (run.counts["visits"], run.counts[f"failed_{kind}"]) == (1, 1)
        site.now += 1_000.0
        assert (await run_once(site, tmp_path)).counts["visits"] == 0
        site.now += DAY_S
        site.pages["a.example/feed"] = Page(rss("http://a.example/1"))
        assert (await run_once(site, tmp_path)).counts["entries"] == 1

    on_web(use)


def test_entries_are_counted_by_fate(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/map.xml"] = Page(sitemap("/1", "/1", "//", "http://b.example/", times=["x"] * 4))
        counts = (await run_once(site, tmp_path, MAP)).counts
        assert [counts[fate] for fate in ("entries", "repeated", "invalid", "other_host")] == [4, 1, 1, 1]

    on_web(use)


def open_fetcher(site: Web, directory: Path, deliver: Callable[[SignalBatch], None]) -> Fetcher:
    settings = FetchSettings(delay_s=0.001, reach=local_reach(site.port), resolve=everywhere, every_s=HOUR_S)
    return Fetcher(directory, deliver, settings, clock=site.clock, monotonic=time.monotonic)


@pytest.mark.parametrize("error", [SourceError("x", "is full"), ServiceUnavailable("POST /", "is silent")])
def test_signals_that_cannot_be_delivered_are_found_again(tmp_path: Path, error: Exception) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/map.xml"] = Page(sitemap("/1"), headers={"ETag": '"1"'})
        await run_once(site, tmp_path, MAP)
        site.now += 2 * HOUR_S
        site.pages["a.example/map.xml"] = Page(sitemap("/1", "/2"), headers={"ETag": '"2"'})

        def fail(_signals: SignalBatch) -> None:
            raise error

        with pytest.raises(type(error)), open_fetcher(site, tmp_path, fail) as fetcher:
            await fetcher.run(asyncio.Event(), once=True)
        site.now += 2 * HOUR_S
        assert (await run_once(site, tmp_path)).paths() == ["/2"]

    on_web(use)


def test_a_stop_gives_back_what_was_not_visited(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        stop = asyncio.Event()

        def answer(_request: Request) -> Page:
            stop.set()
            return Page(rss())

        site.pages |= {f"a.example/{n}": answer for n in range(5)}
        with open_fetcher(site, tmp_path, lambda _: None) as fetcher:
            fetcher.schedule.add(Document(site.url(f"a.example/{n}"), "feed") for n in range(5))
            await fetcher.run(stop)
            visited = fetcher.counts["visits"]
        assert visited <= 2
        assert (await run_once(site, tmp_path)).counts["visits"] >= 5 - visited

    on_web(use)


def test_what_a_killed_process_had_leased_is_visited_at_once(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        site.pages["a.example/feed"] = Page(rss())
        await run_once(site, tmp_path, FEED)
        site.now += 2 * HOUR_S
        with open_fetcher(site, tmp_path, lambda _: None) as fetcher:
            fetcher.schedule.refill()
            assert len(fetcher.schedule.choose(1)) == 1
        assert (await run_once(site, tmp_path)).counts["visits"] == 1

    on_web(use)


def test_the_scheduler_visits_lively_documents_more_often(tmp_path: Path) -> None:
    async def use(site: Web) -> None:
        number = 0

        def news(_request: Request) -> Page:
            nonlocal number
            number += 1
            return Page(rss(f"http://a.example/{number}"))

        quiet: dict[str, Kind] = {f"{n}.example/quiet": "feed" for n in range(9)}
        site.pages |= {place: Page(rss("http://b.example/")) for place in quiet} | {"a.example/news": news}
        await run_once(site, tmp_path, {"a.example/news": "feed", **quiet})
        site.asked()
        for _ in range(12):
            site.now += HOUR_S / 2
            await run_once(site, tmp_path)
        asked = site.asked()
        assert asked.count("a.example/news") > 1.5 * len(asked) / 10
        assert len(asked) <= 12 * 10 / 2 + 10, "its budget is one visit of each document an hour"
        assert site.now > NOW

    on_web(use)
