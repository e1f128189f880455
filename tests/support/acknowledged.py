"""Crawlers of a service that note what it acknowledges, and a check that its state has all of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from streamsched import DurableScheduler
from streamsched.persistence.state_directory import check_directory
from tests.support.http_service import clock_now, make_client, outcome


@dataclass
class Acknowledged:
    """What the service has confirmed to one crawler."""

    outcomes: list[tuple[str, float]] = field(default_factory=list)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, float] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    lost: int = 0
    refused: int = 0


def crawl(
    address: str, name: int, ends: Callable[[], bool], *, patient: bool = False, done: Acknowledged | None = None
) -> Acknowledged:
    """Call the service until it is gone, or refuses a call; if `patient`, repeat what it refuses with 503.

    What is acknowledged is added to `done`, which is returned.
    """
    done = Acknowledged() if done is None else done
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
                    while patient and answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE and not ends():
                        done.refused += 1
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
    """Check that the state is whole, and has every outcome, lease and rule that was acknowledged, no page twice."""
    now = clock_now()
    assert check_directory(state) == []
    pages = [page["url"] for one in acknowledged for batch in one.batches.values() for page in batch["pages"]]
    assert len(pages) == len(set(pages))
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
