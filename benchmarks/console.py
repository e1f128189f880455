"""The console: what it costs the service and the browser while it is open, and how soon it shows figures.

The service runs in a process of its own and no crawler calls it. The rivals are the service without the console, and
the same browser with an empty page. Needs Debian's Chromium and playwright.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.corpus import make_urls
from benchmarks.timing import Row
from streamsched import DurableScheduler
from streamsched.cli.options import current_time

__all__ = ["measure"]

_CHROMIUM: Final = "/usr/bin/chromium"
_SETTLE_S: Final = 10.0  # before processor time counts: the first answers compute what later ones reuse
_TICKS: Final = os.sysconf("SC_CLK_TCK")  # of processor time in a second


def measure(pages: int, seconds: float = 60.0) -> list[Row]:
    """Return the rows of the benchmark of the console of `pages` pages; processor time is over `seconds`."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  of the tests

    folder = Path(tempfile.mkdtemp(prefix="streamsched-"))
    try:
        with DurableScheduler.open(folder / "state") as scheduler:
            scheduler.discover(make_urls(pages), now=current_time(None))
        with _serving(folder / "state") as (service, address), sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            alone = _shares(service, seconds)
            begin = time.perf_counter()
            page.goto(address)
            page.wait_for_selector(".figure .value")
            first_s = time.perf_counter() - begin
            watched = _shares(service, seconds)
            browser.close()
    finally:
        shutil.rmtree(folder)
    rows: list[Row] = [(f"first view, {pages:,} pages", f"{first_s:.2f} s", "–", "–", "≤ 1 s")]
    for what, own, rival in zip(("service", "browser"), watched, alone, strict=True):
        added = f"{own - rival:+.2%} of a core"
        rows.append((f"processor time of the {what}, console open", f"{own:.2%}", f"{rival:.2%}", added, "< +1 %"))
    return rows


@contextmanager
def _serving(state: Path) -> Iterator[tuple[int, str]]:
    """Run the service in a process of its own within the block; yield its number and address."""
    words = ["serve", "--state", str(state), "--http", "127.0.0.1:0", "--log-format", "json"]
    command = [sys.executable, "-m", "streamsched", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        try:
            yield process.pid, next(f"http://{one['address']}/" for one in events if one["event"] == "serving http")
        finally:
            process.terminate()
            process.communicate()


def _shares(service: int, seconds: float) -> list[float]:
    """Return the share of a core that the service and the browser, a child of this process, take for `seconds`."""
    time.sleep(_SETTLE_S)
    before = [_processor_s([service]), _processor_s(_descendants(service))]
    time.sleep(seconds)
    after = [_processor_s([service]), _processor_s(_descendants(service))]
    return [(end - begin) / seconds for begin, end in zip(before, after, strict=True)]


def _processor_s(processes: list[int]) -> float:
    """Return the seconds of processor time that these processes have taken."""
    return sum(sum(map(int, _fields(one)[11:13])) for one in processes) / _TICKS


def _descendants(but: int) -> list[int]:
    """Return the children of this process and theirs, but for those of `but` and itself."""
    parents = {int(one.name): int(_fields(int(one.name))[1]) for one in Path("/proc").iterdir() if one.name.isdigit()}
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one and child != but]
    return found[1:]


def _fields(process: int) -> list[str]:
    """Return what the kernel knows of a process, from its state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
