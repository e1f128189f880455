"""Reports in the terminal."""

from __future__ import annotations

import sys
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from streamsched.replay.reporting.report import Cell, Notes, Part, Report, Section, Table, Text

_MAX_WIDTH: Final = 10_000  # columns, wider than any table
_MARK_STYLES: Final = {"best": "bold", "worse": "dim", "": ""}


def print_report(report: Report) -> None:
    """Print the parts for a terminal to standard output, the summary last."""
    is_first = True
    for section in (*report.sections, Section("", report.summary)):
        heading = section.heading
        for part in section.parts:
            if part.medium == "page" or (isinstance(part, Table) and not part.rows and not part.caption):
                continue
            if report.narrow:
                sys.stdout.write("" if is_first else "\n")
                _print_narrow(part, heading)
            else:
                _print_wide(part, heading)
            heading, is_first = "", False


def _print_narrow(part: Part, heading: str) -> None:
    """Print a table with heading and caption as wide as itself, or a text as it is."""
    if isinstance(part, Text):
        sys.stdout.write(f"{part.text}\n")
    elif isinstance(part, Table) and part.rows:
        table = to_rich(part, padding=0)  # some 75 columns wide if names are short
        table.title, table.title_justify = RichText(heading) if heading else None, "left"
        table.caption, table.caption_justify = RichText(part.caption), "left"
        print_table(table)
    elif isinstance(part, Table):
        print_paragraph(part.caption)


def _print_wide(part: Part, heading: str) -> None:
    """Print heading and text as paragraphs, and a table with its caption as another."""
    if heading:
        print_paragraph(heading)
    if isinstance(part, Text):
        print_paragraph(part.text)
    elif isinstance(part, Notes):
        for note in part.texts:
            print_paragraph(f"Note: {note}")
    elif isinstance(part, Table):
        print_table(to_rich(part))
        print_paragraph(part.caption)


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
        rich.add_row(RichText(head.text), *map(_format_cell, cells))
    return rich


def _format_cell(cell: Cell) -> RichText:
    note = (f" {cell.note}", "dim") if cell.note else ""
    return RichText.assemble((cell.text, _MARK_STYLES[cell.mark]), note)


def print_paragraph(text: str) -> None:
    """Print `text` and an empty line to standard output, wrapped if that is a terminal."""
    grid = RichTable.grid()
    grid.add_row(RichText(f"{text}\n" if text else " "))
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
