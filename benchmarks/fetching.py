"""The fetcher of sitemaps on many hosts: the addresses of 127.0.0.0/8, all served by one process.

`python -m benchmarks.fetching [DOCUMENTS [HOSTS]]` prints visits a second, the shortest pause of a host and the memory
as JSON; `python -m benchmarks --only fetching` makes rows of them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.report import ROOT, Row, digits
from streamsched.fetching.document_book import Document
from streamsched.fetching.fetcher import Fetcher, FetchSettings
from streamsched.web.reach import Reach, read_networks

_ENTRIES: Final = 20  # a usual number for a feed
_DELAY_S: Final = 1.0
_OF_A_HOST: Final = 5  # documents
_DOCUMENT: Final = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    + "".join(f"<url><loc>http://HOST/page/{n}</loc><lastmod>2026-01-01</lastmod></url>" for n in range(_ENTRIES))
    + "</urlset>"
)


def measure(documents: int, _repeats: int) -> list[Row]:
    """Return the rows of a first run over `documents`, five of them a host, in a process of its own."""
    command = (sys.executable, "-m", "benchmarks.fetching", str(documents), str(max(documents // _OF_A_HOST, 1)))
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    return [
        Row(
            f"{found['documents']:,} documents of {_ENTRIES} entries on {found['hosts']:,} hosts",
            f"{found['seconds']:.0f} s",
        ),
        Row("visits a second", digits(found["visits_per_second"])),
        Row("shortest pause of a host", f"{found['shortest_pause_s']:.3f} s", f"{_DELAY_S:g} s"),
        Row("most requests to a host at a time", str(found["most_at_a_host"]), "1"),
        Row("memory of the process", f"{found['memory_mb']} MB"),
    ]


def run(documents: int, hosts: int) -> dict[str, Any]:
    """Return what a first run over `documents` on `hosts` takes, and how hosts were asked."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    reach = Reach(read_networks(["127.0.0.0/8"]), allow_ports=frozenset([port]))
    settings = FetchSettings(delay_s=_DELAY_S, jobs=64, reach=reach)
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.monotonic()
        with Fetcher(
            Path(folder),
            lambda _: None,
            settings,
            clock=time.time,  # noqa: TID251  what is measured is the present
            monotonic=time.monotonic,
        ) as fetcher:
            fetcher.schedule.add(
                Document(f"http://127.1.{n % hosts // 250}.{n % hosts % 250 + 1}:{port}/{n}.xml", "sitemap")
                for n in range(documents)
            )
            asyncio.run(fetcher.run(asyncio.Event(), once=True))
        seconds = time.monotonic() - start_s
    here.send("end")
    requests, pause_s, most_open = here.recv()
    server.join()
    return {
        "documents": documents,
        "hosts": hosts,
        "visits": fetcher.counts["visits"],
        "entries": fetcher.counts["entries"],
        "requests": requests,
        "seconds": round(seconds, 1),
        "visits_per_second": round(fetcher.counts["visits"] / seconds, 1),
        "shortest_pause_s": round(pause_s, 3),
        "most_at_a_host": most_open,
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }


def _serve(pipe: Connection) -> None:
    """Serve until told to end; then send the requests, the shortest pause of a host and the most at one time."""
    times: dict[str, list[float]] = defaultdict(list)
    open_at: dict[str, int] = defaultdict(int)
    most_open = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most_open
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, OSError):
                break
            host = head.split(b"ost: ", 1)[1].split(b"\r\n", 1)[0].decode()
            times[host].append(time.monotonic())
            open_at[host] += 1
            most_open = max(most_open, open_at[host])
            is_found = not head.startswith(b"GET /robots.txt")
            body = _DOCUMENT.replace("HOST", host).encode() if is_found else b""
            status = "200 OK" if is_found else "404 Not Found"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            open_at[host] -= 1
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(talk, "0.0.0.0", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        while not pipe.poll():
            await asyncio.sleep(0.05)

    asyncio.run(serve())
    pauses = [b - a for each in times.values() for a, b in pairwise(each)]
    pipe.send((sum(map(len, times.values())), min(pauses, default=0.0), most_open))


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]]
    print(json.dumps(run(*sizes, *[10_000, 2_000][len(sizes) :]), indent=2))
