"""A topology as StormCrawler's, ten minutes long: spout, fetchers and status updater, a local site, a killed service.

StormCrawler's spout and updater send what `FrontierTopology` sends, by the same classes of url-frontier's API.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamsched import DurableScheduler
from tests.support.http_service import clock_now, started

JARS = os.environ.get("URLFRONTIER_JARS", "")  # a folder with the API of url-frontier 2.5 and what it needs
TOPOLOGY = Path(__file__).parent / "FrontierTopology.java"
SECONDS = int(os.environ.get("FRONTIER_SOAK_SECONDS", "600"))
HOSTS = [f"127.0.0.{host}" for host in range(1, 9)]
PAGES = 500  # of a host
FETCHERS = 8
MOST_GROWTH = 150 << 20  # bytes of the service, from a tenth of the time after its restart to the end


def answer(number: int, now: float) -> bytes | None:
    """What the site says of a page: some pages move, are gone, fail at times, or hang up; the others change."""
    kind = number % 50
    if kind == 7:
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    if kind == 13 and int(now / 20) % 2:
        return b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n"
    if kind == 21:
        return b"HTTP/1.1 301 Moved\r\nlocation: /%d\r\ncontent-length: 0\r\n\r\n" % (number + 1)
    if kind == 37:
        return None
    links = "".join(f'<a href="/{page % PAGES}">' for page in (2 * number + 1, 2 * number + 2))
    body = f"{links}<p>{int(now / (5 + number))}" + ("never again" if kind == 43 else "")
    return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            said = answer(int(re.match(rb"GET /(\d+)", head)[1]), clock_now())  # type: ignore[index]
            if said is None:
                break
            writer.write(said)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def end(server: asyncio.Server) -> None:
    """Close the server, then its connections."""
    server.close()
    conversations = asyncio.all_tasks() - {asyncio.current_task()}
    for one in conversations:
        one.cancel()
    await asyncio.gather(*conversations, return_exceptions=True)


@contextmanager
def site() -> Iterator[int]:
    """Serve the site on all hosts; yield the port."""
    with socket.create_server((HOSTS[0], 0)) as free:
        port = free.getsockname()[1]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server: Any = asyncio.run_coroutine_threadsafe(asyncio.start_server(converse, HOSTS, port), loop).result()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def resident_bytes(process: int) -> int:
    """The memory that a process holds."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
@pytest.mark.skipif(not JARS, reason="URLFRONTIER_JARS names no folder with the jars of url-frontier's API")
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler")
def test_a_topology_crawls_for_ten_minutes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    state, visited = tmp_path / "state", tmp_path / "visited"
    limits = ("--set", "politeness.min_revisit=5s", "--set", "politeness.backoff=5s")
    serve = ("serve", "--state", state, "--frontier", address, "--save-every", "20s", *limits)
    with site() as port:
        seeds = [f"http://{host}:{port}/0" for host in HOSTS]
        words = ["java", "-cp", f"{JARS}/*", str(TOPOLOGY), address, str(SECONDS), str(FETCHERS), str(visited), *seeds]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as topology:
            with started(*serve) as (process, _):
                time.sleep(SECONDS / 3)
                process.kill()
            with started(*serve) as (process, _):
                time.sleep(SECONDS / 10)
                before = resident_bytes(process.pid)
                out, err = topology.communicate(timeout=SECONDS + 300)
                grown = resident_bytes(process.pid) - before
                process.terminate()
                process.wait(60)
    counts = {name: int(number) for name, _, number in (line.rpartition("=") for line in out.splitlines())}
    assert err == ""
    assert {"twice", "interrupted", "known FAIL", "known SKIPPED"} & counts.keys() == set()
    assert (counts["unacknowledged"], counts["in process"]) == (0, 0)
    assert counts["streams"] <= 3
    assert counts["known OK"] > 10 * SECONDS
    assert grown < MOST_GROWTH
    urls = visited.read_text().split()
    with DurableScheduler.open(state) as scheduler:
        assert len(scheduler) == counts["found"]
        rows = scheduler.core.find(urls)
        assert rows.min() >= 0
        assert (scheduler.core.pages.arrays.pages.traces["last_outcome_s"][rows] > 0.0).all()
    assert len(urls) > len(HOSTS) * PAGES / 2
