"""``python -m benchmarks``: measures streamsched beside rivals; ``--write`` puts figures into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import (
    cluster,
    cluster_moves,
    content,
    crawlers,
    durability,
    evolution,
    fetching,
    frontier,
    ingest,
    optimal,
    oracles,
    ranking,
    reevolution,
    scale,
    scrapy,
    service,
    startup,
    streams,
)
from benchmarks.report import PAGE, README, ROOT, Row, machine, replace_quote, replace_section, table


class Benchmark(NamedTuple):
    """What is measured, beside which rival, by a function of a number of pages (or records) and of repeats."""

    name: str
    what: str
    rival: str
    measure: Callable[[int, int], list[Row]]
    size: int
    always: bool = True  # whether it runs unless it is named: those that are not take longer than all others


BENCHMARKS: Final = (
    Benchmark(
        "ingest",
        "Outcomes applied a second, and bytes of state of a page.",
        "one Python dict per page, updated an event at a time",
        ingest.measure,
        5_000_000,
    ),
    Benchmark(
        "hostile_urls",
        "Time of a URL of those that somebody makes up to slow a scheduler down. The ratio is the ordinary URL's time "
        "over theirs; rows of growth compare all URLs with a quarter of them.",
        "as many ordinary URLs",
        ingest.measure_hostile,
        40_000,
    ),
    Benchmark(
        "ranking",
        "Batches by the default formula, a second apart, whose outcomes are applied: on the first day of a corpus, "
        "when each page was visited once, and settled, after three weeks of visits.",
        "scoring all pages in compiled blocks on two threads; for scoring all pages, NumPy columns and `argpartition`, "
        "without profiles, schedules and surges",
        ranking.measure,
        10_000_000,
    ),
    Benchmark(
        "formulas",
        "Formulas other than the default: a change of objective while batches are served, and formulas as evolution "
        "begins with, at a tenth of the pages.",
        "scoring all pages by the same formula",
        ranking.measure_formulas,
        10_000_000,
    ),
    Benchmark(
        "growth",
        "Batches of the first day and memory, by the number of pages.",
        "scoring all pages",
        ranking.measure_growth,
        30_000_000,
        always=False,
    ),
    Benchmark(
        "scale",
        "One process, by the number of pages, as far as memory suffices: what a page takes, with its URL of 60 bytes, "
        "index and ranking; batches, outcomes, an image while a crawl continues, and a start from it.",
        "scoring all pages",
        scale.measure,
        100_000_000,
        always=False,
    ),
    Benchmark(
        "startup",
        "The first program of the README, and a command on 100,000 saved pages.",
        "a program that imports numba and compiles one trivial kernel",
        startup.measure,
        100_000,
    ),
    Benchmark(
        "evolution",
        "Time to evaluate a formula in the simulated crawl of the paper's size, 17 cycles, and whole evolutions.",
        "DEAP's compiled trees over NumPy, on the same programs",
        evolution.measure,
        240_000,
    ),
    Benchmark(
        "reevolution",
        "An evolution beside a serving scheduler: its cost, and the latency of calls meanwhile.",
        "the same evolution on a thread of the scheduler",
        reevolution.measure,
        1_000_000,
    ),
    Benchmark(
        "kafka",
        "From a topic, on a broker on the same machine, into ranked state.",
        "loops over kafka-python's consumer and quixstreams that update dicts",
        streams.measure,
        2_000_000,
    ),
    Benchmark(
        "signal_streams",
        "Signals decoded a second, in processor time.",
        "outcomes in the same forms",
        streams.measure_signals,
        500_000,
    ),
    Benchmark(
        "durability",
        "The state on disk: images while a crawl continues, increments, restarts, and calls on disk when they return.",
        "`np.savez` while all calls wait, `np.load`, and SQLite's WAL with `synchronous=FULL`",
        durability.measure,
        10_000_000,
    ),
    Benchmark(
        "service",
        "Over HTTP, beside 100,000 outcomes a second: batches, and outcomes that are on disk when acknowledged. "
        "Clients run on the same machine.",
        "the library called by the same threads, without HTTP",
        service.measure,
        10_000_000,
    ),
    Benchmark(
        "cluster",
        "Batches of four shards in two processes, merged in a third, all on this machine's cores.",
        "one service that has all pages, over HTTP too",
        cluster.measure,
        1_000_000,
    ),
    Benchmark(
        "cluster_moves",
        "Partitions of a topic on a real broker, their images in a local S3, served by processes on one machine.",
        "one process, and a log of files",
        cluster_moves.measure,
        4_000_000,
        always=False,
    ),
    Benchmark(
        "frontier",
        "The url-frontier API by its own Java classes: one stream, with 10,000 items that wait for their "
        "acknowledgements, which come from the disk. The client runs on the same machine.",
        "with URLFRONTIER_SERVICE, url-frontier's own server, its service in memory, which ranks by dates only; else a "
        "server on grpcio that acknowledges and sends without a scheduler or a disk",
        frontier.measure,
        200_000,
        always=False,
    ),
    Benchmark(
        "console",
        "What the open console costs the service and the browser, and how soon it shows figures.",
        "the service without the console, the browser with an empty page",
        service.measure_console,
        1_000_000,
        always=False,
    ),
    Benchmark(
        "optimal",
        "Optimal visit rates, learned rates, and the models of the papers.",
        "bisections in NumPy; for MirrorSync the optimum; for WebFountain the paper's tables",
        optimal.measure,
        10_000_000,
    ),
    Benchmark(
        "schedules",
        "Simulated pages with schedules among Poisson pages: ChangeRate and the share of stale copies of the default "
        "policy, and the share that it closes of the gap between the rival and an oracle ([rhythm.md](rhythm.md)).",
        "`posterior` alone, without rhythm and surge",
        oracles.measure_schedules,
        2_000,
        always=False,
    ),
    Benchmark(
        "bulk_edits",
        "Simulated bulk edits of a pattern of pages: stale page-days of the default policy and of an oracle that "
        "learns of each edit a cycle late, and the share that they close of the gap between the rival and an oracle "
        "that knows at once ([surge.md](surge.md)).",
        "`posterior`, which knows nothing of surges",
        oracles.measure_bulk_edits,
        3_000,
        always=False,
    ),
    Benchmark(
        "content",
        "The text of a page and its exact hash, for a crawler, on one core. Pages and pairs of them are generated: "
        "what they show of wrong decisions is no measurement of the web.",
        "trafilatura, or SimHash where the row says so",
        content.measure,
        600,
    ),
    Benchmark(
        "crawlers",
        "Processor time of a request of a crawler that leases its pages and reports them, in groups, with the exact "
        "hash of their texts. The last column is what leasing and reporting add.",
        "the same crawler with a list of URLs, and the same hashes",
        crawlers.measure,
        2_000,
        always=False,
    ),
    Benchmark(
        "scrapy",
        "CPU time of Scrapy's process for a request, with the add-on and with the same text extraction in the spider: "
        "crawls of a local site, the service and the site in other processes. The ratio is the difference.",
        "Scrapy alone",
        scrapy.measure,
        2_000,
        always=False,
    ),
    Benchmark(
        "fetching",
        "A first run of `signals fetch` over sitemaps on many hosts of this machine, and how it treats a host.",
        "what a host was promised",
        fetching.measure,
        10_000,
    ),
)


def main() -> None:
    """Run the named benchmarks, or all but those that take longest; print their figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = tuple(one.name for one in BENCHMARKS)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"may recur: {', '.join(names)}")
    parser.add_argument("--pages", type=int, help="pages, or records, of each benchmark instead of its own number")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each measurement; the best counts (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    parser.add_argument("--write", action="store_true", help="write them into docs/benchmarks.md and the README")
    given = parser.parse_args()
    found = {}
    for one in BENCHMARKS:
        if one.name not in given.only if given.only else not one.always:
            continue
        begin = time.perf_counter()
        rows = one.measure(given.pages or one.size, given.repeats)
        words = textwrap.fill(f"{one.what} Rival: {one.rival}.", 120, break_on_hyphens=False)
        section = f"{words}\n\n{table(rows)}\n{_made(time.perf_counter() - begin)}"
        print(f"## {one.name}\n\n{section}", flush=True)
        found[one.name] = [row._asdict() for row in rows]
        if given.write:
            page = replace_section(PAGE.read_text(encoding="utf-8"), one.name, section, names)
            PAGE.write_text(page, encoding="utf-8")
            README.write_text(replace_quote(README.read_text(encoding="utf-8"), page), encoding="utf-8")
    if given.json:
        given.json.write_text(json.dumps(found, ensure_ascii=False, indent=2), encoding="utf-8")


def _made(seconds: float) -> str:
    """Return when and of what the figures were made."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{today}, commit `{commit}`, in {seconds:.0f} s. {machine()}.\n"


if __name__ == "__main__":
    main()
