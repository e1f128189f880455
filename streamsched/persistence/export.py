"""Exports pages as a table for other tools: Parquet or Arrow files, a column for each known quantity.

Needs pyarrow: ``pip install streamsched[export]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsched.errors import NOTHING, SettingsError
from streamsched.estimation.change_detection import NO_CONTENT
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints
from streamsched.persistence.files import as_snapshot_errors, draft_of
from streamsched.records.page_schema import FORGOTTEN, LEASED, SHOWN_FLAGS, VISITED
from streamsched.records.url_patterns import group_names, host_names
from streamsched.records.url_store import url_texts
from streamsched.state.page_table import PageTable

FORMATS: Final = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}  # by the file's name
_ROWS: Final = 1 << 16  # a row group: in memory at a time, tens of megabytes
_ESTIMATES: Final = ("rate", "CG", "NAD", "SAD", "AAD", "GAD")
_YEAR_1_S: Final = -62_135_596_800.0  # calendars of most tools hold the years 1 ...
_YEAR_10000_S: Final = 253_402_300_800.0  # ... to 9999

# Name, type as pyarrow calls it, and what it is; rates are changes per cycle.
COLUMNS: Final = (
    ("url", "string", "as observed"),
    ("host", "string", "host and port, to which politeness applies"),
    ("pattern", "string", "deepest group: the host and the leading path segments that enough pages share"),
    ("importance", "float", "weight"),
    ("cost", "float", "of a visit, in the crawler's unit"),
    ("known_since", "timestamp", "UTC; of pages never visited, else null"),
    ("last_visit", "timestamp", "UTC; last visit that showed the page's state, null for none"),
    ("last_outcome", "timestamp", "UTC; last outcome of any kind, null for none"),
    ("visits", "uint32", "n: visits after the first that could show a change"),
    ("changes", "uint32", "X: those that did"),
    ("failures", "uint8", "failed visits in a row"),
    ("gone", "uint8", "answers of 404 or 410 in a row"),
    *((name, "bool", text) for name, (_, text) in SHOWN_FLAGS.items()),
    ("leased_until", "timestamp", "UTC; null if it is not leased"),
    ("fingerprint", "uint64", "of the content at its last change, or first seen; 0 for none"),
    ("content", "uint64", "exact hash of the newest visit that had one; null for none"),
    ("posterior_shape", "double", "Gamma posterior of the change rate: shape"),
    ("posterior_exposure", "double", "... and exposure, in cycles"),
    ("rate", "double", "posterior mean, changes per cycle"),
    ("CG", "double", "estimator of Cho & Garcia-Molina"),
    ("NAD", "double", "estimator X/n"),
    ("SAD", "double", "estimator: whether the last visit saw a change"),
    ("AAD", "double", "estimator with weights that fall arithmetically"),
    ("GAD", "double", "... geometrically"),
    ("crawl_rate", "float", "visits per cycle that the plan of an optimiser gives it, 0 without one"),
)


def export_pages(pages: PageTable, path: Path) -> int:
    """Write every page to the table at `path`, in the format of its extension; return how many. O(pages).

    It appears whole or not at all. Raises SettingsError for another extension or if pyarrow is missing, SnapshotError
    if the file cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise SettingsError("--to", str(path), f"a file name that ends in {', '.join(FORMATS)}")
    arrow = _import_arrow()
    schema = _schema(arrow)
    draft, written = draft_of(path), 0
    with as_snapshot_errors(path, "cannot be written"):
        try:
            with draft.open("wb") as file, _writer(arrow, file, schema, FORMATS[path.suffix.lower()]) as writer:
                for columns in _chunks(pages):
                    writer.write_table(arrow.table(_arrays(arrow, columns, schema), schema=schema))
                    written += len(columns["url"])
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    return written


def _import_arrow() -> Any:
    try:
        arrow = import_module("pyarrow")  # an optional dependency, used here only
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise SettingsError("pyarrow", NOTHING, "an installed package: pip install 'streamsched[export]'") from error
    return arrow


def _schema(arrow: Any) -> Any:
    kinds = {"timestamp": arrow.timestamp("us", tz="UTC"), "float": arrow.float32(), "double": arrow.float64()}
    fields = [
        arrow.field(
            name, kinds.get(kind) or getattr(arrow, {"bool": "bool_"}.get(kind, kind))(), metadata={"about": about}
        )
        for name, kind, about in COLUMNS
    ]
    return arrow.schema(fields)


def _writer(arrow: Any, file: Any, schema: Any, kind: str) -> Any:
    if kind == "parquet":
        return arrow.parquet.ParquetWriter(file, schema, compression="zstd")
    return arrow.ipc.new_file(file, schema)


def _arrays(arrow: Any, columns: dict[str, Any], schema: Any) -> list[Any]:
    found = []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, tuple):
            seconds, known = values
            fits = _fits(seconds)
            microseconds = np.round(np.where(fits, seconds, 0.0) * 1e6)
            found.append(arrow.array(microseconds.astype(np.int64), type=field.type, mask=~(known & fits)))
        else:
            found.append(arrow.array(values, type=field.type))
    return found


def _chunks(pages: PageTable) -> Iterator[dict[str, Any]]:
    fill = TerminalColumns(_ESTIMATES, _ROWS).fill
    for start in range(0, len(pages), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(pages)))
        shard = pages.arrays
        rows = rows[shard.pages.records["rule"][rows] != FORGOTTEN]
        context = context_of(shard, rows)
        filled = fill(shard.pages.records[rows], shard.pages.traces[rows], context, 0.0, pages.cycle_s)
        yield _read_rows(pages, rows, filled)


def _read_rows(pages: PageTable, rows: Ints, estimates: dict[str, Floats]) -> dict[str, Any]:
    """Return the columns of `rows`; a time is a pair of seconds and a mask of valid ones."""
    shard = pages.arrays
    page, trace = shard.pages.records[rows], shard.pages.traces[rows]
    visited, leased = (page["flags"] & VISITED) != 0, (page["flags"] & LEASED) != 0
    plain = {name: page[name] for name in ("importance", "cost", "visits", "changes", "failures", "gone")}
    flags = {name: (page["flags"] & bit) != 0 for name, (bit, _) in SHOWN_FLAGS.items()}
    return plain | flags | estimates | {
        "url": url_texts(shard.pages, rows),
        "host": host_names(shard.groups, shard.pages.records, rows),
        "pattern": _patterns(pages, page["group"].astype(np.int64)),
        "known_since": (page["last_visit_s"], ~visited),
        "last_visit": (page["last_visit_s"], visited),
        "last_outcome": (trace["last_outcome_s"], np.isfinite(trace["last_outcome_s"])),
        "leased_until": (shard.pages.lease_until_s[rows], leased),
        "fingerprint": trace["fingerprint"],
        "content": _contents(shard.pages.contents, rows),
        "crawl_rate": trace["crawl_rate"],
        "posterior_shape": page["prior_shape"] + page["own_shape"],
        "posterior_exposure": page["prior_exposure"] + page["own_exposure"],
    }  # fmt: skip


def _contents(kept: Hashes, rows: Ints) -> list[int | None]:
    """Return the `content` of `rows`, as it was given but for the largest number."""
    if not kept.size:  # no outcome had one
        return [None] * len(rows)
    return [None if packed == NO_CONTENT else packed - 1 for packed in kept[rows].tolist()]


def _patterns(pages: PageTable, groups: Ints) -> list[str]:
    numbers, place = np.unique(groups, return_inverse=True)
    deep = pages.arrays.groups.records["depth"][numbers] > 0
    names = [
        f"{name}/" if below else name
        for name, below in zip(group_names(pages.arrays.groups, numbers), deep.tolist(), strict=True)
    ]
    return [names[i] for i in place.tolist()]


def _fits(seconds: Floats) -> Bools:
    fits: Bools = (seconds >= _YEAR_1_S) & (seconds < _YEAR_10000_S)
    return fits
