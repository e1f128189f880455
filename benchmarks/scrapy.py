"""CPU time of a request of Scrapy with the add-on, beside Scrapy alone, on a site and a service of this machine."""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Row
from streamsched.client import Client
from tests.support.child_processes import run_to_end
from tests.support.crawled_site import Site, html, serving
from tests.support.http_service import started

_ADDON: Final = {"streamsched.connectors.scrapy.StreamschedAddon": 500}


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark of the Scrapy add-on: the least of `repeats` crawls of `pages` pages each."""
    cases: dict[str, dict[str, Any]] = {
        "CPU a request, same hashes of the same texts": {},
        "likewise, responses do not wait for verdicts": {"STREAMSCHED_CHANGED": False},
    }
    frozen = "likewise, both after gc.freeze()"
    ours = {name: list[float]() for name in (*cases, frozen)}
    alone, alone_frozen = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, _SiteAside(pages) as address_of_site:
        urls = [f"http://{address_of_site}/p{number}" for number in range(pages)]
        for repeat in range(repeats):
            with started("serve", "--state", Path(folder) / f"state-{repeat}") as (_, address):
                with Client(f"http://{address}", timeout_s=300.0) as client:
                    client.discover(urls)
                where = {"STREAMSCHED_URL": f"http://{address}", "STREAMSCHED_PAGES": pages}
                with_addon: dict[str, Any] = {"ADDONS": _ADDON, **where}
                for name, settings in cases.items():
                    ours[name].append(_crawl([], **with_addon, **settings))
                ours[frozen].append(_crawl([], freeze=True, **with_addon))
            alone.append(_crawl(urls))
            alone_frozen.append(_crawl(urls, freeze=True))
    rows = [_row(name, min(ours[name]), min(alone)) for name in cases]
    return [*rows, _row(frozen, min(ours[frozen]), min(alone_frozen))]


def _row(what: str, ours: float, rival: float) -> Row:
    return Row(what, f"{1e3 * ours:.2f} ms", f"{1e3 * rival:.2f} ms", f"{1e3 * (ours - rival):+.2f} ms")


def _crawl(start: list[str], *, freeze: bool = False, **settings: Any) -> float:
    """Return the CPU seconds of a page in a crawl; `freeze`: the garbage collector passes over what is loaded."""
    asked = json.dumps({"start": start, "freeze": freeze, "settings": settings})
    done = run_to_end((sys.executable, "-m", "benchmarks.scrapy_crawl", asked))
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout)
    return float(found["cpu_s"]) / int(found["pages"])


class _SiteAside:
    """A site in a process of its own, so that its CPU time is not the crawler's."""

    def __init__(self, pages: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(pages, other), daemon=True)

    def __enter__(self) -> str:
        """Return the address of the site."""
        self._process.start()
        return str(self._end.recv())

    def __exit__(self, *_: object) -> None:
        self._end.send(None)
        self._process.join()


def _serve(pages: int, end: Connection) -> None:
    with serving(Site) as site:
        site.replies = {f"/p{number}": html(f"page {number}") for number in range(pages)}
        end.send(site.address)
        end.recv()
