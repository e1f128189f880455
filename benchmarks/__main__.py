"""``python -m benchmarks [NAME …]``: measures the figures of the README, each beside a rival in the same run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from benchmarks import (
    bulk_edits,
    console,
    durability,
    evolution,
    formulas,
    growth,
    hostile_urls,
    ingest,
    kafka,
    optimal,
    ranking,
    reevolution,
    schedules,
    service,
    signal_streams,
    startup,
)
from benchmarks.timing import Row, print_rows

Options: TypeAlias = argparse.Namespace


class Benchmark(NamedTuple):
    """A function that measures and prints a table: of a number of pages, which may mean nothing to it, and options."""

    run: Callable[[int, Options], None]
    pages: int | None = None  # unless `--pages` says otherwise
    in_all: bool = True  # whether it runs if no benchmark is named


def _tabulate(title: str, measure: Callable[[int, Options], list[Row]]) -> Callable[[int, Options], None]:
    return lambda pages, given: print_rows(title, measure(pages, given))


_BENCHMARKS: Final = {
    "ingest": Benchmark(_tabulate("Ingest", lambda pages, given: ingest.measure(pages, given.repeats)), 5_000_000),
    "ranking": Benchmark(_tabulate("Ranking", lambda pages, given: ranking.measure(pages, given.repeats)), 10_000_000),
    "growth": Benchmark(
        _tabulate("Growth with size", lambda pages, given: growth.measure(pages, given.repeats)), 30_000_000, False
    ),
    "formulas": Benchmark(
        _tabulate("Other formulas", lambda pages, given: formulas.measure(pages, given.repeats)), 10_000_000
    ),
    "startup": Benchmark(_tabulate("Start-up", lambda _, given: startup.measure(given.repeats))),
    "evolution": Benchmark(
        _tabulate("Evolution", lambda pages, given: evolution.measure(pages, given.repeats, given.generations)), 240_000
    ),
    "reevolution": Benchmark(
        _tabulate("Re-evolution", lambda pages, given: reevolution.measure(pages, given.repeats)), 1_000_000
    ),
    "kafka": Benchmark(_tabulate("Kafka", lambda _, given: kafka.measure(given.outcomes, given.repeats))),
    "signal_streams": Benchmark(
        _tabulate("Streams of signals", lambda pages, given: signal_streams.measure(pages, given.repeats)), 500_000
    ),
    "durability": Benchmark(
        _tabulate("Saved state", lambda pages, given: durability.measure(pages, given.repeats)), 10_000_000
    ),
    "service": Benchmark(_tabulate("Service", lambda pages, _: service.measure(pages)), 10_000_000),
    "console": Benchmark(_tabulate("Console", lambda pages, _: console.measure(pages)), 1_000_000, False),
    "schedules": Benchmark(_tabulate("Schedules", lambda _, given: schedules.measure(seeds=given.seeds))),
    "bulk_edits": Benchmark(lambda _, given: bulk_edits.print_settings(given.seeds)),
    "hostile_urls": Benchmark(
        _tabulate("Hostile URLs", lambda pages, given: hostile_urls.measure(pages, given.repeats)), 40_000
    ),
    "optimal": Benchmark(
        _tabulate("Optimal visit rates", lambda pages, given: optimal.measure(pages, given.repeats)), 10_000_000
    ),
}


def main() -> None:
    """Run the named benchmarks, by default all of them but `growth` and `console`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_BENCHMARKS, []], metavar="NAME", help=", ".join(_BENCHMARKS))
    sizes = ", ".join(f"{name} {one.pages:,}" for name, one in _BENCHMARKS.items() if one.pages is not None)
    parser.add_argument("--pages", type=int, help=f"pages of each benchmark (by default: {sizes})")
    parser.add_argument("--outcomes", type=int, default=2_000_000, help="outcomes of kafka, in frames (2,000,000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each measurement; the best counts (5)")
    parser.add_argument("--generations", type=int, default=50, help="generations of the whole runs of evolution (50)")
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds of the simulated crawls of schedules and bulk_edits (3)"
    )
    given = parser.parse_args()
    for name in given.names or [name for name, one in _BENCHMARKS.items() if one.in_all]:
        one = _BENCHMARKS[name]
        one.run(given.pages or one.pages or 0, given)


if __name__ == "__main__":
    main()
