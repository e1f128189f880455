"""Requests that cost the service much, each sent by eight clients for seconds: its health is answered meanwhile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.soak.test_fuzzed_requests import SOAK_HEALTH_S, watched_health
from tests.support.http_service import URLS, head, make_client, read_all, started

pytestmark = [pytest.mark.cases(ordinary=0, whole=1), pytest.mark.usefixtures("case")]

CLIENTS = 8
ATTACK_S = 15.0  # of each attack
SILENT = 520  # connections that ask and do not read
JSON = "content-type: application/json"
ATTACKER = "127.0.0.2"  # so that the bound of an address leaves room to the one who asks for the health

Place = tuple[str, int]


def with_body(method: str, path: str, body: bytes) -> bytes:
    return head(method, path, JSON, "connection: close", f"content-length: {len(body)}") + body


def nest() -> bytes:
    return with_body("POST", "/v1/discover", b'{"urls":' + b"[" * 500)


def name_unknown_fields() -> bytes:
    """8 MB of keys that no outcome has."""
    return with_body("POST", "/v1/outcomes", b"{" + b",".join(b'"k%07d":1' % key for key in range(600_000)) + b"}")


def make_wrong_records() -> bytes:
    """8 MB of records, each of them wrong."""
    return with_body("POST", "/v1/outcomes", b'{"outcomes":[' + b",".join([b'{"url":1,"staus":2}'] * 400_000) + b"]}")


def make_rules() -> bytes:
    """8 MB of rules."""
    rules = {f"https://h{number}.test": {"delay": "2s"} for number in range(180_000)}
    return with_body("PUT", "/v1/rules", json.dumps({"rules": rules}).encode())


def break_chunks() -> bytes:
    return head("POST", "/v1/outcomes", JSON, "transfer-encoding: chunked") + b"zz\r\n\r\n" * 9


def send(place: Place, request: bytes) -> bytes:
    with suppress(ConnectionError), socket.create_connection(place, timeout=60.0, source_address=(ATTACKER, 0)) as one:
        one.sendall(request)
        return read_all(one)
    return b""  # closed before all was sent: a refusal as well


def send_for_a_while(place: Place, request: bytes) -> int:
    ends = time.monotonic() + ATTACK_S
    sent = 0
    while time.monotonic() < ends:
        answer = send(place, request)
        assert not answer or 400 <= int(answer.split(maxsplit=2)[1]) < 500, answer[:300]
        sent += 1
    return sent


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Place]]:
    state = tmp_path_factory.mktemp("attacks") / "state"
    with started("serve", "--state", state, "--set", "http.rate=1000000") as (_, address):
        with make_client(address) as crawler:
            crawler.post("/v1/discover", json={"urls": URLS})
        host, _, port = address.rpartition(":")
        yield address, (host, int(port))


def show(attack: str, took: list[float], sent: int) -> None:
    """Print the figures of `attack` and hold its slow answers to their bound."""
    took.sort()
    usual, slow = took[len(took) // 2], took[int(0.999 * len(took))]
    print(f"{attack}: {sent} sent; /healthz {len(took)} answers, median {usual:.3f} s, 99.9 % {slow:.3f} s")  # noqa: T201
    assert slow <= SOAK_HEALTH_S


@pytest.mark.parametrize(
    "make", [nest, name_unknown_fields, make_wrong_records, make_rules, break_chunks], ids=lambda make: make.__name__
)
def test_large_requests(service: tuple[str, Place], make: Callable[[], bytes]) -> None:
    address, place = service
    request = make()
    with watched_health(address) as took, ThreadPoolExecutor(CLIENTS) as pool:
        sent = sum(pool.map(send_for_a_while, [place] * CLIENTS, [request] * CLIENTS))
    show(make.__name__, took, sent)


def test_connections_that_read_nothing(service: tuple[str, Place]) -> None:
    address, place = service
    silent = list[socket.socket]()
    with watched_health(address) as took:
        for _ in range(SILENT):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.settimeout(10.0)
            one.bind((ATTACKER, 0))
            with suppress(OSError):  # beyond the bound of an address it is closed
                one.connect(place)
                one.sendall(head("GET", "/openapi.json") * 100)
            silent.append(one)
        time.sleep(ATTACK_S)
    for one in silent:
        one.close()
    show("silent", took, len(silent))
