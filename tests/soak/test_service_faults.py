"""A service with eight crawlers that is killed, or whose disk is full: nothing acknowledged is lost, no page twice."""

from __future__ import annotations

import random
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamsched import Scheduler
from streamsched.persistence.files import list_images
from streamsched.persistence.state_directory import check_directory
from tests.support.acknowledged import Acknowledged, check, crawl
from tests.support.http_service import make_client, started

PAGES = [f"https://h{i % 23}.example/{i}" for i in range(3_000)]
CRAWLERS = 8
KILLS = 2
FULL_DISKS = 2


@contextmanager
def crawling(address: str, names: range) -> Iterator[list[Future[Acknowledged]]]:
    """Crawlers in threads, until the block ends."""
    ended = threading.Event()
    with ThreadPoolExecutor(len(names)) as pool:
        running = [pool.submit(crawl, address, name, ended.is_set, patient=True) for name in names]
        try:
            yield running
        finally:
            ended.set()


@pytest.mark.cases(ordinary=1, whole=100)
def test_killed_with_requests_under_way(tmp_path: Path, rng: random.Random) -> None:
    state = tmp_path / "state"
    acknowledged: list[Acknowledged] = []
    for _ in range(KILLS):
        with started("serve", "--state", state, "--save-every", "100ms") as (process, address):
            with make_client(address) as client:
                client.post("/v1/discover", json={"urls": PAGES})
            with crawling(address, range(len(acknowledged), len(acknowledged) + CRAWLERS)) as running:
                time.sleep(rng.uniform(0.05, 0.5))
                process.kill()
            acknowledged += [one.result() for one in running]
        assert check_directory(state) == []
    check(state, acknowledged)


@pytest.mark.cases(ordinary=1, whole=25)
def test_disk_that_is_full_for_a_while(tmp_path: Path, rng: random.Random) -> None:
    """The system lets no file of the process grow beyond some bytes. Afterwards an older image is a way back too."""
    state = tmp_path / "state"
    with started("serve", "--state", state, "--save-every", "50ms") as (process, address):
        with make_client(address) as client, crawling(address, range(CRAWLERS)) as running:
            client.post("/v1/discover", json={"urls": PAGES})
            for _ in range(FULL_DISKS):
                time.sleep(rng.uniform(0.05, 0.3))
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (rng.randint(0, 1 << 17), resource.RLIM_INFINITY))
                while client.post("/v1/discover", json={"urls": PAGES}).status_code == 200:
                    pass
                time.sleep(rng.uniform(0.0, 0.3))
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.01)
            time.sleep(0.1)
        process.kill()
        process.wait()
    acknowledged = [one.result() for one in running]
    assert sum(one.refused for one in acknowledged)
    copy = shutil.copytree(state, tmp_path / "copy")
    newest = list_images(copy)[-1].in_directory(copy)
    raw = bytearray(newest.read_bytes())
    raw[rng.randrange(len(raw))] ^= rng.randint(1, 255)
    newest.write_bytes(raw)
    assert Scheduler.load(copy).digest() == Scheduler.load(state).digest()
    check(state, acknowledged)
