"""robots.txt as RFC 9309 has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest

from streamsched.web.robots import MOST_AGE_S, UNREACHABLE_AGE_S, Robots, fetch_robots, keep_own_groups
from streamsched.web.safe_fetch import SafeClient
from tests.support.raw_server import Talk, always, local_reach, raw_server, respond

NOW = 1_800_000_000.0


def robots_of(talk: Talk) -> Robots:
    async def fetch() -> Robots:
        async with raw_server(talk) as (port, heads), SafeClient(local_reach(port)) as client:
            found = await fetch_robots(client, f"http://127.0.0.1:{port}/a/b?c", NOW)
            assert heads[0].startswith(b"GET /robots.txt HTTP/1.1")
            return found

    return asyncio.run(fetch())


def allowed(text: str, path: str) -> bool:
    return Robots(keep_own_groups(text, "streamsched"), NOW).allows(f"http://a.example{path}")


@pytest.mark.parametrize(
    ("status", "allows", "reachable"),
    [
        *[(404, True, True), (403, True, True), (410, True, True), (401, True, True), (304, True, True)],
        *[(429, False, False), (500, False, False), (503, False, False)],
    ],
)
def test_what_answers_mean(status: int, allows: bool, reachable: bool) -> None:
    found = robots_of(always(respond(status, b"User-agent: *\nDisallow: /\n")))
    assert (found.allows("http://a.example/x"), found.reachable) == (allows, reachable)


def test_silence_forbids() -> None:
    async def fetch() -> Robots:
        async with SafeClient() as client:
            return await fetch_robots(client, "http://127.0.0.1/", NOW)

    assert not asyncio.run(fetch()).allows("http://127.0.0.1/")
    assert not robots_of(always(b"")).reachable


@pytest.mark.parametrize(("redirects", "allows"), [(5, False), (6, True)])
def test_five_redirects_are_followed(redirects: int, allows: bool) -> None:
    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split()[1]
        number = 0 if path == b"/robots.txt" else int(path[1:])
        is_end = number == redirects
        writer.write(
            respond(200, b"User-agent: *\nDisallow: /") if is_end else respond(301, b"", {"Location": f"/{number + 1}"})
        )

    found = robots_of(talk)
    assert found.reachable
    assert found.allows("http://a.example/x") is allows


def test_a_redirect_to_a_private_address_forbids() -> None:
    assert not robots_of(always(respond(302, b"", {"Location": "http://10.0.0.1/robots.txt"}))).reachable


def test_the_first_500_kib_count() -> None:
    head = b"User-agent: *\nDisallow: /in\n"
    body = head + b"# " + b"x" * ((500 << 10) - len(head) - 3) + b"\nDisallow: /out\n"
    found = robots_of(always(respond(200, body)))
    assert not found.allows("http://a.example/in")
    assert found.allows("http://a.example/out")


def test_age() -> None:
    assert Robots("", NOW).is_fresh(NOW + MOST_AGE_S - 1)
    assert not Robots("", NOW).is_fresh(NOW + MOST_AGE_S)
    assert not Robots("", NOW, reachable=False).is_fresh(NOW + UNREACHABLE_AGE_S)
    assert not Robots("", NOW).is_fresh(NOW - 1.0)


CASES: Mapping[str, Mapping[str, bool]] = {
    "User-agent: *\nDisallow: /a\nAllow: /a/b\n": {"/a/x": False, "/a/b/c": True, "/x": True},
    "User-agent: *\nAllow: /p\nDisallow: /p\n": {"/p": True},
    "User-agent: other\nDisallow: /\n": {"/x": True},
    "user-AGENT: StreamSched\nDisallow: /x\n\nUser-agent: *\nDisallow: /\n": {"/x": False, "/y": True},
    "User-agent: streamsched/2.0\nDisallow: /x\n": {"/x": False},
    "User-agent: streamsched\nDisallow: /x\nUser-agent: streamsched\nDisallow: /y\n": {
        "/x": False,
        "/y": False,
        "/z": True,
    },
    "User-agent: a\nUser-agent: streamsched\nUser-agent: b\nDisallow: /x\n": {"/x": False, "/y": True},
    "User-agent: *\nDisallow: *.gif$\n": {"/a.gif": False, "/a.gif?x": True},
    "User-agent: *\nDisallow: /%61\n": {"/a": False},
    "User-agent: *\nDisallow: /ö\n": {"/%C3%B6": False},
    "User-agent: *\nDisallow:\n": {"/x": True},
    "User-agent: * # all\nDisallow: /x # this\n": {"/x": False},
    "Disallow: /x\n": {"/x": True},
    "<!DOCTYPE html><p>Disallow: /": {"/x": True},
    "User-agent: streamschedx\nDisallow: /\n": {"/x": True},
    "User-agent: a\nDisallow: /x\nUser-agent: b\nUser-agent: *\nDisallow: /y\n": {"/x": True, "/y": False},
}


@pytest.mark.parametrize("text", CASES)
def test_rules(text: str) -> None:
    assert {path: allowed(text, path) for path in CASES[text]} == CASES[text]


def test_a_byte_order_mark_and_other_ends_of_lines() -> None:
    found = robots_of(
        always(respond(200, b"\xef\xbb\xbfUser-agent: *\rDisallow: /x\rCrawl-delay: 7\rSitemap: http://a.example/s\r"))
    )
    assert not found.allows("http://a.example/x")
    assert (found.delay_s(), found.sitemaps()) == (7.0, ["http://a.example/s"])
    assert Robots("User-agent: *\nCrawl-delay: 1e9", NOW).delay_s() == 3600.0


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"User-agent: a{n}\n" for n in range(12_000)) + "".join(f"Disallow: /{n}\n" for n in range(20_000)),
        "User-agent: *\n" + "".join(f"Disallow: /{n}*a*b*c$\n" for n in range(20_000)),
        "User-agent: *\nDisallow: /" + "a*" * 200_000,
        "User-agent: *\n" * 30_000,
        "Sitemap: http://a.example/\n" * 15_000,
    ],
    ids=["names", "patterns", "stars", "groups", "sitemaps"],
)
def test_a_hostile_file_takes_little_time(text: str) -> None:
    start = time.process_time()
    found = Robots(keep_own_groups(text[: 500 << 10], "streamsched"), NOW)
    found.allows("http://a.example/" + "a" * 8_000)
    found.sitemaps()
    assert time.process_time() - start < 10.0  # minutes if its cost were a product
