"""A service of its own process gets thousands of hostile requests: it answers each, and its health at once."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.persistence.state_directory import check_directory
from tests.support.cases import how_many
from tests.support.hostile_requests import MOST_BYTES, Request, make_request
from tests.support.http_service import URLS, make_client, started

REQUESTS = how_many(2_500, 10_000)  # of a case
CLIENTS = 4
LONGEST_S = 20.0  # of an answer, on a machine that has other work
HEALTH_EVERY_S = 0.1
HEALTH_S = 5.0  # the longest answer of /healthz beside other tests
SOAK_HEALTH_S = 1.0  # at the 99.9th percentile, where the machine is that of the test
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Client:
    """Sends hostile requests to the service at `place`; ``findings``: what was wrong with the answers."""

    def __init__(self, place: tuple[str, int], rng: random.Random) -> None:
        self.findings: list[str] = []
        self.statuses: Counter[int] = Counter()
        self._place = place
        self._rng = rng
        self._kept: socket.socket | None = None

    def send(self, requests: int) -> None:
        """Send that number of requests, one after the other."""
        for _ in range(requests):
            request = make_request(self._rng)
            try:
                problem = self._send_whole(request) if request.is_whole else self._send_malformed(request)
            except TimeoutError:
                problem = "no answer in time"
                self._close()
            if problem:
                self.findings.append(f"{problem}: {request.show()}")
        self._close()

    def _send_whole(self, request: Request) -> str:
        if self._kept is None:
            self._kept = socket.create_connection(self._place, timeout=LONGEST_S)
        try:
            with suppress(ConnectionError):  # the answer may have come before all was sent
                self._kept.sendall(request.raw)
            status, fields, body = read_answer(self._kept, request.method)
        except ConnectionError as error:
            self._close()
            return f"{type(error).__name__} instead of an answer"
        self.statuses[status] += 1
        if fields.get(b"connection") == b"close":
            self._close()
        if status >= 500:
            return f"answered with {status}: {body!r}"
        if status >= 400 and fields.get(b"content-type") != b"application/problem+json":
            return f"answered with {status}, and no problem: {body[:200]!r}"
        return ""

    def _send_malformed(self, request: Request) -> str:
        received = b""
        with socket.create_connection(self._place, timeout=LONGEST_S) as connection:
            try:
                connection.sendall(request.raw)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    received += part
            except ConnectionError:
                pass  # it may be closed in the middle of what is no HTTP
        statuses = [int(status) for status in STATUS.findall(received)]
        self.statuses.update(statuses)
        return f"answered with {received!r}" if any(status >= 500 for status in statuses) else ""

    def _close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def read_answer(connection: socket.socket, method: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, header fields and body of the next answer. Raises ConnectionError if there is none."""
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += receive(connection)
    status, *lines = bytes(received[:end]).split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    size = 0 if method == "HEAD" else int(fields[b"content-length"])
    while len(received) < end + 4 + size:
        received += receive(connection)
    return int(status.split()[1]), fields, bytes(received[end + 4 :])


def receive(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 16)
    if not part:
        raise ConnectionResetError
    return part


@contextmanager
def watched_health(address: str) -> Iterator[list[float]]:
    """Ask for the health of the service again and again within the block; yield how long each answer took."""
    took: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        with make_client(address) as client:
            while not ended.wait(HEALTH_EVERY_S):
                begun = time.monotonic()
                assert client.get("/healthz").status_code == 200
                took.append(time.monotonic() - begun)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield took
        finally:
            ended.set()
            watching.result()


@pytest.mark.cases(ordinary=1, whole=10)
def test_hostile_requests(tmp_path: Path, rng: random.Random, pytestconfig: pytest.Config) -> None:
    state, log = tmp_path / "state", list[str]()
    words = ("serve", "--state", state, "--set", "http.rate=1000000", "--set", "http.body_timeout=5s")
    with started(*words, log=log) as (process, address), make_client(address) as crawler:
        crawler.post("/v1/discover", json={"urls": URLS})
        politeness = crawler.get("/v1/politeness").json()
        host, _, port = address.rpartition(":")
        clients = [Client((host, int(port)), random.Random(rng.random())) for _ in range(CLIENTS)]
        with watched_health(address) as took, ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(Client.send, clients, [REQUESTS // CLIENTS] * CLIENTS))
        findings = [finding for client in clients for finding in client.findings]
        assert not findings, "\n".join([f"{len(findings)} findings", *findings[:9]])
        check_leases(crawler, politeness)
        large = crawler.post(
            "/v1/outcomes", content=b" " * (MOST_BYTES + 1), headers={"content-type": "application/json"}
        )
        assert large.status_code == 413  # too seldom among the random ones
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    statuses = sum((client.statuses for client in clients), Counter[int]())
    took.sort()
    slowest, usual = took[-1], took[int(0.999 * len(took))]
    print(f"/healthz: {len(took)} answers, the slowest {slowest:.3f} s; answers: {sorted(statuses.items())}")  # noqa: T201
    assert {200, 400, 404, 405, 415, 422} <= statuses.keys()
    assert usual <= (SOAK_HEALTH_S if pytestconfig.getoption("soak") else HEALTH_S)
    assert [line for line in log if json.loads(line)["level"] in ("error", "critical")] == []
    assert check_directory(state) == []


def check_leases(crawler: httpx.Client, politeness: dict[str, Any]) -> None:
    """Without the rules and settings that hostile requests have made, new pages are leased as ever."""
    rules = crawler.get("/v1/rules").json()
    targets = [target for kind in rules.values() if isinstance(kind, dict) for target in kind]
    assert crawler.put("/v1/rules", json={"rules": dict.fromkeys(targets)}).status_code == 200
    assert crawler.put("/v1/politeness", json=politeness).status_code == 200
    assert crawler.put("/v1/champion", json={"formula": "changes"}).status_code == 200
    hosts = [f"after{number}.test" for number in range(3)]
    assert crawler.post("/v1/discover", json={"urls": [f"https://{host}/" for host in hosts]}).json()["added"] == 3
    assert len(crawler.post("/v1/next", json={"k": 3, "hosts": hosts}).json()["pages"]) == 3
