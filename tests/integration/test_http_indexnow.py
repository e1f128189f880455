"""IndexNow: what the service answers to notices, which key files it believes, and what attackers can cause."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.errors import SettingsError
from streamsched.http.endpoints import indexnow
from streamsched.service.http_settings import HttpSettings
from tests.support.crawled_site import Reply, Site, serving
from tests.support.http_service import Running, running

KEY = "0123456789abcdef"


class KeySite(Site):
    """A site with a key file. What it answers below ``/slow`` waits for `hold`."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.replies = {f"/{KEY}.txt": Reply(body=KEY.encode())}
        self.hold = threading.Event()

    def answer(self, path: str) -> Reply:
        if path.startswith("/slow"):
            self.hold.wait(60.0)
        return super().answer(path)

    def notice(self, *paths: str, **others: Any) -> dict[str, Any]:
        return {"host": self.address, "key": KEY, "urlList": [self.url(path) for path in paths], **others}


@pytest.fixture
def site() -> Iterator[KeySite]:
    with serving(KeySite) as found:
        yield found
        found.hold.set()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexnow, "_HOST_RATE", 1_000)
        with running(tmp_path_factory.mktemp("service"), indexnow=True, indexnow_allow="127.0.0.0/8") as found:
            yield found


@pytest.fixture
def service(shared: Running) -> Running:
    """The service of these tests, which knows no page at first; each test has a site of its own."""
    shared.scheduler.forget(host="*")
    return shared


def post(service: Running, notice: Any) -> httpx.Response:
    return service.client.post("/indexnow", json=notice)


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["code"]
    return found


def signals(service: Running) -> int:
    """Return how many pages the scheduler has got signals of: each of them is another one, and new."""
    return len(service.scheduler)


def test_pages_of_a_site_with_a_key_become_signals(service: Running, site: KeySite) -> None:
    assert post(service, site.notice("/a", "/b")).status_code == 200
    assert signals(service) == 2
    assert service.scheduler.page(site.url("/a"), now=service.clock.read()) is not None
    query = {"url": site.url("/c"), "key": KEY}
    assert service.client.get("/indexnow", params=query).status_code == 200
    assert signals(service) == 3
    assert site.visits == {f"/{KEY}.txt": 1}, "a right key is asked for once an hour"


@pytest.mark.parametrize("body", [f"\ufeff{KEY}\r\n", f"  {KEY}\n\n", KEY])
def test_how_a_key_file_may_be_written(service: Running, site: KeySite, body: str) -> None:
    site.replies[f"/{KEY}.txt"] = Reply(body=body.encode(), headers={"content-type": "text/plain"})
    assert post(service, site.notice("/a")).status_code == 200


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Reply(404), "no_key_file"),
        (Reply(500, KEY.encode()), "no_key_file"),
        (Reply(206, KEY.encode()), "no_key_file"),
        (Reply(301, headers={"location": "/other.txt"}), "no_key_file"),
        (Reply(), "wrong_key"),
        (Reply(body=KEY.upper().encode()), "wrong_key"),
        (Reply(body=f"{KEY}0".encode()), "wrong_key"),
        (Reply(body=f"{KEY}\n{KEY}".encode()), "wrong_key"),
        (Reply(body=b" " * 100_000 + KEY.encode()), "wrong_key"),
        (Reply(body=KEY.encode(), headers={"content-encoding": "br"}), "no_key_file"),
    ],
)
def test_a_key_file_that_is_missing_wrong_or_elsewhere(
    service: Running, site: KeySite, answer: Reply, expected: str
) -> None:
    site.replies |= {f"/{KEY}.txt": answer, "/other.txt": Reply(body=KEY.encode())}
    found = post(service, site.notice("/a"))
    assert (found.status_code, code(found)) == (403, expected)
    assert signals(service) == 0
    assert site.visits == {f"/{KEY}.txt": 1}, "redirects are not followed"


def test_a_key_file_of_a_directory_speaks_of_that_directory(service: Running, site: KeySite) -> None:
    site.replies["/shop/key.txt"] = Reply(body=KEY.encode())
    of_shop = {"keyLocation": site.url("/shop/key.txt")}
    assert post(service, site.notice("/shop/a", **of_shop)).status_code == 200
    for path in ("/a", "/shopping", "/shop/../a", "/shop/%2e%2E/a", "/SHOP/a", ""):
        found = post(service, site.notice("/shop/a", path, **of_shop))
        assert (found.status_code, code(found)) == (422, "foreign_url"), path
    assert signals(service) == 1


def test_urls_of_other_hosts(service: Running, site: KeySite) -> None:
    for url in ("http://other.example/", f"http://u@other.example/{site.address}", "x", "ftp://x/", site.url("/ x")):
        found = post(service, site.notice("/a") | {"urlList": [site.url("/a"), url]})
        assert (found.status_code, code(found)) == (422, "foreign_url"), url
    assert (site.visits, signals(service)) == ({}, 0)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"key": "1234567"}, 422),
        ({"key": "x" * 129}, 422),
        ({"key": "0123456789abcd_f"}, 422),
        ({"key": "../../etc/passwd"}, 422),
        ({"host": ""}, 422),
        ({"host": "a.example/x"}, 422),
        ({"host": "u@a.example"}, 422),
        ({"host": "a b"}, 422),
        ({"keyLocation": "http://other.example/key.txt"}, 422),
        ({"keyLocation": "file:///etc/passwd"}, 422),
        ({"keyLocation": "http://127.0.0.1:1@HOST/key.txt"}, 422),
        ({"keyLocation": f"http://HOST/echo?text={KEY}"}, 422),
        ({"keyLocation": "http://HOST/key.txt#"}, 422),
        ({"keyLocation": 5}, 400),
        ({"urlList": []}, 400),
        ({"urlList": ["http://HOST/"] * 10_001}, 400),
        ({"urlList": "http://HOST/"}, 400),
        ({"urlList": [1]}, 400),
        ({"urlList": None}, 400),
        ({"host": None}, 400),
        ({"key": None}, 400),
    ],
)
def test_notices_that_cannot_be_right(service: Running, site: KeySite, change: dict[str, Any], status: int) -> None:
    text = site.notice("/a") | change
    body = httpx.Request("POST", "http://x", json=text).content.replace(b"HOST", site.address.encode())
    answer = service.client.post("/indexnow", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert (site.visits, signals(service)) == ({}, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"host":"a.example","key":"\xed\xa0\x80","urlList":[]}',
    ],
)
def test_bodies_that_are_no_notice(service: Running, body: bytes) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    assert service.client.post("/indexnow", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("query", ["", "url=x&key=0123456789", "url=http%3A%2F%2Fa.example%2F&url=x", "url=%ff"])
def test_queries_that_are_no_notice(service: Running, query: str) -> None:
    assert service.client.get(f"/indexnow?{query}").status_code == 400


def test_a_body_that_is_too_large(service: Running, site: KeySite) -> None:
    answer = post(service, site.notice("/" + "x" * (2 << 20)))
    assert (answer.status_code, code(answer)) == (413, "body_too_large")


def test_key_files_are_not_fetched_from_addresses_that_are_not_public(tmp_path: Path, site: KeySite) -> None:
    with running(tmp_path, indexnow=True) as service:
        answer = post(service, site.notice("/a"))
        assert (answer.status_code, code(answer), site.visits) == (403, "no_key_file", {})
        names = post(service, site.notice("/a") | {"host": "localhost:1", "urlList": ["http://localhost:1/"]})
        assert "127.0.0.1" not in names.text, "what a name is resolved to is not told"


def test_a_slow_key_file_holds_nobody_up(service: Running, site: KeySite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice is accepted, other requests are answered meanwhile, and the notice is applied once the file has come."""
    monkeypatch.setattr(indexnow, "WAIT_S", 0.2)
    site.replies |= {f"/slow{number}.txt": Reply(body=KEY.encode()) for number in range(indexnow.MOST_UNDER_WAY)}
    for number in range(indexnow.MOST_UNDER_WAY):
        notice = site.notice(f"/{number}", keyLocation=site.url(f"/slow{number}.txt"))
        assert post(service, notice).status_code == 202
        assert service.client.post("/v1/next", json={"k": 1}).status_code == 200
    answer = post(service, site.notice("/a", keyLocation=site.url("/slow.txt")))
    assert (answer.status_code, code(answer)) == (429, "too_many_key_files")
    assert "retry-after" in answer.headers
    assert signals(service) == 0
    site.hold.set()
    end = time.monotonic() + 60.0
    while signals(service) < indexnow.MOST_UNDER_WAY:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_host_is_asked_for_few_key_files(tmp_path: Path, site: KeySite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexnow, "_HOST_RATE", 1)
    with running(tmp_path, indexnow=True, indexnow_allow="127.0.0.0/8") as service:
        statuses = {post(service, site.notice("/a") | {"key": f"another-{n}"}).status_code for n in range(20)}
        assert statuses == {403, 429}
        assert site.visits.total() < 20


def test_clients_that_send_no_body_hold_few_places(service: Running, site: KeySite) -> None:
    host, port = service.place
    head = b"POST /indexnow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"

    async def attack() -> None:
        slow = [await asyncio.open_connection(host, port) for _ in range(16)]
        for _, writer in slow:
            writer.write(head)
        answer = await asyncio.to_thread(post, service, site.notice("/a"))
        for _ in range(100):
            if answer.status_code == 429:
                break
            answer = await asyncio.to_thread(post, service, site.notice("/a"))
        assert code(answer) == "too_many_bodies"
        assert (await asyncio.to_thread(service.client.get, "/v1/rank")).status_code == 200
        for _, writer in slow:
            writer.close()

    asyncio.run(attack())
    while (status := post(service, site.notice("/a")).status_code) == 429:
        time.sleep(0.01)
    assert status == 200


def test_it_is_off_by_default(tmp_path: Path, site: KeySite) -> None:
    with running(tmp_path) as service:
        assert post(service, site.notice("/a")).status_code == 404


@pytest.mark.parametrize("wrong", [{"indexnow": "yes"}, {"indexnow_allow": "10.0.0.1/8"}])
def test_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        HttpSettings(**wrong)


def test_callers_need_no_token(tmp_path: Path, site: KeySite) -> None:
    with running(tmp_path, tokens=True, indexnow=True, indexnow_allow="127.0.0.0/8") as service:
        answer = httpx.post(f"http://{service.server.address}/indexnow", json=site.notice("/a"))
        assert answer.status_code == 200
