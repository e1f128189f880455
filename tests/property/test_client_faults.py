"""Whatever fails between the client and the service: no batch and no outcome is lost, none is there twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import SettingsError, UnknownPage
from streamsched.client import AsyncClient, AsyncOutcomeSender, Client, Outcome, OutcomeSender, RetryPolicy
from streamsched.errors import ServiceError, ServiceUnavailable
from tests.support.cases import examples
from tests.support.faulty_proxy import APPLIED, MENDED, Fault, FaultyProxy, proxy_before
from tests.support.http_service import NOW, URLS, Running, running

POLICY = RetryPolicy(first_s=1e-4, most_s=1e-3, attempt_s=20.0)
HASTY = RetryPolicy(first_s=1e-4, most_s=1e-3, attempt_s=2.0)  # where a service is silent
FAULTS = st.lists(st.sampled_from([fault for fault in MENDED if fault is not Fault.SILENCE]), max_size=4)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), rate=1_000_000) as service:
        with Client(f"http://{service.server.address}", timeout_s=300.0) as client:  # kernels are compiled meanwhile
            client.discover(URLS)
            client.next_batch(1)
            client.observe([Outcome(url, NOW - 7.0, status=200, changed=True) for url in URLS])
            service.clock.now_s += 1_000.0
            client.next_batch(3)
        yield service


@pytest.fixture(scope="module")
def running_proxy(service: Running) -> Iterator[FaultyProxy]:
    with proxy_before(service.place) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: FaultyProxy) -> FaultyProxy:
    running_proxy.script.clear()
    running_proxy.forwarded.clear()
    return running_proxy


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[Client]:
    with Client(proxy.url, retries=POLICY, timeout_s=60.0) as client:
        yield client


def leased_by(service: Running) -> set[str]:
    """Return the pages that are leased."""
    now_s = service.clock.now_s
    views = [service.scheduler.page(url, now=now_s) for url in URLS]
    return {view.url for view in views if view is not None and view.lease_until_s is not None}


@pytest.mark.parametrize("fault", MENDED)
def test_each_fault_is_mended(fault: Fault, service: Running, proxy: FaultyProxy) -> None:
    proxy.fail([fault])
    service.clock.now_s += 1_000.0  # all leases have expired
    with Client(proxy.url, retries=HASTY if fault is Fault.SILENCE else POLICY, timeout_s=60.0) as client:
        batch = client.next_batch(3)
    assert leased_by(service) == {page.url for page in batch.pages}
    assert batch.repeated == (fault in APPLIED)
    assert proxy.forwarded == ["POST /v1/next"] * (2 if fault in APPLIED else 1)


@examples(ordinary=3, whole=10)
@given(st.lists(st.tuples(st.integers(1, 4), FAULTS), min_size=1, max_size=4))
def test_batches_are_disjoint_and_no_lease_is_lost(
    service: Running, running_proxy: FaultyProxy, calls: list[tuple[int, list[Fault]]]
) -> None:
    service.clock.now_s += 1_000.0
    received: list[str] = []
    with Client(running_proxy.url, retries=POLICY, timeout_s=60.0) as client:
        for k, faults in calls:
            running_proxy.fail(faults)
            received += [page.url for page in client.next_batch(k).pages]
    assert sorted(received) == sorted(leased_by(service))


@examples(ordinary=3, whole=10)
@given(st.integers(0, 40), st.integers(1, 9), FAULTS)
def test_outcomes_are_applied_once(
    service: Running, running_proxy: FaultyProxy, count: int, frame: int, faults: list[Fault]
) -> None:
    before = _visits(service)
    running_proxy.fail(faults)
    service.clock.now_s += 1_000.0
    outcomes = [Outcome(url, service.clock.now_s, status=200, changed=False) for url in URLS[:count]]
    with (
        Client(running_proxy.url, retries=POLICY, timeout_s=60.0) as client,
        OutcomeSender(client, frame=frame, every_s=0.01) as sender,
    ):
        for outcome in outcomes:
            sender.add(outcome)
    assert sender.unsent == []
    assert [after - one for after, one in zip(_visits(service), before, strict=True)] == [
        int(url in URLS[:count]) for url in URLS
    ]
    assert sum(sender.counts[name] for name in ("applied", "duplicates", "late", "refused", "rejected")) == count


def _visits(service: Running) -> list[int]:
    now_s = service.clock.now_s
    views = [service.scheduler.page(url, now=now_s) for url in URLS]
    return [0 if view is None else view.visits for view in views]


@pytest.mark.parametrize("fault", APPLIED)
@pytest.mark.parametrize("name", ["release", "use"])
def test_what_must_not_be_repeated_is_not(fault: Fault, name: str, proxy: FaultyProxy) -> None:
    proxy.fail([fault])
    arguments: dict[str, Any] = {"release": URLS[:1], "use": "changes"}
    timeout_s = 2.0 if fault is Fault.SILENCE else 20.0
    with Client(proxy.url, retries=POLICY, timeout_s=timeout_s) as client, pytest.raises(ServiceUnavailable):
        getattr(client, name)(arguments[name])
    assert len(proxy.forwarded) == 1


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.TOO_MANY])
def test_what_was_certainly_not_applied_is_repeated(fault: Fault, proxy: FaultyProxy, client: Client) -> None:
    proxy.fail([fault, fault])
    client.release(URLS[:1])
    assert proxy.forwarded == ["POST /v1/release"]


@pytest.mark.parametrize("fault", [Fault.WRONG_TYPE, Fault.GIBBERISH])
def test_what_is_no_service_is_an_error_at_once(fault: Fault, proxy: FaultyProxy, client: Client) -> None:
    proxy.fail([fault, Fault.BUSY])
    with pytest.raises(ServiceError) as caught:
        client.stats()
    assert not caught.value.retriable
    assert caught.value.status == 200
    assert list(proxy.script) == [Fault.BUSY]


@pytest.mark.parametrize("fault", [Fault.SILENCE, Fault.BUSY, Fault.TRICKLE])
def test_a_call_ends_at_its_deadline(fault: Fault, proxy: FaultyProxy, client: Client) -> None:
    proxy.fail([fault] * 1_000)
    with pytest.raises(ServiceUnavailable) as caught:
        client.rank(1, timeout_s=0.4)
    assert caught.value.retriable


def test_refused_connections_are_tried_again() -> None:
    with (
        Client("http://127.0.0.1:9", retries=RetryPolicy(first_s=1e-4, most_s=1e-3, attempts=3)) as client,
        pytest.raises(ServiceUnavailable) as caught,
    ):
        client.release(URLS)
    assert caught.value.status is None
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_errors_of_the_library_are_those_of_the_library(client: Client, proxy: FaultyProxy) -> None:
    proxy.fail([Fault.BUSY])
    with pytest.raises(UnknownPage):
        client.explain("https://nowhere.example/")
    with pytest.raises(SettingsError) as caught:
        client.next_batch(0)
    assert caught.value.setting == "k"


def test_a_sender_waits_for_a_service_that_is_gone(service: Running, proxy: FaultyProxy) -> None:
    at = service.clock.now_s + 100.0
    service.clock.now_s += 1_000.0

    async def send() -> AsyncOutcomeSender:
        hasty = RetryPolicy(first_s=1e-4, most_s=1e-3, attempts=1)
        async with (
            AsyncClient(proxy.url, retries=hasty) as client,
            AsyncOutcomeSender(client, frame=2, every_s=0.01, capacity=4) as sender,
        ):
            proxy.fail([Fault.BUSY] * 3)
            await sender.add(Outcome(URLS[0], at, status=200))
            with pytest.raises(ServiceUnavailable):
                await sender.flush()
            assert len(sender.unsent) == 1
            await sender.add(Outcome(URLS[1], at, status=200))
            while sender.unsent:
                await asyncio.sleep(0.001)
        return sender

    sender = asyncio.run(send())
    assert sender.unsent == []
    assert sender.counts["applied"] == 2


@pytest.mark.parametrize("fault", [Fault.WRONG_TYPE, Fault.CLOSED_AFTER_REQUEST])
def test_a_sender_that_cannot_send_says_so_and_keeps_the_outcomes(
    fault: Fault, service: Running, proxy: FaultyProxy
) -> None:
    proxy.fail([fault] * 2)
    at = service.clock.now_s
    hasty = RetryPolicy(first_s=1e-4, most_s=1e-3, attempts=1)
    outcomes = [Outcome(url, at, status=200) for url in URLS[:3]]
    with Client(proxy.url, retries=hasty) as client:
        sender = OutcomeSender(client, frame=10, every_s=60.0)
        with pytest.raises(ServiceError):
            _send_all(sender, outcomes)
        assert sender.unsent == outcomes


def _send_all(sender: OutcomeSender, outcomes: list[Outcome]) -> None:
    with sender:
        for outcome in outcomes:
            sender.add(outcome)
