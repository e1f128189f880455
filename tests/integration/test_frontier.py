"""The url-frontier API: what its calls do, what they refuse, and what a broken client cannot do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived
from h2.settings import SettingCodes, Settings

from streamsched import DurableScheduler, Rule
from streamsched.cli.commands.serve import serve_command
from streamsched.errors import SettingsError
from streamsched.frontier.connections import Code
from streamsched.frontier.handout import LEASE_S
from streamsched.frontier.messages import FRONTIER, HEALTH, METHODS, message
from streamsched.outcomes import NEVER_S
from tests.support.frontier import (
    FAIL,
    LATER,
    OK,
    SKIPPED,
    Client,
    Frontier,
    discovered,
    fails,
    known,
    serving,
)
from tests.support.http_service import TOKENS, clock_now, exchange, started

PAGES = [f"https://h{page % 7}.example/p{page}" for page in range(70)]
UNSERVED = {"ListNodes", "SetLogLevel", "SetCrawlLimit"}
CALLS = sorted(path for path, method in METHODS.items() if method.name not in UNSERVED | {"Watch"})
CLIENTS = 32

REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), ("content-type", "application/grpc")]
MOST_WINDOW = (1 << 31) - 1  # bytes that HTTP/2 lets a server send unread


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontier]:
    """A service for tests to which it does not matter what it knows."""
    with serving(tmp_path_factory.mktemp("shared")) as running:
        yield running


def test_discovered_urls_are_acknowledged_each_with_its_fate(frontier: Frontier) -> None:
    first, second = PAGES[:2]
    items = [
        discovered(first),
        discovered(second, name="two"),
        discovered(first),
        discovered(""),
        discovered("no url"),
        discovered("https://other.example/", crawl="other"),
        message("urlfrontier.URLItem")(ID="nothing"),
    ]
    assert frontier.client.put(items) == [
        (first, OK),
        ("two", OK),
        (first, SKIPPED),
        ("", SKIPPED),
        ("no url", SKIPPED),
        ("https://other.example/", FAIL),
        ("nothing", SKIPPED),
    ]
    assert frontier.client.put([discovered(first)]) == [(first, SKIPPED)]
    assert len(frontier.http.scheduler) == 2


def test_known_urls_are_outcomes(frontier: Frontier) -> None:
    scheduler, clock = frontier.http.scheduler, frontier.http.clock
    url = PAGES[0]
    frontier.client.put([discovered(url)])
    (leased,) = frontier.client.get(max_urls_per_queue=1, max_queues=1, delay_requestable=600)
    assert (leased.url, leased.key, leased.crawlID) == (url, "h0.example", "DEFAULT")
    visit: dict[str, Any] = {
        "fetch__statusCode": "200",
        "protocol__etag": '"a"',
        "protocol__last-modified": "yesterday",
    }
    assert frontier.client.put([known(url, signature="x", **visit)]) == [(url, OK)]
    clock.now_s += 86_400.0
    assert frontier.client.put([known(url, signature="y", fetch__statusCode="200")]) == [(url, OK)]
    page = scheduler.page(url, now=clock.now_s)
    assert page is not None
    assert (page.visits, page.changes, page.lease_until_s, page.etag) == (1, 1, None, None)
    frontier.client.put([known(url, signature="y", **visit)])
    clock.now_s += 86_400.0
    (again,) = frontier.client.get()
    assert {name: list(texts.values) for name, texts in again.metadata.items()} == {
        "protocol.etag": ['"a"'],
        "protocol.last-modified": ["yesterday"],
    }


def test_items_without_status_and_signature_are_counted(frontier: Frontier) -> None:
    frontier.client.put([known(PAGES[0]), known(PAGES[1], fetch__statusCode="200")])
    assert frontier.client("GetStats").counts["applied"] == 2


def test_pages_of_a_rule_that_forbids_them_have_the_date_of_never(frontier: Frontier) -> None:
    frontier.client.put([known(PAGES[0], fetch__statusCode="200")])
    assert frontier.client("GetURLStatus", url=PAGES[0]).known.refetchable_from_date < NEVER_S
    frontier.http.scheduler.set_rule(PAGES[0], Rule(never=True))
    assert frontier.client("GetURLStatus", url=PAGES[0]).known.refetchable_from_date == NEVER_S


def test_a_date_of_0_means_never(frontier: Frontier) -> None:
    frontier.client.put([known(PAGES[0], 0, fetch__statusCode="200"), known(PAGES[1], 1, fetch__statusCode="200")])
    frontier.http.clock.now_s += 10 * 86_400.0
    (reason, *_) = frontier.http.scheduler.explain(PAGES[0], now=frontier.http.clock.now_s).reasons
    assert (reason.code, reason.fields["until_s"]) == ("not_before", NEVER_S)
    assert [page.url for page in frontier.client.get()] == [PAGES[1]]
    assert frontier.client("GetURLStatus", url=PAGES[0]).known.refetchable_from_date == NEVER_S
    frontier.client.put([discovered(PAGES[0]), known(PAGES[0], LATER, fetch__statusCode="200")])
    frontier.http.clock.now_s += 10 * 86_400.0
    assert {page.url for page in frontier.client.get()} == set(PAGES[:2])


def test_dates_of_clients_are_the_earliest_ones_if_the_setting_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, earliest_dates=True) as frontier:
        clock = frontier.http.clock
        dates = [int(clock.now_s) + 5 * 86_400, 1, 2**63]
        put = [known(url, date, fetch__statusCode="200") for url, date in zip(PAGES, dates, strict=False)]
        assert [status for _, status in frontier.client.put(put)] == [OK] * 3
        clock.now_s += 4 * 86_400.0
        assert {page.url for page in frontier.client.get(delay_requestable=10**6)} == {PAGES[1], PAGES[2]}
        clock.now_s += 86_400.0
        assert [page.url for page in frontier.client.get()] == [PAGES[0]]


def test_urls_are_leased_within_the_limits_of_a_call(frontier: Frontier) -> None:
    frontier.client.put(map(discovered, PAGES))
    some = frontier.client.get(max_queues=3, max_urls_per_queue=4)
    hosts = [page.key for page in some]
    assert len(some) == 12
    assert {hosts.count(host) for host in hosts} == {4}
    named = frontier.client.get(key="h5.example", max_queues=1)
    assert {page.key for page in named} == {"h5.example"}
    rest = frontier.client.get(anyCrawlID=message("urlfrontier.AnyCrawlID")(), delay_requestable=3_600)
    assert sorted(page.url for page in [*some, *named, *rest]) == sorted(PAGES)
    assert frontier.client.get() == []
    frontier.http.clock.now_s += LEASE_S + 1.0
    assert len(frontier.client.get()) == len(some) + len(named)


def test_queues_are_shown_and_changed(frontier: Frontier) -> None:
    call, clock = frontier.client, frontier.http.clock
    call.put(map(discovered, PAGES))
    call.put([known(PAGES[0], fetch__statusCode="200")])
    stats = call("GetStats")
    assert (stats.size, stats.numberOfQueues, stats.inProcess, stats.crawlID) == (70, 7, 0, "DEFAULT")
    assert call("GetStats", key="h1.example").size == 10
    assert call("GetStats", key="unknown.example").size == 0
    assert list(call("ListCrawls").values) == ["DEFAULT"]
    assert (call("CountURLs").value, call("CountURLs", key="h2.example").value) == (70, 10)
    assert call("CountURLs", filter="/P1", ignoreCase=True).value == 11
    call("BlockQueueUntil", key="h1.example", time=int(clock.now_s) + 1_000)
    call("SetDelay", key="h2.example", delay_requestable=300)
    active = call("ListQueues", start=1, size=3)
    assert list(active.values) == ["h2.example", "h3.example", "h4.example"]
    assert (active.total, active.start, active.size) == (7, 1, 3)
    assert call("ListQueues", include_inactive=True).size == 7
    assert {page.key for page in call.get(delay_requestable=600)} == {f"h{host}.example" for host in (0, 2, 3, 4, 5, 6)}
    assert call("GetStats", key="h2.example").inProcess == 2
    call("BlockQueueUntil", key="h1.example", time=0)
    assert len(call.get(key="h1.example")) == 10
    call("SetDelay", delay_requestable=7)
    assert frontier.http.scheduler.politeness.delay == 7.0
    assert call("DeleteQueue", key="h3.example").value == 10
    assert call("DeleteCrawl", value="DEFAULT").value == 60
    assert call("CountURLs", filter="h").value == 0


def test_urls_are_shown(frontier: Frontier) -> None:
    call = frontier.client
    call.put([*map(discovered, PAGES), known(PAGES[0], fetch__statusCode="200")])
    item = call("GetURLStatus", url=PAGES[0])
    assert (item.known.info.key, item.known.refetchable_from_date > 0) == ("h0.example", True)
    assert call("GetURLStatus", url=PAGES[1]).discovered.info.url == PAGES[1]
    assert fails(call.open("GetURLStatus", message("urlfrontier.URLStatusRequest")(url="https://no.example/")))
    params = message("urlfrontier.ListUrlParams")

    def listed(**fields: Any) -> list[str]:
        return [item.ID for item in call.open("ListURLs", params(**fields))]

    assert listed(start=1, size=3) == PAGES[1:4]
    assert listed() == PAGES
    assert listed(key="h3.example", start=8) == PAGES[59::7]
    assert listed(filter="/p6", size=2) == [PAGES[6], PAGES[60]]


def test_an_inactive_crawl_hands_out_nothing(frontier: Frontier) -> None:
    call = frontier.client
    assert call("GetActive").state
    call("SetActive", state=False)
    assert call.put([discovered(PAGES[0])]) == [(PAGES[0], OK)]
    assert (call.get(), call("GetActive").state) == ([], False)
    call("SetActive", state=True)
    assert len(call.get()) == 1


@pytest.mark.parametrize("path", CALLS)
def test_no_message_ends_the_service(shared: Frontier, path: str) -> None:
    service, _, name = path.removeprefix("/").partition("/")

    def send(raw: bytes) -> grpc.StatusCode | None:
        try:
            return fails(shared.client.open(name, iter([raw]) if name == "PutURLs" else raw, service))
        except AssertionError:
            return None

    assert send(b"\xff\xff\xff") == grpc.StatusCode.INVALID_ARGUMENT
    assert send(b"\x0a\x02\xff\xfe" * 3) in (grpc.StatusCode.INVALID_ARGUMENT, None)  # no UTF-8, in a text
    assert send(bytes(9 << 20)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert send(b"") in (None, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert shared.client.put([discovered(f"https://after.example{path}")]) == [(f"https://after.example{path}", OK)]
    shared.client("SetActive", state=True)  # an empty message of this call has ended that


@pytest.mark.parametrize("name", [*sorted(UNSERVED), "PutDiscovered", "GetCrawlStats"])
def test_other_calls_are_unimplemented(shared: Frontier, name: str) -> None:
    assert fails(shared.client.open(name, b"")) == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("GetURLs", {"crawlID": "other"}),
        ("GetStats", {"crawlID": "other"}),
        ("DeleteCrawl", {"value": "other"}),
        ("BlockQueueUntil", {"key": "h1.example", "crawlID": "other"}),
        ("ListURLs", {"crawlID": "other"}),
    ],
)
def test_another_crawl_is_not_found(shared: Frontier, name: str, fields: dict[str, str]) -> None:
    asked = METHODS[f"/{FRONTIER}/{name}"].asked(**fields)
    assert fails(shared.client.open(name, asked)) == grpc.StatusCode.NOT_FOUND


def test_crawls_are_separate_states(tmp_path: Path) -> None:
    shared, alone = "https://a.example/", "https://b.example/"
    with serving(tmp_path, crawls=f"news={tmp_path}/news docs={tmp_path}/docs") as frontier:
        call = frontier.client
        items = [discovered(shared, crawl="news"), discovered(shared), discovered(alone, crawl=" docs ")]
        assert call.put([*items, discovered(shared, crawl="news"), discovered(shared, crawl="no")]) == [
            (shared, OK),
            (shared, OK),
            (alone, OK),
            (shared, SKIPPED),
            (shared, FAIL),
        ]
        assert list(call("ListCrawls").values) == ["DEFAULT", "news", "docs"]
        assert [call("GetStats", crawlID=name).size for name in ("", "news", "docs")] == [1, 1, 1]
        assert list(call("ListQueues", crawlID="docs").values) == ["b.example"]
        call("BlockQueueUntil", key="a.example", crawlID="DEFAULT", time=LATER)
        assert call.get(crawlID="") == call.get(crawlID="DEFAULT") == []
        (leased,) = call.get(crawlID="news")
        assert (leased.url, leased.crawlID) == (shared, "news")
        put = [known(shared, crawl="news", fetch__statusCode="200"), known(alone, crawl="docs", signature="a")]
        assert call.put(put) == [(shared, OK), (alone, OK)]
        assert call("GetStats", crawlID="news").counts["applied"] == 1
        assert (call("DeleteCrawl", value="docs").value, call("CountURLs", crawlID="docs").value) == (1, 0)
        assert call("CountURLs").value == 1
    with DurableScheduler.open(tmp_path / "news") as scheduler:
        assert scheduler.page(shared, now=clock_now()) is not None


def test_a_call_for_any_crawl_gets_pages_of_each_in_turn(tmp_path: Path) -> None:
    with serving(tmp_path, crawls=f"news={tmp_path}/news docs={tmp_path}/docs") as frontier:
        crawls = ("DEFAULT", "news")  # docs has nothing
        frontier.client.put(
            discovered(f"https://{name}.example/{page}", crawl=name) for name in crawls for page in "ab"
        )
        any_crawl = message("urlfrontier.AnyCrawlID")()
        named: list[Any] = [{"anyCrawlID": any_crawl}, {}, {}, {}, {}]
        got = [frontier.client.get(max_queues=1, max_urls_per_queue=1, **one) for one in named]
        assert sorted(page.crawlID for pages in got for page in pages) == ["DEFAULT", "DEFAULT", "news", "news"]
        assert [len(pages) for pages in got] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("name", ["GetURLs", "BlockQueueUntil", "SetDelay", "DeleteQueue", "CountURLs"])
def test_a_key_that_is_no_host_is_refused(shared: Frontier, name: str) -> None:
    asked = METHODS[f"/{FRONTIER}/{name}"].asked(key="no host/")
    assert fails(shared.client.open(name, asked)) == grpc.StatusCode.INVALID_ARGUMENT


def test_what_a_client_that_goes_has_not_got_is_given_back(frontier: Frontier) -> None:
    pages = [f"https://h{page % 50}.example/{'x' * 1_000}/{page}" for page in range(6_000)]
    frontier.client.put(map(discovered, pages))
    options = [("grpc.http2.lookahead_bytes", 1_024), ("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(frontier.address, options=options) as channel:
        call = Client(channel).open("GetURLs", message("urlfrontier.GetParams")(delay_requestable=3_600))
        next(call)
        call.cancel()
    while frontier.client("GetStats").inProcess > 500:  # of the first part, which was being sent
        time.sleep(0.01)
    assert len(frontier.client.get()) >= 5_500


def test_cancelled_streams_leave_the_service_whole(frontier: Frontier) -> None:
    for round_ in range(40):
        going = threading.Event()

        def items(number: int = round_, going: threading.Event = going) -> Iterator[Any]:
            yield discovered(f"https://h.example/{number}")
            going.wait()

        call = frontier.client.open("PutURLs", items())
        if round_ % 2:
            assert next(call).status == OK
        call.cancel()
        going.set()
    assert frontier.client.put(map(discovered, PAGES)) == [(url, OK) for url in PAGES]


def test_many_clients_lose_nothing(frontier: Frontier) -> None:
    def crawl(number: int) -> list[str]:
        with grpc.insecure_channel(frontier.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            client = Client(channel)
            urls = [f"https://h{page % 20}.example/{number}/{page}" for page in range(100)]
            assert client.put(map(discovered, urls)) == [(url, OK) for url in urls]
            got = client.get(max_urls_per_queue=2, delay_requestable=3_600)
            assert all(
                status == OK for _, status in client.put(known(page.url, fetch__statusCode="200") for page in got)
            )
            return [page.url for page in got]

    with ThreadPoolExecutor(CLIENTS) as pool:
        leased = [url for urls in pool.map(crawl, range(CLIENTS)) for url in urls]
    assert len(leased) == len(set(leased)) > CLIENTS
    assert len(frontier.http.scheduler) == CLIENTS * 100


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" + bytes(40),
        PREFACE + frame(0, 0, 1, b"data of no stream"),
        PREFACE + frame(4, 0, 0) + frame(1, 4, 1, b"\xff\xff\xff"),
        PREFACE + frame(4, 0, 0) + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(100),
        PREFACE + frame(4, 0, 0) + frame(0, 8, 1, b"\xff"),
        PREFACE + frame(4, 0, 0) + frame(9, 0, 1, bytes(100)),
    ],
)
def test_what_is_no_http2_closes_the_connection(shared: Frontier, sent: bytes) -> None:
    exchange(shared.place, sent)
    assert list(shared.client("ListCrawls").values) == ["DEFAULT"]


def test_messages_in_pieces_compressed_or_cut(shared: Frontier) -> None:
    with grpc.insecure_channel(shared.address, compression=grpc.Compression.Gzip) as channel:
        params = message("urlfrontier.GetParams")(key="a" * 1_000)
        assert fails(Client(channel).open("GetURLs", params)) == grpc.StatusCode.UNIMPLEMENTED
    long = f"https://h.example/{'x' * 8_000}"
    assert shared.client.put([discovered(long)] * 300) == [(long, OK), *[(long, SKIPPED)] * 299]


def read_statuses(http2: H2Connection, peer: socket.socket) -> dict[int, str]:
    """The statuses of the streams that end with what arrives next."""
    events = http2.receive_data(peer.recv(1 << 16))
    ended = [one for one in events if isinstance(one, ResponseReceived)]
    return {one.stream_id: {str(name): str(text) for name, text in one.headers}["grpc-status"] for one in ended}


def test_messages_that_are_not_whole_are_few_on_a_connection(tmp_path: Path) -> None:
    with serving(tmp_path, bounds={"max_body": 60_000}) as frontier, socket.create_connection(frontier.place) as peer:
        peer.settimeout(10.0)
        http2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        http2.initiate_connection()
        peer.sendall(http2.data_to_send())
        while http2.outbound_flow_control_window < 200_000:  # until the server's settings have come
            http2.receive_data(peer.recv(1 << 16))
        for stream in (1, 3, 5):
            http2.send_headers(stream, [(":path", f"/{FRONTIER}/PutURLs"), *REQUEST])
            for part in (struct.pack(">BI", 0, 60_000), *[bytes(10_000)] * 5):
                http2.send_data(stream, part)
        peer.sendall(http2.data_to_send())
        ended = dict[int, str]()
        while not ended:
            ended |= read_statuses(http2, peer)
        assert list(ended.values()) == [str(int(Code.RESOURCE_EXHAUSTED))]
        others = {1, 3, 5} - ended.keys()
        for stream in others:  # there is room for them
            http2.send_data(stream, bytes(10_000), end_stream=True)
        peer.sendall(http2.data_to_send())
        while len(ended) < 3:
            ended |= read_statuses(http2, peer)
        assert {ended[stream] for stream in others} == {str(int(Code.INVALID_ARGUMENT))}  # zeros are no item


def test_too_many_connections_are_closed(tmp_path: Path) -> None:
    with serving(tmp_path, bounds={"connections_per_address": 2}) as frontier:
        assert frontier.client("GetActive").state
        with socket.create_connection(frontier.place), socket.create_connection(frontier.place) as third:
            third.settimeout(10.0)
            with suppress(ConnectionResetError):
                assert third.recv(100) == b""
        assert frontier.client("GetActive").state


def test_callers_without_tokens_send_little(shared: Frontier) -> None:
    for size, code in ((4_000, grpc.StatusCode.NOT_FOUND), (5_000, grpc.StatusCode.RESOURCE_EXHAUSTED)):
        asked = message("grpc.health.v1.HealthCheckRequest")(service="a" * size)
        assert fails(shared.client.open("Check", asked, HEALTH)) == code


def test_a_client_that_never_reads_loses_its_connection(tmp_path: Path) -> None:
    urls = [f"https://h{i}.example/{'x' * 8_000}" for i in range(3_000)]  # 24 MB, more than buffers hold
    with serving(tmp_path, bounds={"write_timeout": "1s"}) as frontier:
        assert all(state == OK for _, state in frontier.client.put(map(discovered, urls)))
        http2 = H2Connection(H2Configuration(client_side=True))
        window = {SettingCodes.INITIAL_WINDOW_SIZE: MOST_WINDOW}
        http2.local_settings = Settings(client=True, initial_values=window)
        http2.initiate_connection()
        http2.increment_flow_control_window(MOST_WINDOW - 65_535)
        asked = message("urlfrontier.GetParams")(max_queues=3_000).SerializeToString()
        http2.send_headers(1, [(":path", f"/{FRONTIER}/GetURLs"), *REQUEST])
        http2.send_data(1, struct.pack(">BI", 0, len(asked)) + asked, end_stream=True)
        with socket.create_connection(frontier.place) as client:
            client.settimeout(10.0)
            client.sendall(http2.data_to_send())
            time.sleep(3.0)
            read = 0
            with suppress(ConnectionResetError):
                while data := client.recv(1 << 20):
                    read += len(data)
        assert read < 8_000 * len(urls)
        assert len(frontier.client.get(max_queues=3_000)) > 0  # what was not sent was given back


def test_tokens_need_the_scopes_of_http(tmp_path: Path) -> None:
    with serving(tmp_path, tokens=True) as frontier:
        channel = frontier.client.channel
        assert frontier.client.put([discovered(PAGES[0])]) == [(PAGES[0], OK)]
        crawler, reader = Client(channel, TOKENS["crawl"]), Client(channel, TOKENS["read"])
        params = message("urlfrontier.GetParams")()
        assert len(crawler.get()) == 1
        assert fails(reader.open("GetURLs", params)) == grpc.StatusCode.PERMISSION_DENIED
        assert fails(crawler.open("GetStats", b"")) == grpc.StatusCode.PERMISSION_DENIED
        assert fails(crawler.open("DeleteCrawl", b"")) == grpc.StatusCode.PERMISSION_DENIED
        for client in (Client(channel), Client(channel, TOKENS["expired"])):
            assert fails(client.open("GetURLs", params)) == grpc.StatusCode.UNAUTHENTICATED
        assert Client(channel)("Check", service=HEALTH).status == 1
        frontier.client("BlockQueueUntil", key="h1.example", time=LATER)
    lines = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines]
    assert [(one["event"], one.get("path", one.get("status"))) for one in calls] == [
        ("call", f"/{FRONTIER}/BlockQueueUntil"),
        ("answer", 200),
    ]


def test_a_foreign_name_is_refused_without_tokens(shared: Frontier) -> None:
    options = [("grpc.default_authority", "evil.example")]
    with grpc.insecure_channel(shared.address, options=options) as channel:
        assert fails(Client(channel).open("GetActive", b"")) == grpc.StatusCode.PERMISSION_DENIED


def test_health_is_watched(shared: Frontier) -> None:
    watched = shared.client.open("Watch", message("grpc.health.v1.HealthCheckRequest")(service=FRONTIER), HEALTH)
    assert next(watched).status == 1
    watched.cancel()
    asked = message("grpc.health.v1.HealthCheckRequest")(service="unknown")
    assert fails(shared.client.open("Check", asked, HEALTH)) == grpc.StatusCode.NOT_FOUND
    assert next(shared.client.open("Watch", asked, HEALTH)).status == 3


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_tls_with_and_without_certificates_of_clients(tmp_path: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "crawler-1"):
        openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    ca, certificate, key = ((tmp_path / name).read_bytes() for name in ("ca.pem", "crawler-1.pem", "crawler-1.key"))
    files: dict[str, Any] = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key"}
    with (
        serving(tmp_path, **files) as frontier,
        grpc.secure_channel(frontier.address, grpc.ssl_channel_credentials(ca)) as channel,
    ):
        assert Client(channel).put(map(discovered, PAGES)) == [(url, OK) for url in PAGES]
    with serving(tmp_path, client_ca=tmp_path / "ca.pem", **files) as frontier:
        with grpc.secure_channel(frontier.address, grpc.ssl_channel_credentials(ca, key, certificate)) as channel:
            Client(channel)("BlockQueueUntil", key="h1.example", time=LATER)
        with grpc.secure_channel(frontier.address, grpc.ssl_channel_credentials(ca)) as channel:
            assert fails(Client(channel).open("GetActive", b"")) == grpc.StatusCode.UNAVAILABLE
    assert json.loads((tmp_path / "state" / "audit.jsonl").read_text().splitlines()[0])["caller"] == "crawler-1"


def test_a_disk_that_is_full_acknowledges_nothing(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    items = [discovered(PAGES[0]), known(PAGES[1], fetch__statusCode="200")]
    with monkeypatch.context() as patch:
        patch.setattr("streamsched.persistence.call_log.os.fdatasync", fail)
        assert frontier.client.put(items) == [(PAGES[0], FAIL), (PAGES[1], FAIL)]
        asked = message("urlfrontier.GetParams")()
        assert fails(frontier.client.open("GetURLs", asked)) == grpc.StatusCode.UNAVAILABLE
        assert frontier.client("Check", service=HEALTH).status == 2
    frontier.http.scheduler.snapshot()
    assert dict(frontier.client.put(items[1:2])) == {PAGES[1]: OK}
    assert frontier.client("Check", service=HEALTH).status == 1


def find_address(log: list[str]) -> str:
    while True:
        for line in log:
            event = json.loads(line)
            if event["event"] == "serving url-frontier":
                return str(event["address"])
        time.sleep(0.02)


def put_until_it_ends(address: str, number: int, acknowledged: list[str]) -> grpc.StatusCode:
    def items() -> Iterator[Any]:
        for page in range(1_000_000):
            url = f"https://h{page % 9}.example/{number}/{page}"
            yield known(url, fetch__statusCode="200") if page % 2 else discovered(url)

    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            for ack in Client(channel).open("PutURLs", items()):
                acknowledged += [ack.ID] if ack.status == OK else []
        except grpc.RpcError as error:
            return error.code()
    raise AssertionError("the stream has ended without an error")


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_acknowledged_is_lost(tmp_path: Path, ending: signal.Signals) -> None:
    state, acknowledged = tmp_path / "state", [list[str]() for _ in range(4)]
    for _ in range(2 if ending == signal.SIGKILL else 1):
        log = list[str]()
        words = ("serve", "--state", state, "--frontier", "127.0.0.1:0", "--save-every", "100ms")
        with started(*words, log=log) as (process, _), ThreadPoolExecutor(4) as pool:
            address = find_address(log)
            before = sum(map(len, acknowledged))
            running = [
                pool.submit(put_until_it_ends, address, before + number, urls)
                for number, urls in enumerate(acknowledged)
            ]
            while sum(map(len, acknowledged)) < before + 2_000:
                time.sleep(0.01)
            process.send_signal(ending)
            assert {one.result() for one in running} == {grpc.StatusCode.UNAVAILABLE}
            process.wait(60)
    with DurableScheduler.open(state) as scheduler:
        urls = [url for some in acknowledged for url in some]
        rows = scheduler.core.find(urls)
        was_visited = scheduler.core.pages.arrays.pages.traces["last_outcome_s"][rows] > 0.0
    assert rows.min() >= 0
    assert was_visited.tolist() == [int(url.rpartition("/")[2]) % 2 == 1 for url in urls]


JARS = os.environ.get("URLFRONTIER_JARS", "")  # a folder with the API of url-frontier 2.5 and what it needs
CRAWLER = Path(__file__).parents[1] / "support" / "FrontierCrawler.java"


@pytest.mark.skipif(not JARS, reason="URLFRONTIER_JARS names no folder with the jars of url-frontier's API")
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler")
def test_the_projects_own_java_client(frontier: Frontier) -> None:
    words = ["java", "-cp", f"{JARS}/*", str(CRAWLER), frontier.address, "crawl", "500"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["put 500 ok 500", "got 500 of 7", "put 500 ok 500", "size 500 queues 7"]
    assert frontier.http.scheduler.page("https://h0.example/0", now=clock_now()) is not None


@pytest.mark.parametrize("crawls", ["a={0}/x b={0}/y/../x", "a={0}/state"])
def test_crawls_with_one_directory_are_refused_as_a_setting(tmp_path: Path, crawls: str) -> None:
    options = ["--state", f"{tmp_path}/state", "--http", "127.0.0.1:0", "--frontier", "127.0.0.1:0"]
    options += ["--set", f"frontier.crawls={crawls.format(tmp_path)}"]
    result = CliRunner().invoke(serve_command, options)
    assert isinstance(result.exception, SettingsError)
    assert not (tmp_path / "state").exists()
