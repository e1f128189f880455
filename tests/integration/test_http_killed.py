"""A service in a process of its own that is killed or stopped with requests under way: nothing acknowledged is lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from streamsched import DurableScheduler
from streamsched.http.gate import AUDIT_NAME
from tests.support.command_line import write
from tests.support.http_service import clock_now, make_client, outcome, started

PAGES = [f"https://h{i % 23}.example/{i}" for i in range(3_000)]
CRAWLERS = 8


@dataclass
class Acknowledged:
    """What the service has confirmed to one crawler."""

    outcomes: list[tuple[str, float]] = field(default_factory=list)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, float] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    lost: int = 0


def crawl(address: str, name: int, ends: Callable[[], bool]) -> Acknowledged:
    """Call the service until it is gone."""
    done = Acknowledged()
    with make_client(address) as client:
        number = 0
        while not ends():
            number += 1
            key, host, at = f"{name}-{number}", f"r{name}-{number}.example", clock_now()
            rounds: list[tuple[str, str, dict[str, Any]]] = [
                ("POST", "/v1/next", {"k": 5, "lease": "1h", "key": key}),
                ("PUT", "/v1/rules", {"rules": {host: {"delay": float(number)}}}),
                ("POST", "/v1/outcomes", {"outcomes": [outcome(f"https://{host}/{i}", at) for i in range(3)]}),
            ]
            for method, path, body in rounds:
                try:
                    answer = client.request(method, path, json=body)
                except httpx.ConnectError:
                    return done
                except httpx.TransportError:
                    done.lost += 1
                    return done
                done.statuses.append(answer.status_code)
                if answer.status_code != 200:
                    return done
                if path == "/v1/next":
                    done.batches[key] = answer.json()
                elif path == "/v1/rules":
                    done.rules[host] = float(number)
                else:
                    done.outcomes += [(one["url"], at) for one in body["outcomes"]]
    return done


def check(state: Path, acknowledged: list[Acknowledged]) -> None:
    """Check that the state has every outcome, lease and rule that was acknowledged."""
    now = clock_now()
    with DurableScheduler.open(state) as scheduler:
        for one in acknowledged:
            for url, at in one.outcomes:
                page = scheduler.page(url, now=now)
                assert page is not None
                assert page.last_outcome_s == at
            for batch in one.batches.values():
                for leased in batch["pages"]:
                    page = scheduler.page(leased["url"], now=now)
                    assert page is not None
                    assert page.lease_until_s == leased["lease_until"]
            for name, delay in one.rules.items():
                host = scheduler.host(name, now=now)
                assert host is None or host.delay_s == delay  # known from its first outcome on


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
            names = range(len(acknowledged), len(acknowledged) + CRAWLERS)
            running = [pool.submit(crawl, address, name, ended.is_set) for name in names]
            time.sleep(1.0)
            process.kill()
            acknowledged += [one.result() for one in running]
    assert all(one.outcomes and one.batches and one.rules for one in acknowledged)
    assert {status for one in acknowledged for status in one.statuses} == {200}
    pages = [page["url"] for one in acknowledged for batch in one.batches.values() for page in batch["pages"]]
    assert len(pages) == len(set(pages))
    check(state, acknowledged)


def test_sigterm_answers_or_refuses_all_requests_under_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with started(*serve(state)) as (process, address), ThreadPoolExecutor(100) as pool:
        with make_client(address) as client:
            client.post("/v1/discover", json={"urls": PAGES})
        running = [pool.submit(crawl, address, name, lambda: False) for name in range(100)]
        time.sleep(1.0)
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
