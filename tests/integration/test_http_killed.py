"""A service in a process of its own that is killed or stopped with requests under way: nothing acknowledged is lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import cast

import httpx

from streamsched import DurableScheduler, Scheduler
from streamsched.http.gate import AUDIT_NAME
from streamsched.persistence.state_directory import check_directory
from tests.support.acknowledged import Acknowledged, check, crawl
from tests.support.command_line import write
from tests.support.http_service import clock_now, make_client, outcome, started

PAGES = [f"https://h{i % 23}.example/{i}" for i in range(3_000)]
CRAWLERS = 8


def serve(state: Path) -> tuple[str | Path, ...]:
    return "serve", "--state", state, "--save-every", "100ms"


def test_after_kill_9_all_that_was_acknowledged_is_there(tmp_path: Path) -> None:
    state, ended = tmp_path / "state", threading.Event()
    acknowledged: list[Acknowledged] = []
    for _ in range(2):
        with started(*serve(state)) as (process, address), ThreadPoolExecutor(CRAWLERS) as pool:
            with make_client(address) as client:
                client.post("/v1/discover", json={"urls": PAGES})
                for one in acknowledged[:2]:  # the same keys after a crash
                    for key, batch in list(one.batches.items())[-2:]:
                        again = client.post("/v1/next", json={"k": 5, "lease": "1h", "key": key}).json()
                        assert (again["repeated"], again["pages"]) == (True, batch["pages"])
            crawlers = [Acknowledged() for _ in range(CRAWLERS)]
            names = count(len(acknowledged))
            running = [pool.submit(crawl, address, next(names), ended.is_set, done=one) for one in crawlers]
            while not all(one.outcomes for one in crawlers):  # the last of a round
                time.sleep(0.01)
            process.kill()
            acknowledged += [one.result() for one in running]
    assert {status for one in acknowledged for status in one.statuses} == {200}
    pages = [page["url"] for one in acknowledged for batch in one.batches.values() for page in batch["pages"]]
    assert len(pages) == len(set(pages))
    check(state, acknowledged)


def test_after_kill_9_what_was_asked_forgotten_and_set_is_there(tmp_path: Path) -> None:
    state, rules = tmp_path / "state", {"h1.example": {"delay": 2.0}, "h2.example/*": {"never": True}}
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("POST", "/v1/discover", {"urls": PAGES}),
        ("POST", "/v1/ask", {"urls": [PAGES[5], "https://asked.example/"]}),
        ("POST", "/v1/forget", {"urls": PAGES[:2]}),
        ("POST", "/v1/forget", {"host": "h3.example"}),
        ("PUT", "/v1/rules", {"rules": rules}),
        ("PUT", "/v1/politeness", {"in_flight": 7, "retire_after": None}),
    ]
    with started("serve", "--state", state) as (process, address), make_client(address) as client:
        for method, path, body in calls:
            assert client.request(method, path, json=body).status_code == 200
        read = [client.get(path).json() for path in ("/v1/rules", "/v1/politeness")]
        process.kill()
    now = clock_now()
    with DurableScheduler.open(state) as scheduler:
        assert [scheduler.rules.as_dict(), scheduler.politeness.to_json()] == read
        assert (scheduler.politeness.in_flight, scheduler.politeness.retire_after) == (7, None)
        assert list(scheduler.rules.hosts) + list(scheduler.rules.pages) == list(rules)
        asked = [scheduler.page(url, now=now) for url in (PAGES[5], "https://asked.example/")]
        assert [page is not None and page.asked_for for page in asked] == [True, True]
        assert len(scheduler) == len(PAGES) + 1 - 2 - len(PAGES[3::23])
        assert scheduler.host("h3.example", now=now) is None


def test_a_service_killed_while_it_makes_copies_leaves_whole_ones(tmp_path: Path) -> None:
    state, copies, made = tmp_path / "state", tmp_path / "copies", list[Path]()
    command = ("serve", "--state", state, "--set", f"http.snapshots={copies}")

    def copy(address: str) -> None:
        with make_client(address) as client, suppress(httpx.TransportError):
            while (answer := client.post("/v1/snapshot", json={})).status_code in (200, 409):
                made.extend([Path(answer.json()["file"])] if answer.status_code == 200 else [])

    with started(*command) as (process, address), ThreadPoolExecutor(4) as pool:
        with make_client(address) as client:
            client.post("/v1/discover", json={"urls": PAGES})
        running = [pool.submit(copy, address) for _ in range(3)] + [pool.submit(crawl, address, 0, lambda: False)]
        while not made:
            time.sleep(0.01)
        process.kill()
        for one in running:
            one.result()
    folders = [path for path in copies.iterdir() if not path.name.startswith(".")]
    assert {path.parent for path in made} <= set(folders)
    for folder in folders:
        assert check_directory(folder) == []
        assert len(Scheduler.load(folder)) >= len(PAGES)
    with started(*command) as (_, address), make_client(address) as client:
        assert client.post("/v1/snapshot", json={}).status_code == 200
    assert not list(copies.glob(".*.draft"))


def test_sigterm_answers_or_refuses_all_requests_under_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with started(*serve(state)) as (process, address), ThreadPoolExecutor(100) as pool:
        with make_client(address) as client:
            client.post("/v1/discover", json={"urls": PAGES})
        running = [pool.submit(crawl, address, name, lambda: False) for name in range(100)]
        time.sleep(0.4)
        process.send_signal(signal.SIGTERM)
        acknowledged = [one.result() for one in running]
        assert process.wait(60) == 0
    assert {status for one in acknowledged for status in one.statuses} <= {200, 503}
    assert sum(one.lost for one in acknowledged) == 0
    with (state / AUDIT_NAME).open() as audit:
        events = [json.loads(line)["event"] for line in audit]
    assert events.count("call") == events.count("answer")
    check(state, acknowledged)


def test_run_serves_beside_its_stream_and_after_it(tmp_path: Path) -> None:
    lines = [json.dumps(outcome(url, clock_now() - 86_400.0)) for url in PAGES]
    source = write(tmp_path / "outcomes.jsonl", lines)
    with started("run", "--source", source, "--state", tmp_path / "state") as (process, address):
        with make_client(address) as client:
            while client.get("/v1/stats").json()["pages"] < len(PAGES):
                time.sleep(0.05)
            while client.get("/readyz").status_code != 200:
                time.sleep(0.05)
            assert client.get("/readyz").json() == {"status": "ok", "lag": 0, "behind_s": 0.0}
            batch = client.post("/v1/next", json={"k": 10}).json()["pages"]
            body = {"outcomes": [outcome(page["url"], clock_now(), changed=True) for page in batch]}
            assert client.post("/v1/outcomes", json=body).json()["hits"] == 10
        process.send_signal(signal.SIGTERM)
        out = process.communicate()[0] if process.stdout is None else process.stdout.read()
        assert process.wait(60) == 0
        assert "applied        3,000" in out
    check(
        tmp_path / "state",
        [Acknowledged(outcomes=[(str(one["url"]), cast(float, one["fetched_at"])) for one in body["outcomes"]])],
    )


def test_a_backlog_ends_no_lease(tmp_path: Path) -> None:
    """Pages are leased before and while outcomes of the day before are read; none goes out again."""
    lines = [json.dumps(outcome(url, clock_now() - 86_400.0 + part)) for part in range(2) for url in PAGES]
    source, state = write(tmp_path / "outcomes.jsonl", lines), tmp_path / "state"
    with DurableScheduler.open(state) as scheduler:
        scheduler.discover(PAGES, now=clock_now())
        urls = list(scheduler.next_batch(1_000, now=clock_now(), lease="1h").urls)
    with started("run", "--source", source, "--state", state) as (_, address), make_client(address) as client:
        is_read, batch = False, list[dict[str, str]]()
        while not is_read or batch:
            is_read = client.get("/readyz").status_code == 200
            batch = client.post("/v1/next", json={"k": 200, "lease": "1h"}).json()["pages"]
            urls += [page["url"] for page in batch]
        assert client.get("/v1/stats").json()["outcomes"]["applied"] == len(lines)
    assert sorted(urls) == sorted(PAGES)
