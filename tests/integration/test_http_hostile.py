"""Requests that are too large, too slow, incomplete or many at once: the service answers or closes, and goes on."""

from __future__ import annotations

import gzip
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ServedFront, serving_front
from tests.support.http_service import Running, exchange, head, read_all, running

BODY_TIMEOUT_S = 0.5
IDLE_S = 0.7
MOST_BYTES = 10_000
CONNECTIONS = 12
OF_ADDRESS = 36
WRITE_S = 0.7
Served = Running | ServedFront
ASKED = 100  # answers that a silent client asks for: together more than the buffers of a connection hold


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service, or for tests of `either` a front of a cluster too, which has the same server before it."""
    bounds: dict[str, Any] = {"body_timeout": BODY_TIMEOUT_S, "idle_timeout": IDLE_S, "max_body": MOST_BYTES}
    bounds |= {"connections": CONNECTIONS, "connections_per_address": OF_ADDRESS, "write_timeout": WRITE_S}
    serve = serving_front if getattr(request, "param", None) == "front" else running
    with serve(tmp_path_factory.mktemp("service"), **bounds) as service:
        yield service


@pytest.fixture(autouse=True)
def goes_on(service: Served) -> Iterator[None]:
    """Whatever a test does, the next request is answered."""
    yield
    assert b'"ok"' in exchange(service.place, head("GET", "/readyz", "connection: close"))


either = pytest.mark.parametrize("service", ["service", "front"], indirect=True, scope="module")


def post(*fields: str) -> bytes:
    return head("POST", "/v1/discover", "content-type: application/json", *fields)


def status(answer: bytes) -> int:
    return int(answer.split(maxsplit=2)[1])


@either
def test_a_body_that_says_it_is_too_large_is_not_read(service: Served) -> None:
    answer = exchange(service.place, post(f"content-length: {1 << 40}"))
    assert status(answer) == 413
    assert b'"body_too_large"' in answer


def test_a_body_that_does_not_say_how_large_it_is_has_the_same_bound(service: Served) -> None:
    part = b"400\r\n" + b"x" * 1024 + b"\r\n"
    with socket.create_connection(service.place, timeout=10.0) as connection:
        connection.sendall(post("transfer-encoding: chunked"))
        answer = b""
        try:
            for _ in range(10_000):
                connection.sendall(part)
        except OSError:
            pass  # it has been closed in the middle
        try:
            answer = read_all(connection)
        except ConnectionError:
            return
    assert not answer or status(answer) == 413


@either
def test_a_slow_body_is_not_waited_for(service: Served) -> None:
    began = time.monotonic()
    answer = exchange(service.place, post("content-length: 100"), b'{"urls": [')
    assert status(answer) == 408
    assert BODY_TIMEOUT_S <= time.monotonic() - began < 5.0


def test_half_bodies_hold_their_places_for_a_time_and_others_are_served(service: Served) -> None:
    half = [socket.create_connection(service.place, timeout=10.0) for _ in range(2 * CONNECTIONS)]
    try:
        for one in half:
            one.sendall(post("content-length: 9000") + b'{"urls": ["https://' + b"a" * 4_000)
        assert b'"ok"' in exchange(service.place, head("GET", "/healthz", "connection: close"))
        assert {status(read_all(one)) for one in half} == {408}
    finally:
        for one in half:
            one.close()


def test_a_body_that_drips_is_not_waited_for(service: Served) -> None:
    with socket.create_connection(service.place, timeout=10.0) as connection:
        connection.sendall(post("content-length: 1000"))
        for _ in range(20):
            connection.sendall(b" ")
            connection.settimeout(BODY_TIMEOUT_S / 5)
            try:
                answer = connection.recv(1 << 16)
                break
            except TimeoutError:
                continue
        else:
            pytest.fail("still waiting")
    assert status(answer) == 408


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nhost: localh"])
def test_a_half_open_request_is_closed(service: Served, sent: bytes) -> None:
    began = time.monotonic()
    assert exchange(service.place, sent) == b""
    assert IDLE_S / 2 <= time.monotonic() - began < 5.0


def test_a_connection_without_further_requests_is_closed(service: Served) -> None:
    assert exchange(service.place, head("GET", "/healthz")).count(b"HTTP/1.1 200") == 1


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(service: Served) -> None:
    for _ in range(2 * CONNECTIONS):
        with socket.create_connection(service.place, timeout=10.0) as connection:
            connection.sendall(post("content-length: 100") + b'{"urls": [')
    assert service.client.get("/v1/stats").json()["pages"] == 0


@either
def test_pipelined_requests_are_answered_in_their_order(service: Served) -> None:
    body = b'{"urls": ["https://a.example/"]}'
    add = post(f"content-length: {len(body)}") + body
    answer = exchange(
        service.place, add + head("GET", "/v1/nothing") + add + head("GET", "/healthz", "connection: close")
    )
    parts = answer.split(b"HTTP/1.1 ")[1:]
    assert [int(part[:3]) for part in parts] == [200, 404, 200, 200]
    assert b'"added":1' in parts[0]
    assert b'"added":0' in parts[2]


def test_a_compressed_bomb_is_refused_unread(service: Served) -> None:
    bomb = gzip.compress(b" " * 8_000_000)
    fields = "content-encoding: gzip", f"content-length: {len(bomb)}"
    answer = exchange(service.place, post(*fields) + bomb)
    assert status(answer) == 415
    assert b"accept-encoding: identity" in answer


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b"[" * 9_000),
        ("application/json", b'{"urls":' + b"[" * 500 + b"]" * 500 + b"}"),
        ("application/json", b'{"urls":' * 1_000),
        ("application/json", b'{"urls": ["\xff"]}'),
        ("application/json", b'{"urls": ["\\ud800"]}'),
        ("application/json", b'{"urls": [1e999]}'),
        ("application/msgpack", b"\x91" * 9_000),
        ("application/msgpack", b"\xdd\xff\xff\xff\xff"),  # a list of 4 G items that do not come
        ("application/msgpack", b"\x81\xa4urls\xdd\xff\xff\xff\xff"),
        ("application/msgpack", b"\xdf\xff\xff\xff\xff"),
        ("application/msgpack", b"\xc6\xff\xff\xff\xff"),
    ],
)
def test_bodies_that_burst_decoders_are_refused(service: Served, media_type: str, body: bytes) -> None:
    answer = service.client.post("/v1/discover", content=body, headers={"content-type": media_type})
    assert answer.status_code in (400, 422)
    frame = {"content-type": "application/vnd.streamsched.frames"}
    assert service.client.post("/v1/outcomes", content=body, headers=frame).status_code in (400, 422)


def test_what_is_no_http_is_closed(service: Served) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"x" * 500_000):
        with socket.create_connection(service.place, timeout=10.0) as connection:
            try:
                connection.sendall(sent + b"\r\n\r\n")
                answer = read_all(connection)
            except ConnectionError:
                answer = b""
        assert not answer or status(answer) >= 400
    assert service.client.get("/healthz").status_code == 200


def test_a_head_has_a_bound(service: Served) -> None:
    with socket.create_connection(service.place, timeout=10.0) as connection:
        try:
            connection.sendall(head("GET", "/healthz", "x: " + "y" * 1_000_000))
            answer = read_all(connection)
        except ConnectionError:
            return
    assert status(answer) == 431


def test_more_connections_than_are_served_wait_and_are_answered(service: Served) -> None:
    idle = [socket.create_connection(service.place, timeout=10.0) for _ in range(2 * CONNECTIONS)]
    try:
        assert b'"ok"' in exchange(service.place, head("GET", "/healthz", "connection: close"))
    finally:
        for one in idle:
            one.close()


def open_silent(service: Served) -> socket.socket:
    """Ask for megabytes and read nothing of them."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(service.place)
    connection.sendall(head("GET", "/openapi.json") * ASKED)
    return connection


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def count_bytes(connection: socket.socket) -> int:
    """Read until the connection ends, by whatever end; return how many bytes there were."""
    read = 0
    try:
        while part := connection.recv(1 << 20):
            read += len(part)
    except ConnectionError:
        pass
    return read


@either
def test_clients_that_read_no_answer_are_closed(service: Served) -> None:
    """They hold their places no longer than the write timeout, and all that wait are answered then.

    What they have asked for is not kept in memory until they read it.
    """
    whole, before = len(service.client.get("/openapi.json").content) * ASKED, resident_bytes()
    silent = [open_silent(service) for _ in range(2 * CONNECTIONS)]
    try:
        assert b'"ok"' in exchange(service.place, head("GET", "/healthz", "connection: close"))
        assert resident_bytes() - before < len(silent) * whole / 8
        first = silent[:CONNECTIONS]  # the time of the others begins when they are served
        assert all(count_bytes(one) < whole for one in first)
    finally:
        for one in silent:
            one.close()


def test_an_answer_that_nobody_reads_ends_with_the_connection(service: Served) -> None:
    """The last answer fits the buffers: nothing is paused, but the connection is not idle for ever."""
    with socket.create_connection(service.place, timeout=10.0) as connection:
        connection.sendall(head("GET", "/healthz"))
        assert read_all(connection).count(b"HTTP/1.1 200") == 1


@either
def test_an_address_has_a_bound_of_connections_and_others_are_served(service: Served) -> None:
    held = [socket.create_connection(service.place, timeout=10.0) for _ in range(OF_ADDRESS)]
    try:
        refused = exchange(service.place, b"")
        assert status(refused) == 503
        assert b'"too_many_connections"' in refused
        with socket.create_connection(service.place, timeout=10.0, source_address=("127.0.0.2", 0)) as other:
            other.sendall(head("GET", "/healthz", "connection: close"))
            assert b'"ok"' in read_all(other)
    finally:
        for one in held:
            one.close()


def test_bytes_between_requests_keep_no_connection(service: Served) -> None:
    with socket.create_connection(service.place, timeout=10.0) as connection:
        connection.settimeout(IDLE_S / 10)
        assert any(_ends_on_bytes(connection) for _ in range(100))


def _ends_on_bytes(connection: socket.socket) -> bool:
    """Send an empty line; return whether the connection turns out to be closed."""
    try:
        connection.sendall(b"\r\n")
        return not connection.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_refused_body_may_come_to_its_end(service: Served) -> None:
    """So its client reads the answer, and asks again on the same connection."""
    body = b" " * (2 * MOST_BYTES)
    sent = post(f"content-length: {len(body)}") + body + head("GET", "/healthz", "connection: close")
    answer = exchange(service.place, sent)
    assert [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]] == [413, 200]


def test_a_very_long_target_is_refused(service: Served) -> None:
    with socket.create_connection(service.place, timeout=10.0) as connection:
        connection.sendall(head("GET", "/v1/pages/" + "a" * 60_000, "connection: close"))
        assert status(read_all(connection)) in (404, 414)


@pytest.mark.parametrize("chunk", [b"zz\r\nabc\r\n", b'5\r\n{"urlsXX\r\n', b"-1\r\n", b"f" * 18 + b"\r\n"])
def test_a_malformed_chunk_is_refused(service: Served, chunk: bytes) -> None:
    answer = exchange(service.place, post("transfer-encoding: chunked"), chunk + b"0\r\n\r\n")
    assert status(answer) == 400
    assert b'"malformed"' in answer


def test_two_lengths_are_refused(service: Served) -> None:
    """What a proxy and a server may read differently is how requests are smuggled."""
    answer = exchange(service.place, post("content-length: 2", "content-length: 3") + b"{}x")
    assert status(answer) == 400
    both = exchange(service.place, post("content-length: 5", "transfer-encoding: chunked") + b"0\r\n\r\n")
    assert status(both) in (400, 422)
