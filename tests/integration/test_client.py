"""The client against a service: every method, its errors, and a service that is killed meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamsched import DurableScheduler, HostRule, Politeness, Rule, SettingsError, UnknownPage
from streamsched.api.views import HostLimits
from streamsched.client import (
    AccessDenied,
    AsyncClient,
    AsyncOutcomeSender,
    Client,
    Outcome,
    OutcomeSender,
    RetryPolicy,
    ServiceError,
    Signal,
)
from tests.support.faulty_proxy import proxy_before
from tests.support.http_service import NOW, TOKENS, URLS, Running, running, started

ODD = "https://ä.example/%2F?a=b|c&d=1#e"
PATIENT = RetryPolicy(attempt_s=300.0)  # the first calls compile kernels
Caller = Callable[..., Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), tokens=True, rate=1_000_000) as service:
        yield service


@pytest.fixture
def call(service: Running) -> Caller:
    """Call a method of the client for threads, which runs that for asyncio; `tests/unit/client` compares them."""

    def by_thread(name: str, *arguments: Any, token: str = "all", **named: Any) -> Any:
        url = f"http://{service.server.address}"
        with Client(url, token=TOKENS[token], retries=PATIENT, timeout_s=300.0) as client:
            return getattr(client, name)(*arguments, **named)

    return by_thread


def test_a_crawler_s_day(call: Caller, service: Running) -> None:
    service.clock.now_s += 86_400.0
    now = service.clock.now_s
    assert call("discover", [*URLS, ODD, ""], importance=2.0).rejected == 1
    batch = call("next_batch", 4, lease="5m", hosts=["h1.example", "h2.example"], per_host=2)
    assert {page.host for page in batch.pages} == {"h1.example", "h2.example"}
    assert len(batch) == 4
    assert batch.pages[0].lease_until == batch.now + 300.0
    assert call("release", [batch.pages[0].url]).known == 1
    outcomes = [Outcome(page.url, now, status=200, changed=True) for page in batch.pages[1:]]
    observed = call("observe", [*outcomes, Outcome(ODD, 1e30)])
    assert (observed.applied, observed.rejected) == (3, 1)
    assert (observed.rejections[0].record, observed.rejections[0].field) == (3, "fetched_at")
    assert call("observe", outcomes).duplicates == 3
    assert call("ask", [URLS[0], "https://asked.example/"]).added == 1
    assert call("page", URLS[0]).asked_for
    assert call("forget", ["https://asked.example/"]).known == 1
    assert call("forget", host="asked.example").known == 0
    signal = Signal(URLS[0], service.clock.now_s, "feed")
    assert call("notice", [signal]).applied == 1
    assert call("notice", [signal]).repeated == 1


def test_what_is_shown_is_the_scheduler_s_state(call: Caller, service: Running) -> None:
    service.clock.now_s += 86_400.0  # right after a visit a moment more changes the ranking
    call("discover", [*URLS, ODD])
    scheduler, now = service.scheduler, service.clock.now_s
    assert [page.url for page in call("rank", 3).pages] == scheduler.rank(3, now=now).urls
    assert call("explain", ODD, k=5).url == ODD
    assert call("page", ODD).host == scheduler.explain(ODD, now=now).host
    assert call("page", "https://nowhere.example/") is None
    listed = call("hosts", size=2)
    assert [host.host for host in listed.hosts + call("hosts", listed.next, 1).hosts] == [
        host.host for host in scheduler.hosts(size=3, now=now).hosts
    ]
    assert call("host", "h0.example").pages == 8
    assert call("host", "nowhere.example") is None
    assert call("champion").formula == scheduler.formula.text
    assert call("stats").pages == len(scheduler)
    assert call("week", host="h0.example") == scheduler.week(host="h0.example", now=now)
    assert call("week", url="https://nowhere.example/") is None
    assert list(call("surges").surges) == scheduler.surges()
    assert [one.kind for one in call("sources").sources] == [one.kind for one in scheduler.sources()]
    assert call("formula").text == scheduler.formula.text
    assert call("formula", "t * X").root.text == "×"


def test_an_administrator_s_day(call: Caller) -> None:
    call("discover", URLS)
    rules = {"h0.example": HostRule(delay="2s"), "h1.example/*": Rule(never=True), "h2.example": {"in_flight": 3}}
    assert call("set_rules", rules).pages == 24
    assert call("host", "h0.example").delay_s == 2.0
    assert call("host", "h2.example").rule.in_flight == 3
    call("set_rules", dict.fromkeys(rules))
    assert call("host", "h2.example").rule is None
    assert call("set_rules", {"h0.example": HostRule(), "h4.example": HostRule(delay=3.0)}).pages == 16
    read = call("rules")
    assert (read.hosts, read.pages) == (
        {"h0.example": HostLimits(), "h4.example": HostLimits(delay=3.0)},
        {},
    )
    assert call("set_rules", read.hosts).pages == 16
    assert call("rules") == read
    call("set_rules", dict.fromkeys(read.hosts))
    settings = call("politeness")
    assert call("set_politeness", {"delay": "3s", "in_flight": 2}).delay == 3.0
    assert call("set_politeness", {"in_flight": None}).in_flight is None
    assert call("set_politeness", Politeness(backoff="2h")) == structs.replace(settings, backoff=7200.0)
    assert call("set_politeness", settings) == settings
    with pytest.raises(ServiceError, match=r"http\.snapshots"):
        call("snapshot")
    assert call("block", "h3.example", 60.0).hosts == 1
    assert call("host", "h3.example").held_back is not None
    call("block", "h3.example", 0.0)
    before = call("champion").formula
    assert call("use", "t * X").formula == "t * X"
    number = call("evolutions").evolutions[-1].number
    call("use", "freshness")
    assert call("use", number).formula == "t * X"
    call("use", before)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "where"),
    [
        ("next_batch", [0], SettingsError, "k"),
        ("next_batch", [1, {}], TypeError, "argument"),
        ("explain", ["https://nowhere.example/"], UnknownPage, "nowhere"),
        ("explain", [""], SettingsError, "url"),
        ("page", [3], SettingsError, "url"),
        ("host", ["\ud800"], SettingsError, "host"),
        ("discover", ["https://a.example/"], SettingsError, "urls"),
        ("observe", [[3]], SettingsError, "outcomes"),
        ("set_rules", [[]], SettingsError, "rules"),
        ("set_rules", [{"a.example": 3}], SettingsError, "rules"),
        ("set_rules", [{"a.example": {"delay": "2s", "never": True}}], SettingsError, "rules"),
        ("set_politeness", [3], SettingsError, "politeness"),
        ("set_politeness", [{"delay": int}], SettingsError, "delay"),
        ("set_politeness", [{"\ud800": 1}], SettingsError, "encode"),
        ("forget", [], SettingsError, "urls"),
        ("forget", ["https://a.example/"], SettingsError, "urls"),
        ("block", ["a.example", -1.0], SettingsError, "seconds"),
        ("use", ["t * Y"], SettingsError, "formula"),
        ("use", [10_000], SettingsError, "formula"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named(
    name: str, arguments: list[Any], kind: type[Exception], where: str, call: Caller
) -> None:
    with pytest.raises(kind, match=where):
        call(name, *arguments)
    if name != "use":
        return
    assert "Y" not in call("champion").formula


@pytest.mark.parametrize(
    ("token", "name", "arguments", "status"),
    [
        ("crawl", "stats", [], 403),
        ("crawl", "rules", [], 403),
        ("crawl", "politeness", [], 403),
        ("crawl", "forget", [[]], 403),
        ("read", "ask", [[]], 403),
        ("read", "use", ["changes"], 403),
        ("read", "set_politeness", [{}], 403),
        ("read", "snapshot", [], 403),
        ("expired", "rank", [1], 401),
    ],
)
def test_a_token_allows_what_it_is_for(token: str, name: str, arguments: list[Any], status: int, call: Caller) -> None:
    with pytest.raises(AccessDenied) as caught:
        call(name, *arguments, token=token)
    assert caught.value.status == status
    assert not caught.value.retriable


def test_senders_call_back_and_flush(service: Running) -> None:
    service.clock.now_s += 86_400.0
    now, answered = service.clock.now_s, list[tuple[int, int]]()

    async def send() -> AsyncOutcomeSender:
        async with (
            AsyncClient(
                f"http://{service.server.address}", token=TOKENS["crawl"], retries=PATIENT, timeout_s=300.0
            ) as client,
            AsyncOutcomeSender(
                client,
                frame=16,
                every_s=3_600.0,
                capacity=32,
                on_answer=lambda frame, answer: answered.append((len(frame), answer.rejected)),
            ) as sender,
        ):
            for url in URLS:
                await sender.add(Outcome(url, now, status=200))
            await sender.add(Outcome(URLS[0], 1e30))
            await sender.flush()
            assert sender.unsent == []
        return sender

    sender = asyncio.run(send())
    assert answered == [(16, 0), (16, 0), (9, 1)]
    assert (sender.counts["applied"], sender.counts["rejected"]) == (40, 1)


@pytest.mark.parametrize("error", [ValueError("of the callback"), AccessDenied("GET x", "no")])
def test_an_error_of_the_callback_or_the_service_reaches_the_caller(error: Exception, service: Running) -> None:
    def fail(*_: object) -> None:
        raise error

    token = TOKENS["expired" if isinstance(error, ServiceError) else "all"]
    with Client(f"http://{service.server.address}", token=token) as client:
        sender = OutcomeSender(client, frame=1, on_answer=fail)
        with pytest.raises(type(error)):
            _add_until_it_fails(sender)
        with pytest.raises(SettingsError):
            sender.add(Outcome(URLS[0], NOW))
        with pytest.raises(SettingsError):
            sender.add(URLS[0])  # type: ignore[arg-type]


def _add_until_it_fails(sender: OutcomeSender) -> None:
    with sender:
        while True:
            sender.add(Outcome(URLS[0], NOW))


def test_a_service_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    state, now = tmp_path / "state", time.time() - 60.0  # noqa: TID251  that of the service
    pages = [f"https://h{i % 23}.example/{i}" for i in range(900)]
    outcomes = [Outcome(f"https://r{i % 23}.example/{i}", now + i / 1e3, status=200) for i in range(500)]
    words = ("serve", "--state", state, "--save-every", "100ms")
    policy = RetryPolicy(first_s=0.01, most_s=0.2)
    with proxy_before(("127.0.0.1", 9)) as proxy, Client(proxy.url, retries=policy, timeout_s=120.0) as client:

        def send() -> OutcomeSender:
            with OutcomeSender(client, frame=10, every_s=0.01) as sender:
                for outcome in outcomes:
                    sender.add(outcome)
            return sender

        def lease() -> list[str]:
            return [page.url for _ in range(30) for page in client.next_batch(5, lease="1h").pages]

        with ThreadPoolExecutor(4) as pool:
            with started(*words) as (process, address):
                proxy.upstream = _place(address)
                client.discover(pages)
                sending, leasing = pool.submit(send), [pool.submit(lease) for _ in range(3)]
                while len(proxy.forwarded) < 30:
                    time.sleep(0.001)
                process.kill()
                process.wait()
                assert not sending.done()
                assert not any(one.done() for one in leasing)
            with started(*words) as (process, address):
                proxy.upstream = _place(address)
                assert sending.result().unsent == []
                urls = [url for part in leasing for url in part.result()]
    assert len(set(urls)) == len(urls)
    with DurableScheduler.open(state) as scheduler:
        later = time.time()  # noqa: TID251
        for outcome in outcomes:
            view = scheduler.page(outcome.url, now=later)
            assert view is not None
            assert view.last_outcome_s == outcome.fetched_at
        for url in [*pages, *(outcome.url for outcome in outcomes)]:
            view = scheduler.page(url, now=later)
            assert view is not None
            assert (view.lease_until_s is not None) == (url in urls)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
