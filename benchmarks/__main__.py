"""``python -m benchmarks [NAME …]``: measures the figures of the README, each beside a rival in the same run."""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks import (
    bulk_edits,
    durability,
    evolution,
    hostile_urls,
    ingest,
    kafka,
    optimal,
    ranking,
    reevolution,
    schedules,
    startup,
    topk,
)
from benchmarks.timing import print_rows

_NAMES: Final = (
    "ingest",
    "ranking",
    "topk",
    "startup",
    "evolution",
    "reevolution",
    "kafka",
    "durability",
    "schedules",
    "bulk_edits",
    "hostile_urls",
    "optimal",
)


def main() -> None:  # noqa: C901  one branch a benchmark
    """Run the named benchmarks, by default all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_NAMES, []], metavar="NAME")
    sizes = (
        "pages of ingest (5,000,000), ranking, topk, durability and optimal (10,000,000), evolution (240,000), "
        "reevolution (1,000,000), hostile_urls (40,000)"
    )
    parser.add_argument("--pages", type=int, help=sizes)
    parser.add_argument("--outcomes", type=int, default=2_000_000, help="outcomes of kafka, in frames (2,000,000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each measurement; the best counts (5)")
    parser.add_argument("--generations", type=int, default=50, help="generations of the whole runs of evolution (50)")
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds of the simulated crawls of schedules and bulk_edits (3)"
    )
    arguments = parser.parse_args()
    names = arguments.names or _NAMES
    if "ingest" in names:
        print_rows("Ingest", ingest.measure(arguments.pages or 5_000_000, arguments.repeats))
    if "ranking" in names:
        print_rows("Ranking", ranking.measure(arguments.pages or 10_000_000, arguments.repeats))
    if "topk" in names:
        print_rows("Maintained top k", topk.measure(arguments.pages or 10_000_000, arguments.repeats))
    if "startup" in names:
        print_rows("Start-up", startup.measure(arguments.repeats))
    if "evolution" in names:
        rows = evolution.measure(arguments.pages or 240_000, arguments.repeats, arguments.generations)
        print_rows("Evolution", rows)
    if "reevolution" in names:
        print_rows("Re-evolution", reevolution.measure(arguments.pages or 1_000_000, arguments.repeats))
    if "kafka" in names:
        print_rows("Kafka", kafka.measure(arguments.outcomes, arguments.repeats))
    if "durability" in names:
        print_rows("Saved state", durability.measure(arguments.pages or 10_000_000, arguments.repeats))
    if "schedules" in names:
        print_rows("Schedules", schedules.measure(seeds=arguments.seeds))
    if "hostile_urls" in names:
        print_rows("Hostile URLs", hostile_urls.measure(arguments.pages or 40_000, arguments.repeats))
    if "optimal" in names:
        print_rows("Optimal visit rates", optimal.measure(arguments.pages or 10_000_000, arguments.repeats))
    if "bulk_edits" in names:
        bulk_edits.print_settings(arguments.seeds)


if __name__ == "__main__":
    main()
