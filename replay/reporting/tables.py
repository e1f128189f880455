"""Tables as data: built once, rendered by the HTML templates and by the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from streamsched.replay.reporting.palette import LineStyle

__all__ = ["Cell", "Column", "ColumnKind", "Mark", "Table"]

ColumnKind: TypeAlias = Literal["number", "text", "formula"]
Mark: TypeAlias = Literal["", "best", "worse"]


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


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row is its head. ``compact`` sets narrow columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    compact: bool = False
