"""The subscriber of WebSub against a hub in another process: what it asks and confirms, and which bodies it reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.errors import ServiceUnavailable
from streamsched.fetching import hubs as subscriber
from streamsched.fetching.document_book import Document, DocumentBook
from streamsched.fetching.document_links import Head
from streamsched.fetching.fetcher import Fetcher, FetchSettings
from streamsched.fetching.subscriptions import (
    DAY_S,
    DENIED_S,
    LEASE_S,
    VERIFIED_WITHIN_S,
    Subscription,
    SubscriptionLog,
    Subscriptions,
)
from streamsched.fetching.visits import Visit
from streamsched.http.server import listen_on, serving
from streamsched.signals import Signal, SignalBatch
from tests.support.raw_server import local_reach
from tests.support.web_site import Page, Web, everywhere, web
from tests.support.websub_hub import Hub, Known, ask, running_hub, send, sign

FEED = "a.example/feed"
PATIENCE_S = 300.0  # kernels may be compiled meanwhile
HUBS: list[Hub] = []  # one, for all tests of this module


@dataclass
class Running:
    site: Web
    hub: Hub
    port: int
    fetcher: Fetcher
    signals: list[Signal]
    topic: str

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for the fetcher to do something."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)

    async def known(self, count: int = 1) -> Known:
        """Return the newest of the subscribers that the hub knows, once there are `count` and it was verified."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := await asyncio.to_thread(self.hub.known)) < count or found[-1].answer is None:
                await asyncio.sleep(0.01)
        assert len(found) == count
        return found[-1]

    async def publish(self, *links: str) -> list[int]:
        return await asyncio.to_thread(self.hub.publish, self.topic, rss(*links))

    async def send(self, one: Known, body: bytes, signature: str | None) -> int:
        return await asyncio.to_thread(send, one.callback, body, signature)

    def counts(self, *names: str) -> tuple[int, ...]:
        return tuple(self.fetcher.counts[f"websub_{name}"] for name in names)

    def paths(self) -> list[str]:
        return [one.url.partition("a.example")[2] for one in self.signals]


def rss(*links: str) -> bytes:
    items = "".join(f"<item><link>http://a.example{link}</link></item>" for link in links)
    return f'<rss version="2.0"><channel>{items}</channel></rss>'.encode()


def feed(site: Web, hub: Hub, *links: str) -> Page:
    """Return the feed, which names its hub."""
    return Page(rss(*links), headers={"Link": f'<{hub.url}>; rel="hub", <{site.url(FEED)}>; rel="self"'})


@asynccontextmanager
async def fetching(
    site: Web, hub: Hub, directory: Path, deliver: Callable[[SignalBatch], None] | None = None
) -> AsyncIterator[Running]:
    """Run a fetcher of the feed within the block."""
    signals: list[Signal] = []
    with listen_on("127.0.0.1:0", "websub-listen") as listener:
        port = listener.getsockname()[1]
        settings = FetchSettings(
            delay_s=0.001,
            reach=local_reach(site.port, hub.port),
            resolve=everywhere,
            callback=f"http://127.0.0.1:{port}/below/",
            serve=partial(serving, listener=listener),
        )
        with Fetcher(
            directory, deliver or signals.extend, settings, clock=site.clock, monotonic=time.monotonic
        ) as fetcher:
            fetcher.schedule.add([Document(site.url(FEED), "feed")])
            stop = asyncio.Event()
            task = asyncio.create_task(fetcher.run(stop))
            try:
                yield Running(site, hub, port, fetcher, signals, site.url(FEED))
            finally:
                stop.set()
                await task


@pytest.fixture(autouse=True, scope="module")
def hub_process() -> Iterator[None]:
    with running_hub() as hub:
        HUBS.append(hub)
        yield
    HUBS.clear()


def with_hub(use: Callable[[Web, Hub], Coroutine[Any, Any, None]]) -> None:
    async def run(hub: Hub) -> None:
        async with web() as site:
            site.pages[FEED] = feed(site, hub, "/1")
            await use(site, hub)

    (hub,) = HUBS
    hub.forget()
    asyncio.run(run(hub))


def subscribed(tmp_path: Path, use: Callable[[Running, Known], Awaitable[None]]) -> None:
    async def run(site: Web, hub: Hub) -> None:
        async with fetching(site, hub, tmp_path) as running:
            await use(running, await running.known())

    with_hub(run)


def test_what_a_hub_sends_is_announced_once(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        assert (one.is_verified, one.topic, one.lease_s) == (True, running.topic, LEASE_S)
        assert len(one.callback.rpartition("/")[2]) >= 43
        assert len(one.secret) >= 43
        assert await running.publish("/2") == [202]
        await running.until(lambda: len(running.signals) == 1)
        assert await running.publish("/2", "/3") == [202]
        await running.until(lambda: len(running.signals) == 2)
        assert running.paths() == ["/2", "/3"]
        running.site.pages[FEED] = feed(running.site, running.hub, "/1", "/2", "/3", "/4")
        running.site.now += 2 * 3_600.0
        await running.until(lambda: len(running.signals) == 3)
        assert running.paths()[2] == "/4", "the entries that the hub left out are remembered"
        assert running.fetcher.counts["visits"] == 2

    subscribed(tmp_path, use)


@pytest.mark.parametrize(
    ("method", "is_believed"), [("sha256", True), ("sha384", True), ("sha512", True), ("sha1", False)]
)
def test_methods_of_signatures(tmp_path: Path, method: str, is_believed: bool) -> None:
    async def use(running: Running, one: Known) -> None:
        body = rss("/2")
        assert await running.send(one, body, sign(one.secret, body, method)) == 202
        assert running.counts("accepted", "forged") == (is_believed, not is_believed)

    subscribed(tmp_path, use)


def test_forged_bodies_are_counted_and_not_read(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        body = rss("/2")
        right = sign(one.secret, body)
        wrong = [
            *(None, "", right[:-1], f"{right}0", right[:-1] + ("0" if right[-1] != "0" else "1")),
            *(right.replace("sha256", "sha512"), right.replace("=", " "), f"md5={'0' * 32}", sign("other", body)),
            *(sign(one.secret, rss("/3")), sign(one.secret, b""), "sha256=", "sha256=" + "é" * 64),
        ]
        for number, signature in enumerate(wrong, 1):
            text = None if signature is None else signature.encode("utf-8").decode("latin-1")
            assert await running.send(one, body, text) == 202
            assert running.counts("accepted", "forged") == (0, number)
        assert await running.send(one, body, f"sha256={right[7:].upper()}") == 202
        await running.until(lambda: running.paths() == ["/2"])

    subscribed(tmp_path, use)


def test_replayed_bodies_are_not_read(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        for body in (rss("/2"), rss("/3"), rss("/2"), rss("/3")):
            assert await running.send(one, body, sign(one.secret, body)) == 202
        assert running.counts("accepted", "repeated") == (2, 2)

    subscribed(tmp_path, use)


def test_only_what_was_asked_is_confirmed(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        right = {"hub.mode": "subscribe", "hub.topic": one.topic, "hub.challenge": "c", "hub.lease_seconds": "9999999"}
        assert await asyncio.to_thread(ask, one.callback, right) == (200, "c"), "a hub may ask again"
        wrong: list[dict[str, str]] = [
            {"hub.topic": f"{one.topic}/"},
            {"hub.mode": "unsubscribe"},
            {"hub.mode": "publish"},
            {"hub.challenge": ""},
            {"hub.challenge": "<script> "},
            {"hub.challenge": "c" * 1_025},
            {"hub.lease_seconds": "0"},
            {"hub.lease_seconds": "-5"},
            {"hub.lease_seconds": "1e9"},
        ]
        for change in wrong:
            assert (await asyncio.to_thread(ask, one.callback, right | change))[0] == 404, change
        assert (await asyncio.to_thread(ask, f"{one.callback}?hub.topic=x&", right))[0] == 404, "a parameter twice"
        assert (await asyncio.to_thread(ask, f"{one.callback}x", right))[0] == 404
        assert (await asyncio.to_thread(ask, one.callback, {}))[0] == 404
        assert await running.send(one, b"", None) == 202
        (kept,) = running.fetcher.schedule.book.subscriptions.records()
        assert kept.active is not None
        assert kept.active.until <= running.site.clock() + LEASE_S, "who confirms again prolongs nothing"

    subscribed(tmp_path, use)


def test_answers_to_hubs_are_no_pages_of_a_browser(tmp_path: Path) -> None:
    async def use(_running: Running, one: Known) -> None:
        query = {"hub.mode": "subscribe", "hub.topic": one.topic, "hub.challenge": "<b>", "hub.lease_seconds": "99"}
        answer = await asyncio.to_thread(partial(httpx.get, one.callback, params=query))
        assert answer.text == "<b>"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"

    subscribed(tmp_path, use)


def test_denials(tmp_path: Path) -> None:
    async def use(site: Web, hub: Hub) -> None:
        await asyncio.to_thread(hub.behave, mode="deny")
        async with fetching(site, hub, tmp_path) as running:
            one = await running.known()
            assert running.counts("denied", "verified") == (1, 0)
            assert await running.send(one, b"", None) == 410
            await asyncio.to_thread(hub.behave)
            site.now += DENIED_S - DAY_S
            await running.until(lambda: running.fetcher.counts["visits"] >= 2)
            assert running.counts("requests") == (1,), "not asked again"
            site.now += 2 * DAY_S
            assert (await running.known(2)).is_verified
            wrong = {"hub.mode": "denied", "hub.topic": "http://other.example/"}
            two = await running.known(2)
            assert (await asyncio.to_thread(ask, two.callback, wrong))[0] == 404
            assert await running.send(two, b"", None) == 202
            assert (await asyncio.to_thread(ask, two.callback, wrong | {"hub.topic": two.topic}))[0] == 200
            assert await running.send(two, b"", None) == 410, "what was accepted may be denied later"

    with_hub(use)


def test_a_verification_about_another_topic_makes_no_subscription(tmp_path: Path) -> None:
    async def use(site: Web, hub: Hub) -> None:
        await asyncio.to_thread(hub.behave, topic="http://evil.example/")
        async with fetching(site, hub, tmp_path) as running:
            one = await running.known()
            assert one.answer is not None
            assert one.answer[0] == 404
            assert await running.send(one, b"", None) == 410

    with_hub(use)


def test_leases_are_renewed_with_another_callback_before_they_end(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        running.site.now += 0.75 * LEASE_S
        assert await running.publish("/2") == [202]
        running.site.now += 0.1 * LEASE_S
        two = await running.known(2)
        assert two.is_verified
        assert len({one.callback, one.secret, two.callback, two.secret}) == 4
        assert await running.publish("/3") == [410, 202], "the hub learns that the old callback is of no use"
        assert await running.publish("/4") == [202]
        await running.until(lambda: running.paths() == ["/2", "/3", "/4"])

    subscribed(tmp_path, use)


def test_a_lease_that_is_not_renewed_ends(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        await asyncio.to_thread(running.hub.behave, mode="silent")
        running.site.now += 0.9 * LEASE_S
        await running.until(lambda: running.counts("requests") == (2,))
        assert await running.publish("/2") == [202]
        running.site.now += 0.2 * LEASE_S
        body = rss("/3")
        assert await running.send(one, body, sign(one.secret, body)) == 410
        await asyncio.to_thread(running.hub.behave)
        running.site.now += 20 * VERIFIED_WITHIN_S
        async with asyncio.timeout(PATIENCE_S):
            while not any(known.is_verified for known in (await asyncio.to_thread(running.hub.known))[1:]):
                await asyncio.sleep(0.01)
        assert await running.publish("/3") in ([202], [410, 202])
        await running.until(lambda: running.paths() == ["/2", "/3"])

    subscribed(tmp_path, use)


def test_a_hub_that_refuses_is_asked_less_and_less(tmp_path: Path) -> None:
    async def use(site: Web, hub: Hub) -> None:
        await asyncio.to_thread(hub.behave, mode="refuse")
        async with fetching(site, hub, tmp_path) as running:
            await running.until(lambda: running.counts("failed") == (1,))
            site.now += 61.0
            await running.until(lambda: running.counts("failed") == (2,))
            site.now += 61.0
            for _ in range(20):
                await asyncio.sleep(0.02)
            assert running.counts("requests") == (2,)
            await asyncio.to_thread(hub.behave)
            site.now += 61.0
            assert (await running.known()).is_verified

    with_hub(use)


def test_subscriptions_outlive_the_process(tmp_path: Path) -> None:
    async def use(site: Web, hub: Hub) -> None:
        async with fetching(site, hub, tmp_path) as running:
            one = await running.known()
        book = DocumentBook.load(tmp_path / "documents.msgpack")
        assert (tmp_path / "documents.msgpack").stat().st_mode & 0o077 == 0, "it has secrets"
        (kept,) = book.subscriptions.records()
        assert kept.active is not None
        assert one.callback.endswith(f"/below/{kept.active.token}")
        site.now += 0.85 * LEASE_S
        async with fetching(site, hub, tmp_path) as running:  # below another URL: its port is another one
            two = await running.known(2)
            assert two.is_verified
            assert (await running.publish("/2"))[-1] == 202

    with_hub(use)


def test_subscriptions_are_on_disk_before_hubs_see_them(tmp_path: Path) -> None:
    """What is on disk at any instant is what a kill leaves."""
    state, log = tmp_path / "state", tmp_path / "state" / "subscriptions.jsonl"

    async def use(site: Web, hub: Hub) -> None:
        async with fetching(site, hub, state) as running:
            known = await running.known()
            book = DocumentBook.load(state / "documents.msgpack")
            kept = {one.url: one for one in [*book.subscriptions.records(), *SubscriptionLog(log).read()]}
            active = kept[running.topic].active
            assert active is not None
            assert known.callback.endswith(active.token)
            assert log.stat().st_mode & 0o077 == 0, "it has secrets"
        assert not log.exists()  # the book has it

    with_hub(use)


def test_the_log_of_subscriptions(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path / "log")
    ones = [Subscription(f"https://a.example/{at}", "https://h.example/", "t", float(at)) for at in range(4)]
    assert log.read() == []
    for at, one in enumerate(ones):
        log.add(one, float(at))
    assert log.read() == ones
    with (tmp_path / "log").open("ab") as file:
        file.write(b'{"at": 5')
    assert log.read() == ones
    log.drop(2.0)
    assert log.read() == ones[2:]
    log.drop(9.0)
    assert not (tmp_path / "log").exists()


def test_a_document_names_another_hub_or_none(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        site = running.site
        site.pages[FEED] = Page(rss("/1"), headers={"Link": f"<{running.hub.url}2>; rel=hub, </other>; rel=self"})
        site.now += 2 * 3_600.0
        two = await running.known(2)
        assert (two.topic, two.is_verified) == (site.url("a.example/other"), True)
        assert await running.send(one, b"", None) == 410
        site.pages[FEED] = Page(rss("/1"))
        site.now += 2 * 3_600.0
        await running.until(lambda: running.fetcher.counts["visits"] == 3)
        site.now += LEASE_S
        await running.until(lambda: running.fetcher.counts["visits"] >= 4)
        assert running.counts("requests") == (2,)
        assert await running.send(two, b"", None) == 410

    subscribed(tmp_path, use)


def test_a_document_that_is_gone_has_no_subscription(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        running.site.pages[FEED] = Page(status=410)
        running.site.now += 2 * 3_600.0
        await running.until(lambda: running.fetcher.counts["visits"] == 2)
        assert await running.send(one, b"", None) == 410
        assert running.fetcher.schedule.book.subscriptions.records() == []

    subscribed(tmp_path, use)


MALFORMED = [
    b"",
    b"<rss",
    b"\x1f\x8b" + b"x" * 100,
    b"<a>" * 100_000,
    b"[" * 100_000,
    b"{" * 100_000,
    b'{"items":' * 10_000,
    b'<!DOCTYPE a [<!ENTITY b "c">]><rss/>',
    b'{"host": "victim.example", "urlList": ["http://victim.example/"]}',
    rss("/2") * 2,
]


def test_hostile_bodies_are_counted(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        def has_failed(number: int) -> bool:
            return running.fetcher.counts["failed_malformed"] == number

        for number, body in enumerate(MALFORMED, 1):
            assert await running.send(one, body, sign(one.secret, body)) == 202
            await running.until(partial(has_failed, number))
        many = b"<rss>" + b"<item/>" * 100_000 + b"</rss>"
        assert await running.send(one, many, sign(one.secret, many)) == 202
        assert await running.publish("/2") == [202]
        await running.until(lambda: running.paths() == ["/2"])

    subscribed(tmp_path, use)


def test_a_body_that_is_too_large_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "MOST_BODY_BYTES", 10_000)

    async def use(running: Running, one: Known) -> None:
        body = b"x" * 10_001
        assert await running.send(one, body, sign(one.secret, body)) == 202
        assert running.counts("too_large", "accepted") == (1, 0)
        assert await running.publish("/2") == [202]

    subscribed(tmp_path, use)


def test_bodies_that_cannot_be_delivered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub is told to come again, and nothing of what was taken is lost."""
    monkeypatch.setattr(subscriber, "MOST_WAITING", 4)
    monkeypatch.setattr("streamsched.fetching.fetcher._MOST_PENDING", 4)
    monkeypatch.setattr("streamsched.fetching.fetcher._PAUSE_S", 0.05)
    signals: list[Signal] = []
    is_away = True

    def deliver(batch: SignalBatch) -> None:
        if is_away:
            raise ServiceUnavailable("POST /v1/signals", "away")
        signals.extend(batch)

    async def use(site: Web, hub: Hub) -> None:
        nonlocal is_away
        async with fetching(site, hub, tmp_path, deliver) as running:
            await running.known()
            taken, refused = [], 0
            for number in range(100):
                (status,) = await running.publish(f"/{number + 2}")
                taken += [f"http://a.example/{number + 2}"] if status == 202 else []
                refused += status == 503
            assert refused == 100 - len(taken) > 0
            assert running.counts("busy") == (refused,)
            is_away = False
            await running.until(lambda: len(signals) == len(taken))
        assert [one.url for one in signals] == taken

    with_hub(use)


def test_slow_and_silent_clients_hold_no_one_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "_BODY_S", 0.5)

    async def use(running: Running, one: Known) -> None:
        path = one.callback.partition(str(running.port))[2]
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode()
        writers = []
        for _ in range(50):
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(head + b"x")
            writers.append((reader, writer))
        answers = [(await reader.readline()).split()[1] for reader, _ in writers]
        assert sorted(answers) == [b"408", *[b"503"] * 49], "one body of a subscription at a time"
        for _, writer in writers:
            writer.close()
        assert await running.publish("/2") == [202]

    subscribed(tmp_path, use)


def test_floods_of_unknown_callbacks_are_refused_unread(tmp_path: Path) -> None:
    async def use(running: Running, one: Known) -> None:
        base = one.callback.rpartition("/")[0]
        async with httpx.AsyncClient() as client:
            posts = [client.post(f"{base}/{number}", content=b"x" * 100_000) for number in range(200)]
            assert {answer.status_code for answer in await asyncio.gather(*posts)} == {410}
        assert running.counts("unknown") == (200,)
        assert await running.publish("/2") == [202]

    subscribed(tmp_path, use)


@pytest.mark.parametrize(
    ("document", "hub", "is_asked"),
    [
        ("https://a.example/feed", "http://h.example/", False),
        ("https://a.example/feed", "https://h.example/", True),
        ("http://a.example/feed", "http://h.example/", True),
    ],
)
def test_a_secret_goes_no_less_safe_way_than_the_document(document: str, hub: str, is_asked: bool) -> None:

    subscriptions: Any = Subscriptions()
    one = subscriber.Subscriber(subscriptions, None, None, lambda: 1.0, None, None)  # type: ignore[arg-type]
    one.take(Visit(Document(document, "feed"), 1.0, status=200, head=Head(0.0, [hub], document)))
    assert len(subscriptions) == is_asked
