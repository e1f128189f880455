"""The change feed over HTTP: each change once and in order, long polls, cursors, kills, a full disk, waits."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from streamsched import ChangesGone, DurableScheduler, Outcome, SettingsError, SnapshotError
from streamsched.api.answers import Changes
from streamsched.client import AsyncClient, Client, ServiceUnavailable
from streamsched.persistence.image_writer import SavePlan
from streamsched.service.change_writer import CURSOR_NAME
from tests.support.child_processes import no_file_beyond
from tests.support.command_line import Command, start
from tests.support.http_service import NOW, URLS, Running, head, make_client, outcome, running, started

KEEP = ("--set", "changes.keep=7d")
PATIENCE_S = 60.0  # with what is done at once on an idle machine


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, connections_per_address=400) as opened:
        visit(opened.client, URLS, NOW - 10_000.0)
        yield opened


def visit(client: httpx.Client, urls: list[str], at: float, **fields: Any) -> dict[str, Any]:
    answer = client.post(
        "/v1/outcomes", params={"positions": "true"}, json={"outcomes": [outcome(url, at, **fields) for url in urls]}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def read(client: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = client.get("/v1/changes", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def until(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_positions_are_those_of_the_changes_in_the_call(service: Running) -> None:
    outcomes = [outcome(url, NOW - 5_000.0, changed=number % 3 == 0) for number, url in enumerate(URLS[:9])]
    outcomes[1]["fetched_at"] = NOW + 1e6  # refused: ahead of the clock
    outcomes[2]["url"] = "no URL"
    answer = service.client.post("/v1/outcomes?positions=true", json={"outcomes": outcomes}).json()
    assert (answer["positions"], answer["changed"], answer["rejected"]) == ([0, 3, 6], 3, 2)
    assert answer["unchanged"] == [4, 5, 7, 8]
    again = service.client.post("/v1/outcomes", json={"outcomes": outcomes}).json()
    assert (again["positions"], again["unchanged"]) == (None, None)
    with Client(f"http://{service.server.address}") as client:
        sent = [Outcome(url, NOW - 4_000.0, changed=url == URLS[2]) for url in URLS[:4]]
        sent[1:1] = [sent[0], Outcome(URLS[3], NOW - 6_000.0, changed=True), Outcome("https://new.example/", NOW)]
        observed = client.observe(sent, positions=True)
        assert (observed.duplicates, observed.late, observed.first_visits) == (1, 1, 1)
        assert (observed.positions, observed.unchanged) == ([5], [0, 4, 6])
    assert service.scheduler.observe(Outcome(URLS[0], NOW - 3_000.0, changed=True), positions=True).positions == [0]


def test_each_change_has_what_is_known_of_it(service: Running) -> None:
    visit(service.client, ["https://H0.example:443/p0?x"], NOW - 9_000.0)
    visit(service.client, [URLS[1]], NOW - 5_000.0, changed=True, significance=0.25)
    visit(service.client, [URLS[2]], NOW - 4_999.0, status=410)
    visit(service.client, [URLS[3]], NOW - 4_998.0, changed=True, status=301, moved_to="https://new.example/")
    visit(service.client, ["https://H0.example:443/p0?x"], NOW - 4_997.0, changed=True, content=2**64 - 2)
    found = read(service.client)
    plain = {"significance": None, "gone": False, "moved_to": None, "content": None, "unchanged_at": NOW - 10_000.0}
    expected = [
        plain | {"url": URLS[1], "host": "h1.example", "fetched_at": NOW - 5_000.0, "significance": 0.25},
        plain | {"url": URLS[2], "host": "h2.example", "fetched_at": NOW - 4_999.0, "gone": True},
        plain | {"url": URLS[3], "host": "h3.example", "fetched_at": NOW - 4_998.0, "moved_to": "https://new.example/"},
        plain
        | {"url": "https://H0.example:443/p0?x", "host": "h0.example", "fetched_at": NOW - 4_997.0}
        | {"unchanged_at": NOW - 9_000.0, "content": "fffffffffffffffe"},
    ]
    cursors = [change.pop("cursor") for change in found["changes"]]
    assert found["changes"] == expected
    assert found["cursor"] == cursors[-1]
    assert [read(service.client, after=one)["changes"][0]["url"] for one in cursors[:-1]] == [
        change["url"] for change in expected[1:]
    ]


def test_json_msgpack_and_lines_say_the_same(service: Running) -> None:
    visit(service.client, URLS[:5], NOW - 5_000.0, changed=True)
    plain = read(service.client, limit=3)
    packed = service.client.get("/v1/changes", params={"limit": 3}, headers={"accept": "application/msgpack"})
    assert msgspec.to_builtins(msgspec.msgpack.decode(packed.content, type=Changes)) == plain
    lines = service.client.get("/v1/changes", params={"limit": 3}, headers={"accept": "application/x-ndjson"})
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == [*plain["changes"], {"cursor": plain["cursor"]}]
    assert service.client.get("/v1/stats", headers={"accept": "application/x-ndjson"}).status_code == 406


WRONG = [
    ({"after": "x"}, 422, "invalid"),
    ({"after": ""}, 422, "invalid"),
    ({"after": "00c0ffee-0"}, 410, "changes_gone"),
    ({"after": "SELF-1"}, 410, "changes_gone"),
    ({"wait": "61s"}, 422, "invalid"),
    ({"wait": "soon"}, 422, "invalid"),
    ({"limit": "0"}, 422, "invalid"),
    ({"limit": "10001"}, 422, "invalid"),
]


def test_wrong_queries(service: Running) -> None:
    oldest = read(service.client)["cursor"]
    for given, status, code in WRONG:
        query = {name: value.replace("SELF", oldest.partition("-")[0]) for name, value in given.items()}
        answer = service.client.get("/v1/changes", params=query)
        assert (answer.status_code, answer.json()["code"]) == (status, code), query
        if status == 410:
            assert answer.json()["expected"] == oldest
            with Client(f"http://{service.server.address}") as client, pytest.raises(ChangesGone) as gone:
                client.read_changes(query["after"])
            assert (gone.value.after, gone.value.oldest) == (query["after"], oldest)


def test_without_a_feed(tmp_path: Path) -> None:
    with running(tmp_path, keep_changes=0) as service:
        visit(service.client, URLS[:1], NOW - 9.0)
        assert visit(service.client, URLS[:1], NOW - 8.0, changed=True)["positions"] == [0]
        answer = service.client.get("/v1/changes")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_changes")
        with pytest.raises(SettingsError):
            service.scheduler.changes()


def test_a_long_poll_is_answered_by_the_first_change(service: Running) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(read, service.client, after="newest", wait="60s")
        until(lambda: service.server.requests_under_way)
        visit(service.client, URLS[:1], NOW - 5_000.0, changed=False)
        visit(service.client, URLS[:1], NOW - 4_000.0, changed=True)
        assert [change["fetched_at"] for change in waiting.result(PATIENCE_S)["changes"]] == [NOW - 4_000.0]
    begun_s = time.monotonic()
    assert read(service.client, after="newest", wait="300ms")["changes"] == []
    assert time.monotonic() - begun_s >= 0.3


def test_a_hundred_consumers_read_the_same(service: Running) -> None:
    """Half of them wait before the first change; all read each change once."""
    total, address = 60, f"http://{service.server.address}"

    async def consume(client: AsyncClient) -> list[str]:
        cursors = list[str]()
        async for change in client.changes("oldest", limit=25, wait="60s"):
            cursors.append(f"{change.cursor} {change.url}")
            if len(cursors) == total:
                break
        return cursors

    async def consume_all() -> list[list[str]]:
        async with AsyncClient(address) as client:
            early = [asyncio.create_task(consume(client)) for _ in range(50)]
            while service.server.requests_under_way < 50:
                await asyncio.sleep(0.01)
            writing = asyncio.to_thread(write_all)
            late = [asyncio.create_task(consume(client)) for _ in range(50)]
            await writing
            return list(await asyncio.gather(*early, *late))

    def write_all() -> None:
        for number in range(total // 10):
            visit(service.client, URLS[:10], NOW - 5_000.0 + number, changed=True)

    consumed = asyncio.run(consume_all())
    assert len(set(consumed[0])) == total
    assert all(one == consumed[0] for one in consumed)


def test_consumers_that_read_nothing_hold_up_nobody(service: Running) -> None:
    """Some ask for megabytes and read none, others leave while they wait: changes are found and read meanwhile."""
    for number in range(20):
        visit(service.client, URLS, NOW - 5_000.0 + number, changed=True)
    waiting = [socket.create_connection(service.place, timeout=10.0) for _ in range(20)]
    silent = [socket.create_connection(service.place, timeout=10.0) for _ in range(20)]
    try:
        for one in waiting:
            one.sendall(head("GET", "/v1/changes?after=newest&wait=60s"))
        for one in silent:
            one.sendall(head("GET", "/v1/changes") * 30)
        until(lambda: service.server.requests_under_way >= len(waiting))
        for one in waiting[:10]:
            one.close()
        visit(service.client, URLS[:1], NOW - 4_000.0, changed=True)
        assert read(service.client, limit=10_000)["changes"][-1]["fetched_at"] == NOW - 4_000.0
    finally:
        for one in (*waiting, *silent):
            one.close()
    until(lambda: service.server.requests_under_way == 0)


def test_clients_iterate(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    visit(service.client, URLS[:5], NOW - 5_000.0, changed=True)
    with Client(f"http://{service.server.address}") as client:
        assert [change.url for change in client.changes(limit=2, follow=False)] == URLS[:5]
        after: list[tuple[str, object]] = []
        read_changes = client.read_changes

        def note(position: str, **others: Any) -> Changes:
            after.append((position, others["wait"]))
            return read_changes(position, **others)

        monkeypatch.setattr(client, "read_changes", note)
        following = client.changes("newest", wait=30)
        with ThreadPoolExecutor() as pool:
            first = pool.submit(next, following)
            until(lambda: len(after) == 2)
            visit(service.client, URLS[:1], NOW - 4_000.0, changed=True)
            assert first.result(PATIENCE_S).fetched_at == NOW - 4_000.0
        newest = client.read_changes("newest", wait=None).cursor
        mark, _, number = newest.partition("-")
        assert after[:2] == [("newest", None), (f"{mark}-{int(number) - 1}", 30)]  # attempts wait at a position


def test_async_clients_wait_at_a_position(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow() -> list[tuple[str, object]]:
        after: list[tuple[str, object]] = []
        async with AsyncClient(f"http://{service.server.address}") as client:

            async def note(position: str, **others: Any) -> Changes:
                after.append((position, others["wait"]))
                return Changes(changes=[], cursor="00c0ffee-1") if len(after) < 3 else await original("?")

            original = client.read_changes
            monkeypatch.setattr(client, "read_changes", note)
            with pytest.raises(SettingsError):
                _ = [change async for change in client.changes("newest", wait=30)]
        return after

    assert asyncio.run(follow())[:2] == [("newest", None), ("00c0ffee-1", 30)]


def test_next_waits_for_work(tmp_path: Path) -> None:
    with running(tmp_path) as service, ThreadPoolExecutor() as pool:
        ask = {"k": 10, "wait": "60s", "key": "mine"}
        waiting = pool.submit(service.client.post, "/v1/next", json=ask)
        until(lambda: service.server.requests_under_way)
        service.client.post("/v1/discover", json={"urls": URLS[:2]})
        batch = waiting.result(PATIENCE_S).json()
        assert sorted(page["url"] for page in batch["pages"]) == URLS[:2]
        again = service.client.post("/v1/next", json=ask).json()  # its key has a batch: there is nothing to wait for
        assert (again["repeated"], again["pages"]) == (True, batch["pages"])
        begun_s = time.monotonic()
        assert service.client.post("/v1/next", json={"k": 1, "wait": "300ms"}).json()["pages"] == []
        assert time.monotonic() - begun_s >= 0.3
        service.clock.now_s += 700.0  # the leases end, and nothing tells
        assert len(service.client.post("/v1/next", json={"k": 10, "wait": "60s"}).json()["pages"]) == 2
        assert service.client.post("/v1/next", json={"k": 1, "wait": "2m"}).status_code == 422


def test_sigterm_answers_long_polls(tmp_path: Path) -> None:
    serve = started("serve", "--state", tmp_path / "state", *KEEP)
    with serve as (process, address), ThreadPoolExecutor(20) as pool, make_client(address) as client:
        client.post("/v1/discover", json={"urls": URLS[:1]})
        client.post("/v1/next", json={"k": 1})
        calls = [pool.submit(client.get, "/v1/changes", params={"wait": "60s"}) for _ in range(10)]
        calls += [pool.submit(client.post, "/v1/next", json={"k": 1, "wait": "60s"}) for _ in range(10)]
        until(lambda: all(call.running() for call in calls))
        time.sleep(1.0)  # they get there
        begun_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        answers = [call.result(PATIENCE_S) for call in calls]
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert sum(answer.status_code == 200 for answer in answers) > 0
        assert process.wait(PATIENCE_S) == 0
        assert time.monotonic() - begun_s < 30.0


@pytest.mark.cases(ordinary=1, whole=100)
def test_kills_of_service_and_consumer_lose_no_change(tmp_path: Path, rng: random.Random) -> None:
    """What was acknowledged is read, in order, none twice by its cursor, and none that was not sent."""
    state, got = tmp_path / "state", dict[int, str]()
    acknowledged, sent, cursor = list[str](), set[str](), "oldest"
    at = [NOW - 100_000.0]

    def crawl(address: str) -> None:
        with make_client(address) as client, suppress(httpx.TransportError):
            while True:
                at[0] += 1.0
                urls = rng.sample(URLS, rng.choice([1, 3, 20]))
                sent.update(f"{url} {at[0]}" for url in urls)
                answer = client.post(
                    "/v1/outcomes", json={"outcomes": [outcome(url, at[0], changed=True) for url in urls]}
                )
                if answer.status_code == 200:
                    acknowledged.extend(f"{url} {at[0]}" for url in urls)

    def consume(address: str) -> None:
        nonlocal cursor
        with Client(f"http://{address}", timeout_s=0.5) as client, suppress(ServiceUnavailable):
            for change in client.changes(cursor, limit=rng.choice([1, 10, 1_000]), wait="5s"):
                take(change)
                cursor = change.cursor
                if ended.is_set():
                    return

    def take(change: Any) -> None:
        number = int(change.cursor.partition("-")[2])
        assert got.setdefault(number, f"{change.url} {change.fetched_at}") == f"{change.url} {change.fetched_at}"

    for round_ in range(3):
        ended = threading.Event()
        with started("serve", "--state", state, "--save-every", "100ms", *KEEP) as (process, address):
            with make_client(address) as client:
                if round_ == 0:
                    client.post("/v1/outcomes", json={"outcomes": [outcome(url, at[0]) for url in URLS]})
            with ThreadPoolExecutor() as pool:
                running_ = [pool.submit(crawl, address), pool.submit(consume, address)]
                time.sleep(rng.uniform(0.2, 1.5))
                ended.set()  # the consumer goes away, and goes on from its cursor later
                time.sleep(rng.uniform(0.0, 0.2))
                process.kill()
                for one in running_:
                    one.result()
    with started("serve", "--state", state, *KEEP) as (process, address), Client(f"http://{address}") as last:
        for change in last.changes(cursor, follow=False):
            take(change)
        whole = [f"{change.url} {change.fetched_at}" for change in last.changes(follow=False)]
    assert [got[number] for number in sorted(got)] == whole
    assert sorted(got) == list(range(1, len(whole) + 1))
    assert len(set(whole)) == len(whole)
    assert set(acknowledged) <= set(whole) <= sent
    places = {change: place for place, change in enumerate(whole)}
    order = [places[change] for change in acknowledged]
    assert order == sorted(order)
    assert acknowledged


def test_a_full_disk_loses_no_change(tmp_path: Path) -> None:
    """Calls are refused until a save succeeds; what was acknowledged, or applied, is read then and after a crash."""
    urls = [f"https://a.example/{number}/" + "x" * 2_000 for number in range(400)]
    with DurableScheduler.open(tmp_path / "state", plan=SavePlan(every=1e9), keep_changes="7d") as scheduler:
        scheduler.observe([Outcome(url, 1e9) for url in urls])
        acknowledged = list[float]()
        with no_file_beyond(1 << 17):
            for number in range(10):
                with suppress(SnapshotError):
                    scheduler.observe([Outcome(url, 1e9 + 1e3 * (1 + number), changed=True) for url in urls])
                    acknowledged.append(1e9 + 1e3 * (1 + number))
        assert scheduler.trouble is not None
        scheduler.snapshot()
        assert scheduler.trouble is None
        scheduler.observe([Outcome(url, (1e9 + 1e5), changed=True) for url in urls])
        read_before = read_library(scheduler)
        scheduler.close(save=False)
    with DurableScheduler.open(tmp_path / "state") as scheduler:
        assert read_library(scheduler) == read_before
    times = [at for _, at in read_before]
    assert len(times) == len(set(read_before)) == len(urls) * len(set(times))
    assert {*acknowledged, (1e9 + 1e5)} <= set(times)
    assert times == sorted(times)


def read_library(scheduler: DurableScheduler) -> list[tuple[str, float]]:
    found, changes = list[tuple[str, float]](), scheduler.changes(limit=13)
    while changes.changes:
        found += [(change.url, change.fetched_at) for change in changes.changes]
        changes = scheduler.changes(changes.cursor, limit=13)
    return found


def write_outcomes(path: Path, days: int) -> Path:
    lines = [json.dumps(outcome(url, 1e9 + day * 86_400.0, changed=True)) for day in range(days) for url in URLS]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_run_writes_changes_to_a_file_and_goes_on(tmp_path: Path, streamsched: Command) -> None:
    source, state, to = tmp_path / "outcomes.jsonl", tmp_path / "state", tmp_path / "changes.jsonl"
    words = ("run", "--source", source, "--state", state, "--changes-to", to)
    for days in (2, 4):
        write_outcomes(source, days)
        assert streamsched(*words).code == 0
        lines = [json.loads(line) for line in to.read_text().splitlines()]
        assert [(line["url"], line["fetched_at"]) for line in lines] == [
            (url, 1e9 + day * 86_400.0) for day in range(1, days) for url in URLS
        ]
        with to.open("a") as file:
            file.write('{"cut off by a cra')
    assert json.loads((state / CURSOR_NAME).read_text())["cursor"] == lines[-1]["cursor"]
    (state / CURSOR_NAME).unlink()  # as a crash before it was saved: all are written again
    assert streamsched(*words).code == 0
    assert [json.loads(line) for line in to.read_text().splitlines()] == lines * 2


@pytest.mark.parametrize("option", ["--changes-to", "--dead-letters"])
def test_no_run_writes_to_its_own_source(tmp_path: Path, streamsched: Command, option: str) -> None:
    source = write_outcomes(tmp_path / "outcomes.jsonl", 3)
    before = source.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(source)
    answer = streamsched("run", "--source", source, "--state", tmp_path / "state", option, tmp_path / "link.jsonl")
    answer.check_refused(2, option)
    assert source.read_bytes() == before


def test_the_command_prints_changes(tmp_path: Path, streamsched: Command) -> None:
    with running(tmp_path) as service:
        visit(service.client, URLS[:3], NOW - 9_000.0)
        visit(service.client, URLS[:2], NOW - 8_000.0, changed=True)
        visit(service.client, URLS[2:3], NOW - 7_000.0, status=404)
        words = ("changes", "--service", f"http://{service.server.address}")
        result = streamsched(*words)
        rows = [line.split("\t") for line in result.out.splitlines()]
        assert [row[2:] for row in rows] == [[URLS[0]], [URLS[1]], [URLS[2], "gone"]]
        printed = streamsched(*words, "--json", "--after", rows[0][0], "--follow", "--limit", "2").out
        assert [json.loads(line)["url"] for line in printed.splitlines()] == URLS[1:3]
        assert streamsched(*words, "--after", "00c0ffee-1").code != 0


def test_a_follower_ends_with_the_reader_of_its_output(tmp_path: Path) -> None:
    """As `streamsched changes --follow | head -1`, when no further change comes."""
    with running(tmp_path) as service:
        visit(service.client, URLS[:1], NOW - 9_000.0)
        visit(service.client, URLS[:1], NOW - 8_000.0, changed=True)
        words = ("changes", "--service", f"http://{service.server.address}", "--follow")
        process = start(*words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        assert process.stdout.readline().strip().endswith(URLS[0])
        process.stdout.close()
        assert process.wait(20) == 0  # a request waits for 30 s
