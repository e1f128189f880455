"""`streamsched run` on a topic that also serves HTTP: outcomes both ways, and what is left after a kill."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.outcomes import Outcome, OutcomeBatch
from tests.integration.kafka.topics import Topic
from tests.support.http_service import clock_now, make_client, outcome, started

pytestmark = [pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"), pytest.mark.usefixtures("collected")]

PAGES = [f"https://h{i % 7}.example/{i}" for i in range(300)]


def wait_for(client: httpx.Client, **least: int) -> dict[str, Any]:
    """Return the figures of the service once they are at least so large."""
    while True:
        stats: dict[str, Any] = client.get("/v1/stats").json()
        if all(stats[name] >= value for name, value in least.items()):
            return stats
        time.sleep(0.05)


def publish(topic: Topic, urls: list[str], at: float) -> None:
    with topic.open_sink() as sink:
        sink.send_outcomes(OutcomeBatch.from_outcomes([Outcome(url, at, changed=True) for url in urls]), "frames", 50)


def test_a_topic_and_requests_lead_to_one_state_that_survives_a_kill(topic: Topic, tmp_path: Path) -> None:
    now = clock_now()
    words = ("run", "--source", topic.url(), "--state", tmp_path / "state", "--save-every", "1h")
    publish(topic, PAGES, now - 90_000.0)
    with started(*words) as (process, address), make_client(address) as client:
        wait_for(client, pages=len(PAGES))
        batch = client.post("/v1/next", json={"k": 20, "lease": "1h", "key": "before"}).json()
        done = [outcome(page["url"], clock_now(), changed=False) for page in batch["pages"][:5]]
        assert client.post("/v1/outcomes", json={"outcomes": done}).json()["applied"] == 5
        publish(topic, ["https://later.example/"], now - 80_000.0)
        wait_for(client, pages=len(PAGES) + 1)
        process.kill()
    with started(*words) as (process, address), make_client(address) as client:
        wait_for(client, pages=len(PAGES) + 1)
        again = client.post("/v1/next", json={"k": 20, "lease": "1h", "key": "before"}).json()
        assert (again["repeated"], again["pages"]) == (True, batch["pages"])
        counts = client.post("/v1/outcomes", json={"outcomes": done}).json()
        assert (counts["applied"], counts["duplicates"]) == (0, 5)
        other = client.post("/v1/next", json={"k": 500, "lease": "1h"}).json()["pages"]
        leased = {page["url"] for page in batch["pages"][5:]}
        assert leased.isdisjoint(page["url"] for page in other)
        assert len(other) == len(PAGES) + 1 - len(leased)
