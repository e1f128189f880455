"""``python -m benchmarks [NAME …]``: each figure that the README claims, with its rival's from the same run."""

from __future__ import annotations

import argparse

from benchmarks import ingest, ranking, startup
from benchmarks.timing import print_rows


def main() -> None:
    """Run the benchmarks named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=["ingest", "ranking", "startup", []], metavar="NAME")
    parser.add_argument("--pages", type=int, help="pages of the ingest (5,000,000) and ranking (10,000,000) benchmarks")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the best counts (5)")
    arguments = parser.parse_args()
    names = arguments.names or ["ingest", "ranking", "startup"]
    if "ingest" in names:
        print_rows("Ingest", ingest.measure(arguments.pages or 5_000_000, arguments.repeats))
    if "ranking" in names:
        print_rows("Ranking", ranking.measure(arguments.pages or 10_000_000, arguments.repeats))
    if "startup" in names:
        print_rows("Start-up", startup.measure(arguments.repeats))


if __name__ == "__main__":
    main()
