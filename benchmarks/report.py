"""Rows of figures beside those of rivals, and the two pages that show them: docs/benchmarks.md and the README.

docs/benchmarks.md has a section for each benchmark, replaced whenever it is measured. Rows with headlines are bold
there; `quote` makes the README's table of them, so that the README has no figure of its own.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "benchmarks.md"
README: Final = ROOT / "README.md"
MOST_HEADLINES: Final = 8
_HEAD: Final = "| what | streamsched | rival | ratio |\n| --- | --- | --- | --- |\n"
_BEGIN: Final = "<!-- written by `make bench` from docs/benchmarks.md -->\n"
_END: Final = "<!-- end of what `make bench` writes -->"
_INTRODUCTION: Final = """\
# Benchmarks

`make bench` measures the figures of this page and writes it: each beside its rival in the same run, on one machine,
the best of several runs. `python -m benchmarks --only NAME` measures one benchmark, and with `--write` replaces its
section; the README quotes the bold rows. A ratio above 1 says how many times better streamsched is, unless the row
says otherwise. Other work of the machine makes figures worse by up to a factor of two; ratios move less.
"""


class Row(NamedTuple):
    """A figure beside that of the rival; a headline is quoted by the README."""

    what: str
    ours: str
    rival: str = "–"
    ratio: str = "–"
    headline: bool = False


def durations(what: str, ours_s: float, rival_s: float, unit: str = "ms", *, headline: bool = False) -> Row:
    """Return the row of two durations in seconds, shown in `unit`; the ratio is how many times faster ours is."""
    scale = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9}[unit]
    figures = f"{digits(ours_s * scale)} {unit}", f"{digits(rival_s * scale)} {unit}"
    return Row(what, *figures, f"{digits(rival_s / ours_s, 2)}×", headline)


def speeds(what: str, ours: float, rival: float, *, headline: bool = False) -> Row:
    """Return the row of two speeds per second, shown in millions."""
    figures = f"{digits(ours / 1e6)} M/s", f"{digits(rival / 1e6)} M/s"
    return Row(what, *figures, f"{digits(ours / rival, 2)}×", headline)


def digits(value: float, count: int = 3) -> str:
    """Return `value` with `count` significant digits; all digits before the point.

    >>> digits(1234.5), digits(12.345), digits(0.01234, 2)
    ('1,234', '12.3', '0.012')
    """
    return f"{value:,.0f}" if abs(value) >= 10.0 ** (count - 1) else f"{value:.{count}g}"


def best_seconds(work: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the shortest time of `repeats` calls in seconds: other load can only add to it."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table, headlines in bold."""
    lines = ((f"**{row.what}**" if row.headline else row.what, *row[1:4]) for row in rows)
    return _HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def replace_section(page: str, name: str, section: str, order: tuple[str, ...]) -> str:
    """Return the text of docs/benchmarks.md with the section of one benchmark replaced or added, in `order`."""
    parts = {part.partition("\n")[0]: part for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]}
    parts[name] = f"{name}\n\n{section}"
    kept = (parts[one].rstrip() + "\n" for one in order if one in parts)
    return "\n## ".join([_INTRODUCTION, *kept])


def quote(page: str) -> str:
    """Return the README's table: the bold rows of docs/benchmarks.md."""
    rows = re.findall(r"^\| \*\*(.*)\*\* (\|.*\|)$", page, re.MULTILINE)
    return _HEAD + "".join(f"| {what} {figures}\n" for what, figures in rows)


def replace_quote(readme: str, page: str) -> str:
    """Return the README with the table between its markers made again of docs/benchmarks.md."""
    before, _, rest = readme.partition(_BEGIN)
    _, marker, after = rest.partition(_END)
    if not marker:
        raise ValueError(
            f"{README} has no lines {_BEGIN.strip()!r} and {_END!r}: put them around its table of benchmarks"
        )
    return f"{before}{_BEGIN}{quote(page)}{_END}{after}"


def machine() -> str:
    """Return what figures depend on: the processor, its cores, the memory, Python and the compiler's versions."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    cores = len(os.sched_getaffinity(0))
    processor = found[1] if found else platform.processor() or platform.machine()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy"))
    return f"{processor}, {cores} cores, {memory:.0f} GB; Python {platform.python_version()}, {packages}"


def write_block(document: Path, name: str, block: str) -> None:
    """Write `block` into `document` between the comments of that name. Raises ValueError if they are missing."""
    text = document.read_text("utf-8")
    found = re.search(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"{document.name}: expected a block between <!-- {name} --> and <!-- /{name} -->")
    document.write_text(text[: found.start()] + found[1] + block + found[2] + text[found.end() :], "utf-8")
