"""A report: sections of text, tables and figures, built once; printed, rendered as a page, or encoded as JSON.

A part is for both media unless it names one: a page explains its figures, a terminal has sentences in their place.
`streamsched.replay.reporting.terminal` prints reports, `streamsched.replay.reporting.page` renders them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.number_format import format_half_width, format_number

Row = TypeVar("Row")
ColumnKind: TypeAlias = Literal["number", "text", "formula"]
Mark: TypeAlias = Literal["", "best", "worse"]
Medium: TypeAlias = Literal["both", "page", "terminal"]


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column; a newline in its title breaks the line. Numbers are aligned right, text and formulas left."""

    title: str
    kind: ColumnKind = "number"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, a ``note`` in smaller type beside it, its highlight, a tooltip, and the line style of a policy."""

    text: str
    note: str = ""
    mark: Mark = ""
    tooltip: str = ""
    line: LineStyle | None = None


def estimate_cell(figure: Estimate, digits: int = 3, mark: Mark = "") -> Cell:
    """Return a cell with an estimate and half the width of its interval beside it."""
    return Cell(format_number(figure.value, digits), format_half_width(figure, digits), mark)


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the ``caption`` below it; the first cell of a row is its head. ``compact`` sets narrow columns.

    Without rows only the caption is shown.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    compact: bool = False
    caption: str = ""
    medium: Medium = "both"


def tabulate(
    rows: Iterable[Row], *columns: tuple[str | Column, Callable[[Row], str | Cell]], caption: str = "", **more: Any
) -> Table:
    """Return a table with a row for each of `rows`; `columns`: the head of each, and what it shows of a row.

    A head that is a text is that of numbers, a cell that is a text has nothing else. `more`: of `Table`.
    """
    heads = [head if isinstance(head, Column) else Column(head) for head, _ in columns]
    cells = [[show(row) for _, show in columns] for row in rows]
    shown = [[one if isinstance(one, Cell) else Cell(one) for one in row] for row in cells]
    return Table(heads, shown, caption=caption, **more)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``quiet``: an explanation, in smaller type."""

    kind: ClassVar[str] = "text"
    text: str
    medium: Medium = "both"
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """Warnings, in a box or each after "Note:"."""

    kind: ClassVar[str] = "notes"
    texts: Sequence[str]
    medium: Medium = "both"


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a page, side by side; ``draw`` returns their SVG elements.

    ``beside``: paragraphs to the right of a single figure; ``numbers``: the tables that it was drawn from;
    ``otherwise``: the paragraph to show if there is nothing to draw.
    """

    kind: ClassVar[str] = "figures"
    draw: Callable[[], Sequence[str]]
    beside: Sequence[Text] = ()
    numbers: Sequence[Table] = ()
    otherwise: str = ""
    medium: Medium = "page"


def drawn_by(module: str, name: str, result: object) -> Callable[[], Sequence[str]]:
    """Return what draws the figures `name` of `result`: an entry of the table DRAWINGS in `module`.

    The module is imported when it draws: matplotlib takes half a second to import.
    """
    return lambda: import_module(module).DRAWINGS[name](result)


@dataclass(frozen=True, slots=True)
class Legend:
    """Boxes of a page that hide lines: those of number i have the class ``p{i}`` in all figures."""

    kind: ClassVar[str] = "legend"
    lines: Sequence[tuple[int, str, LineStyle]]
    medium: Medium = "page"


Part: TypeAlias = Table | Text | Notes | Figures | Legend


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under the ``title`` of a page; a terminal has the ``heading`` instead, if there is one."""

    title: str
    parts: Sequence[Part]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A report; ``lead`` and ``scope`` begin a page: what was found, and in what.

    ``content``: the results for machines, see `to_json`. ``summary``: parts that are first on a page, and last in a
    terminal, where the last lines are seen. ``narrow``: a terminal has texts as wide as their tables.
    """

    title: str
    lead: str
    scope: str
    sections: Sequence[Section]
    content: Mapping[str, Any]
    summary: Sequence[Part] = ()
    narrow: bool = False


def pick(result: object, *names: str) -> dict[str, Any]:
    """Return these attributes of `result` by name, as a part of a report's ``content``. O(names)."""
    return {name: getattr(result, name) for name in names}


def to_json(report: Report) -> str:
    """Return the results as JSON: their types as msgspec encodes them, arrays as lists, null for what is not finite.

    Equal results give equal bytes. O(size).
    """
    encoded = msgspec.json.encode(report.content, enc_hook=_to_plain)
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _to_plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
