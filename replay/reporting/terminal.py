"""Reports in the terminal: progress bars, tables and paragraphs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from streamsched.replay.reporting.replay_findings import (
    describe_scope,
    describe_signals,
    explain_calibration,
    explain_comparison,
    explain_figures,
    explain_sources,
    find_promotions,
)
from streamsched.replay.reporting.replay_tables import calibration_table, comparison_table, policy_table, source_table
from streamsched.replay.reporting.sentences import describe

if TYPE_CHECKING:
    from streamsched.replay import experiment
    from streamsched.replay.findings import Finding
    from streamsched.replay.replay_results import ReplayResult
    from streamsched.replay.reporting.tables import Cell, Table

__all__ = ["figure_table", "print_figures", "print_paragraph", "print_table", "show_progress", "to_rich"]

_MAX_WIDTH: Final = 10_000  # columns, wider than any table
_MARK_STYLES: Final = {"best": "bold", "worse": "dim", "": ""}
_DELAYS: Final = (
    "Delays are in days, from a change to the visit that found it. Changes that were never found have no delay, so "
    "compare the changes unseen at the end too."
)


@contextmanager
def show_progress(
    console: Console, action: str = "Replaying", first: str = "Reading the log"
) -> Iterator[experiment.Progress | None]:
    """Show a progress bar during this block; yield its callback, None if `console` is not a terminal.

    ``first``: what is done before the first call.
    """
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(first, total=None)

        def advance(done: int, total: int, policy: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{action} {escape(policy)}")

        yield advance


def figure_table(result: ReplayResult) -> RichTable:
    """Return the figures with their 95 % intervals, a row for each policy in the order asked, the best in bold."""
    table = to_rich(policy_table(result), padding=0)  # some 75 columns wide if names are short
    explanations = [describe(finding) for finding in explain_figures(result)]
    scope = [describe_scope(result), *describe_signals(result)]
    table.title, table.title_justify = Text(" ".join(map(describe, scope))), "left"
    table.caption, table.caption_justify = Text(" ".join([*explanations, _DELAYS, result.note]).rstrip()), "left"
    return table


def print_figures(result: ReplayResult) -> None:
    """Print figures, differences, calibration, sources and a line for each promoted formula to standard output."""
    print_table(figure_table(result))
    _print_beside(comparison_table(result), explain_comparison(result))
    _print_beside(calibration_table(result), explain_calibration(result))
    _print_beside(source_table(result), explain_sources(result))
    promotions = find_promotions(result)
    if promotions:
        sys.stdout.write("".join(["\nPromoted:\n", *(f"  {describe(promotion)}\n" for promotion in promotions)]))


def _print_beside(data: Table, explanations: Iterable[Finding]) -> None:
    """Print an empty line, the table and its explanations, as far as there are any."""
    text = " ".join(describe(finding) for finding in explanations)
    if not data.rows:
        if text:
            print_paragraph(f"\n{text}")
        return
    table = to_rich(data, padding=0)
    table.caption, table.caption_justify = Text(text), "left"
    sys.stdout.write("\n")
    print_table(table)


def to_rich(table: Table, padding: int = 1) -> RichTable:
    """Return `table` for the terminal: without line styles, tooltips and the notes of row heads."""
    rich = RichTable(box=SIMPLE_HEAD, padding=(0, padding), show_edge=False)
    for index, column in enumerate(table.columns):
        title = f"{column.title}\n{column.note}" if column.note else column.title
        if column.kind == "formula" or index == 0:
            rich.add_column(title, overflow="fold", min_width=20 if index else 9)
        else:
            rich.add_column(title, justify="right" if column.kind == "number" else "left", no_wrap=True)
    for head, *cells in table.rows:
        rich.add_row(Text(head.text), *map(_format_cell, cells))
    return rich


def _format_cell(cell: Cell) -> Text:
    note = (f" {cell.note}", "dim") if cell.note else ""
    return Text.assemble((cell.text, _MARK_STYLES[cell.mark]), note)


def print_paragraph(text: str) -> None:
    """Print `text` and an empty line to standard output, wrapped if that is a terminal."""
    grid = RichTable.grid()
    grid.add_row(Text(f"{text}\n" if text else " "))
    print_table(grid)


def print_table(table: RichTable) -> None:
    """Print `table` to standard output: fitted to a terminal unless that would cut a cell, else at full width."""
    console = Console()
    widths = Console(width=_MAX_WIDTH).measure(table)
    console.width = max(console.width, widths.minimum) if console.is_terminal else widths.maximum
    with console.capture() as captured:
        console.print(table)
    # Written here and not by rich, which ends the process if the reader of a pipe is gone.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
