"""A replay in the terminal: a progress bar while it runs, a table of figures when it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streamsched.replay import experiment
from streamsched.replay.replay_results import METRICS, ReplayResult
from streamsched.replay.reporting.wording import (
    HEADS,
    best_policies,
    describe_replay,
    explain_figures,
    spell_count,
    spell_figure,
    spell_promotions,
)

__all__ = ["figure_table", "print_figures", "print_table", "show_progress"]

_NO_EDGE: Final = 10_000  # columns, wider than any table


@contextmanager
def show_progress(console: Console, doing: str = "Replaying") -> Iterator[experiment.Progress | None]:
    """Show a progress bar in this block where `console` is a terminal; its value goes to `run_replay` and the like."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Reading the log", total=None)

        def advance(done: int, total: int, policy: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{doing} {escape(policy)}")

        yield advance


def figure_table(result: ReplayResult) -> Table:
    """Return the figures with their 95 % intervals, a row for each policy in the order asked, the best in bold."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)  # some 75 columns wide where names are short
    table.title, table.title_justify = Text(describe_replay(result)), "left"
    table.caption, table.caption_justify = Text(explain_figures(result)), "left"
    table.add_column("Policy", overflow="fold", min_width=9)
    for metric in METRICS:
        table.add_column(HEADS[metric].replace(", ", "\n"), justify="right", no_wrap=True)
    table.add_column("Unseen", justify="right", no_wrap=True)
    best = best_policies(result)
    for policy in result.policies:
        cells = {metric: spell_figure(policy.figures[metric], metric) for metric in METRICS}
        cells["undetected"] = spell_count(policy.undetected)
        styles = {column: "bold" if policy.name in best.get(column, ()) else "" for column in cells}
        table.add_row(Text(policy.name), *(_spell_cell(text, styles[column]) for column, text in cells.items()))
    return table


def print_figures(result: ReplayResult) -> None:
    """Print the figures to standard output: to fit a terminal where that cuts nothing, elsewhere at full width.

    A line for each formula that evolution put in charge follows.
    """
    print_table(figure_table(result))
    promotions = spell_promotions(result)
    if promotions:
        sys.stdout.write("".join(["\nPromoted:\n", *(f"  {line}\n" for line in promotions)]))


def print_table(table: Table) -> None:
    """Print `table` to standard output: to fit a terminal where that cuts nothing, elsewhere at full width."""
    console = Console()
    widths = Console(width=_NO_EDGE).measure(table)
    console.width = max(console.width, widths.minimum) if console.is_terminal else widths.maximum
    with console.capture() as captured:
        console.print(table)
    # Not by the console: where the reader of a pipe has gone, rich would end the process as it sees fit.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _spell_cell(text: str, style: str) -> Text:
    value, gap, spread = text.partition(" ")
    return Text.assemble((value, style), gap, (spread, "dim"))
