"""Crawlers side by side: no page twice, keys, a full queue, clients that die, a clock that is put back."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.support.http_service import NOW, URLS, Clock, Running, make_client, outcome, running
from tests.support.waiting import CALL_S, pause

CALLERS = 64


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), connections=2 * CALLERS) as service:
        yield service


@contextmanager
def scheduler_held(service: Running) -> Iterator[None]:
    """In this block every call of the scheduler waits."""
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with service.scheduler.core.lock:
            held.set()
            free.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        free.set()
        thread.join()


def test_64_callers_at_once_never_get_the_same_page(service: Running) -> None:
    pages = [f"https://c{i % 97}.example/{i}" for i in range(2_000)]
    service.client.post("/v1/discover", json={"urls": pages})
    start = threading.Barrier(CALLERS)

    def call(_number: int) -> list[str]:
        with make_client(service.server.address) as client:
            start.wait()
            urls: list[str] = []
            for _ in range(2):
                batch = client.post("/v1/next", json={"k": 7, "lease": "1h"}).json()["pages"]
                urls += [page["url"] for page in batch]
                done = [outcome(page["url"], NOW - 1.0) for page in batch[:1]]
                client.post("/v1/outcomes", json={"outcomes": done})
            return urls

    with ThreadPoolExecutor(CALLERS) as pool:
        taken = Counter(url for urls in pool.map(call, range(CALLERS)) for url in urls)
    assert len(taken) >= CALLERS * 2 * 6  # a page comes again after its outcome only
    again = {url for url, count in taken.items() if count > 1}
    assert all(service.client.get("/v1/explain", params={"url": url}).json()["first_visited"] for url in again)
    leased = [page for page in taken if page not in again]
    assert len(leased) > len(again)


def test_a_key_returns_the_same_batch_and_no_other_body_may_have_it(service: Running) -> None:
    service.client.post("/v1/discover", json={"urls": URLS})
    body = {"k": 3, "lease": "5m", "key": "one"}
    first = service.client.post("/v1/next", json=body).json()
    again = service.client.post("/v1/next", json=body).json()
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["pages"] == first["pages"]
    other = service.client.post("/v1/next", json={**body, "k": 4})
    assert (other.status_code, other.json()["code"], other.json()["field"]) == (422, "key_reused", "key")
    service.clock.now_s += 301.0
    later = service.client.post("/v1/next", json={**body, "k": 4}).json()
    assert not later["repeated"]


def test_a_key_that_is_still_running_is_refused(service: Running) -> None:
    body = {"k": 1, "key": "running"}
    with ThreadPoolExecutor(1) as pool:
        with scheduler_held(service):
            first = pool.submit(service.client.post, "/v1/next", json=body)
            while not service.server.requests_under_way:
                time.sleep(0.01)
            with make_client(service.server.address) as client:
                second = client.post("/v1/next", json=body)
        assert (second.status_code, second.json()["code"], second.json()["retriable"]) == (409, "key_running", True)
        assert first.result().status_code == 200


def test_a_client_that_dies_before_its_answer_gets_it_later(service: Running) -> None:
    service.client.post("/v1/discover", json={"urls": [f"https://died.example/{i}" for i in range(9)]})
    body = {"k": 4, "hosts": ["died.example"], "key": "died"}
    raw = msgspec.json.encode(body)
    head = f"POST /v1/next HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}"
    before = service.client.get("/v1/stats").json()["handed_out"]
    with socket.create_connection(service.place) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + raw)
        while service.client.get("/v1/stats").json()["handed_out"] == before:
            pause(CALL_S)
    while (answer := service.client.post("/v1/next", json=body)).status_code == 409:
        pass  # leased, but not on disk yet
    again = answer.json()
    assert (again["repeated"], len(again["pages"])) == (True, 4)
    rest = service.client.post("/v1/next", json={"k": 9, "hosts": ["died.example"]}).json()["pages"]
    assert {page["url"] for page in rest}.isdisjoint(page["url"] for page in again["pages"])
    assert len(rest) == 5


def test_a_full_queue_refuses_and_says_when_to_come_back(tmp_path: Path) -> None:
    def observe(address: str, number: int) -> httpx.Response:
        body = {"outcomes": [outcome(f"https://full.example/{number}", NOW - 1.0)]}
        with make_client(address) as client:
            return client.post("/v1/outcomes", json=body)

    with running(tmp_path, queue=4) as service, ThreadPoolExecutor(12) as pool:
        with scheduler_held(service):
            calls = [pool.submit(observe, service.server.address, number) for number in range(12)]
            while sum(call.done() for call in calls) < 7:  # one is being done and four wait
                time.sleep(0.01)
            assert service.client.get("/healthz").status_code == 200
            refused = [call.result() for call in calls if call.done()]
        assert {(one.status_code, one.json()["code"], one.headers["retry-after"]) for one in refused} == {
            (503, "queue_full", "1")
        }
        assert sum(call.result().status_code == 200 for call in calls) == 5
        assert service.client.get("/v1/stats").json()["outcomes"]["applied"] == 5


def test_calls_that_are_written_together_get_their_own_counts(tmp_path: Path) -> None:
    with running(tmp_path) as service, ThreadPoolExecutor(16) as pool:

        def observe(number: int) -> dict[str, int]:
            events = [outcome(f"https://own.example/{number}/{i}", NOW - 1.0) for i in range(number)]
            with make_client(service.server.address) as client:
                counts: dict[str, int] = client.post("/v1/outcomes", json={"outcomes": events}).json()
                return counts

        applied = [counts["applied"] for counts in pool.map(observe, range(40))]
    assert applied == list(range(40))


def test_a_clock_put_back_does_not_stop_time(tmp_path: Path) -> None:
    clock = Clock()
    with running(tmp_path, clock=clock) as service:
        service.client.post("/v1/discover", json={"urls": URLS})
        first = service.client.post("/v1/next", json={"k": 5, "lease": "1s"}).json()
        clock.now_s -= 86_400.0
        times = [first["now"]]
        while service.client.get("/v1/stats").json()["now"] <= first["now"] + 1.0:
            times.append(service.client.get("/v1/rank").json()["now"])
        assert times == sorted(times)
        again = service.client.post("/v1/next", json={"k": 40, "lease": "1s"}).json()
        assert {page["url"] for page in first["pages"]} <= {page["url"] for page in again["pages"]}
        counts = service.client.post("/v1/outcomes", json={"outcomes": [outcome(URLS[0], again["now"])]}).json()
        assert counts["applied"] == 1


def test_a_disk_that_is_full_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does each refusal fill the log: the first one is logged, and that calls are accepted again."""
    caplog.set_level(logging.INFO)
    events = {"calls refused", "calls accepted again"}
    body = {"outcomes": [outcome("https://full.example/", NOW - 1.0)]}
    with running(tmp_path) as service:
        monkeypatch.setattr("streamsched.persistence.call_log.os.fdatasync", _fail)
        answer = service.client.post("/v1/outcomes", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "state_not_writable")
        for _ in range(2):
            assert service.client.post("/v1/outcomes", json=body).status_code == 503
        assert [record.msg for record in caplog.records if record.msg in events] == ["calls refused"]
        assert service.client.get("/readyz").status_code == 503
        page = quote("https://full.example/", safe="")
        reads = (
            "hosts",
            "hosts/full.example",
            f"pages/{page}",
            f"explain?url={page}",
            "rank",
            "week",
            "signals/sources",
        )
        for path in reads:
            for _ in range(2):  # either thread of the scheduler
                assert service.client.get(f"/v1/{path}").status_code == 200, path
        monkeypatch.undo()
        service.scheduler.snapshot()
        assert service.client.post("/v1/outcomes", json=body).json()["duplicates"] == 1
        assert [record.msg for record in caplog.records if record.msg in events] == [
            "calls refused",
            "calls accepted again",
        ]
        assert service.client.get("/readyz").status_code == 200


def _fail(_handle: int) -> None:
    raise OSError(28, "No space left on device")


def test_an_offer_leases_nothing_and_can_be_granted(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.client.post("/v1/discover", json={"urls": URLS})
        service.client.post("/v1/outcomes", json={"outcomes": [outcome(url, NOW - 604_800.0) for url in URLS[:20]]})
        service.client.post("/v1/ask", json={"urls": URLS[:1]})
        offered = service.client.post("/v1/offer", json={"k": 10, "keys": ["a"]}).json()
        assert service.client.post("/v1/offer", json={"k": 10, "keys": ["a"]}).json()["granted"] is None
        urls = [page["url"] for page in offered["pages"]]
        ties = service.scheduler.tie_keys(urls, now=offered["now"]).tolist()
        assert ties == [page["tie"] for page in offered["pages"]]
        assert [page["new"] for page in offered["pages"]] == [url not in URLS[:20] for url in urls]
        assert (urls[0], offered["pages"][0]["tier"], offered["pages"][0]["overdue_since"]) == (URLS[0], 2, None)
        assert (offered["new_share"], offered["explore_share"], offered["panel_share"]) == (0.1, 0.0, 0.0)
        wanted = {"urls": [*urls[:5], "https://unknown.example/"], "key": "a"}
        granted = service.client.post("/v1/grant", json=wanted).json()
        assert (granted["refused"], granted["repeated"]) == ({"https://unknown.example/": "unknown"}, False)
        assert service.client.post("/v1/grant", json=wanted).json() == {**granted, "repeated": True}
        again = service.client.post("/v1/offer", json={"k": 10, "keys": ["b", "a"]}).json()
        assert sorted(page["url"] for page in again["granted"]) == sorted(urls[:5])
        assert {page["lease_until"] for page in again["granted"]} == {granted["lease_until"]}
        assert not {page["url"] for page in again["pages"]} & set(urls[:5])
        other = service.client.post("/v1/grant", json={**wanted, "urls": urls[5:]})
        assert (other.status_code, other.json()["code"]) == (422, "key_reused")
