"""Timing by the best of several runs, and tables of figures beside those of rivals."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

__all__ = ["Row", "best_seconds", "print_rows"]

Row = tuple[str, str, str, str, str]
"""What was measured, the figure of streamsched, that of the rival, their ratio, and the goal."""


def best_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest wall-clock time of `repeats` calls in seconds: other load can only add to it."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def print_rows(title: str, rows: list[Row]) -> None:
    """Print the rows as a table."""
    table = Table("What", "streamsched", "rival", "ratio", "goal", title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)
