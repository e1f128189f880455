"""Tables as batches: gaps, integers that became floats, times in any form, and messages that name the record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.errors import InvalidOutcome, InvalidSignal
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.signals import SignalBatch

URLS = ["https://a.example/1", "https://a.example/2", "https://a.example/3"]
TIMES = [1_790_000_000.0, 1_790_000_001.5, 1_790_000_002.0]
MOMENTS = [datetime.fromtimestamp(at, UTC) for at in TIMES]


class Capsule:
    """A table of which nothing is known but the Arrow PyCapsule interface."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "mapping": lambda columns: columns,
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "capsule": Capsule,
}
make = pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)


def outcomes(columns: dict[str, Any]) -> list[Outcome]:
    return list(OutcomeBatch.from_table(columns))


@make
def test_gaps_are_absent_fields(made: Callable[[dict[str, Any]], Any]) -> None:
    columns = {
        "url": URLS,
        "fetched_at": TIMES,
        "status": [200, None, 404],
        "changed": [None, True, False],
        "importance": [None, None, 2.5],
        "moved_to": ["https://b.example/", None, None],
        "etag": [None, '"1"', ""],
        "title": ["not", "a", "field"],
    }
    assert outcomes(made(columns)) == [
        Outcome(URLS[0], TIMES[0], status=200, moved_to="https://b.example/"),
        Outcome(URLS[1], TIMES[1], changed=True, etag='"1"'),
        Outcome(URLS[2], TIMES[2], status=404, changed=False, importance=2.5, etag=""),
    ]


@make
def test_datetimes_are_seconds(made: Callable[[dict[str, Any]], Any]) -> None:
    for moments in (MOMENTS, [moment.replace(tzinfo=None) for moment in MOMENTS]):
        assert OutcomeBatch.from_table(made({"url": URLS, "fetched_at": moments})).fetched_at.tolist() == TIMES
    ahead = [moment.astimezone(timezone(timedelta(hours=5, minutes=30))) for moment in MOMENTS]
    texts = [moment.isoformat() for moment in ahead]
    assert OutcomeBatch.from_table(made({"url": URLS, "fetched_at": texts})).fetched_at.tolist() == TIMES


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_datetimes_of_any_unit(unit: str) -> None:
    times = np.array(["2026-11-25", "1969-12-31", "1970-01-01"], f"M8[{unit}]")
    expected = times.astype("M8[s]").astype(np.int64).tolist()
    assert OutcomeBatch.from_table({"url": URLS, "fetched_at": times}).fetched_at.tolist() == expected
    if unit in ("s", "ms", "us", "ns"):
        table = pa.table({"url": URLS, "fetched_at": pa.array(times, pa.timestamp(unit, tz="Asia/Kolkata"))})
        assert OutcomeBatch.from_table(table).fetched_at.tolist() == expected
        frame = pd.DataFrame({"url": URLS, "fetched_at": pd.Series(times).dt.tz_localize("UTC")})
        frame["fetched_at"] = frame["fetched_at"].dt.tz_convert("America/New_York")
        assert OutcomeBatch.from_table(frame).fetched_at.tolist() == expected


def test_days_and_months_begin_at_midnight_utc() -> None:
    days = [date(1970, 1, 2), date(1970, 1, 3), date(1970, 1, 1)]
    for table in ({"url": URLS, "fetched_at": days}, pa.table({"url": URLS, "fetched_at": days})):
        assert OutcomeBatch.from_table(table).fetched_at.tolist() == [86_400.0, 172_800.0, 0.0]
    months = np.array(["1970-02", "1970-01", "1970-01"], "M8[M]")
    assert OutcomeBatch.from_table({"url": URLS, "fetched_at": months}).fetched_at.tolist() == [2_678_400.0, 0.0, 0.0]


def test_arrays_with_masks_words_and_categories() -> None:
    status = np.ma.masked_array([200, 7, 404], [False, True, False])
    batch = OutcomeBatch.from_table({"url": np.array(URLS), "fetched_at": np.array(TIMES), "status": status})
    assert [one.status for one in batch] == [200, None, 404]
    frame = pd.DataFrame({"url": pd.Categorical(URLS), "fetched_at": TIMES, "status": ["robots_denied", 200, None]})
    assert [one.status for one in OutcomeBatch.from_table(frame)] == ["robots_denied", 200, None]
    words = pa.array(["robots_denied", None, "not_attempted"]).dictionary_encode()
    batch = OutcomeBatch.from_table(pa.table({"url": URLS, "fetched_at": TIMES, "status": words}))
    assert [one.status for one in batch] == ["robots_denied", None, "not_attempted"]


@make
def test_fingerprints_keep_their_digits(made: Callable[[dict[str, Any]], Any]) -> None:
    texts = ["ffffffffffffffff", None, "00000000000000ff"]
    batch = OutcomeBatch.from_table(made({"url": URLS, "fetched_at": TIMES, "fingerprint": texts}))
    assert [one.fingerprint for one in batch] == [2**64 - 1, None, 255]


def test_whole_numbers_of_64_bits_keep_their_digits() -> None:
    prints = [2**64 - 1, None, 2**53 + 1]
    columns = {"url": URLS, "fetched_at": TIMES}
    for table in (
        columns | {"fingerprint": prints},
        pl.DataFrame(columns | {"fingerprint": pl.Series(prints, dtype=pl.UInt64)}),
        pa.table(columns | {"fingerprint": pa.array(prints, pa.uint64())}),
        pd.DataFrame(columns | {"fingerprint": pd.array(prints, "UInt64")}),
    ):
        assert [one.fingerprint for one in OutcomeBatch.from_table(table)] == prints
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch.from_table(columns | {"fingerprint": np.array([1.0, np.nan, 3.0])})
    assert (caught.value.record, caught.value.field) == (0, "fingerprint")


@make
@pytest.mark.parametrize(
    ("column", "values", "record"),
    [
        ("url", [URLS[0], None, URLS[2]], 1),
        ("fetched_at", [TIMES[0], TIMES[1], None], 2),
        ("fetched_at", ["2026-11-25", "2026-11-25T10:00Z", "yesterday"], 2),
        ("status", ["200", "robots_denied", None], 0),
        ("status", [200.0, 404.5, None], 1),
        ("changed", ["yes", None, None], 0),
        ("moved_to", [None, 7, None], 1),
        ("fingerprint", ["00000000000000ff", "ff", None], 1),
    ],
)
def test_first_bad_record_and_its_column_are_named(
    made: Callable[[dict[str, Any]], Any], column: str, values: list[Any], record: int
) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch.from_table(made({"url": URLS, "fetched_at": TIMES} | {column: values}))
    assert (caught.value.record, caught.value.field) == (record, column)


@make
@pytest.mark.parametrize("column", ["url", "moved_to", "etag", "last_modified"])
def test_a_column_of_numbers_is_no_column_of_texts(made: Callable[[dict[str, Any]], Any], column: str) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch.from_table(made({"url": URLS, "fetched_at": TIMES} | {column: [7, 8, 9]}))
    assert (caught.value.record, caught.value.field, repr(caught.value.found)) == (0, column, "7")
    assert "a text" in caught.value.expected


@make
def test_values_that_the_format_forbids_are_left_to_problems(made: Callable[[dict[str, Any]], Any]) -> None:
    batch = OutcomeBatch.from_table(made({"url": URLS, "fetched_at": TIMES, "status": [200, 2_000, None]}))
    assert [(one.record, one.field) for one in batch.problems()] == [(1, "status")]


@make
def test_signals(made: Callable[[dict[str, Any]], Any]) -> None:
    columns = {"url": URLS, "at": MOMENTS, "source": ["feed", "sitemap", "feed"], "significance": [None, 0.5, None]}
    batch = SignalBatch.from_table(made(columns))
    assert (batch.at.tolist(), batch.names) == (TIMES, ("feed", "sitemap"))
    assert [(one.source, one.significance) for one in batch] == [("feed", None), ("sitemap", 0.5), ("feed", None)]
    with pytest.raises(InvalidSignal) as caught:
        SignalBatch.from_table(made(columns | {"source": ["feed", None, "feed"]}))
    assert (caught.value.record, caught.value.field) == (1, "source")


@make
def test_table_without_rows(made: Callable[[dict[str, Any]], Any]) -> None:
    assert len(OutcomeBatch.from_table(made({"url": [], "fetched_at": []}))) == 0


def test_tables_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="expected a column 'url', found 'fetched_at'"):
        OutcomeBatch.from_table({"fetched_at": TIMES})
    with pytest.raises(ValueError, match="fetched_at: expected 3 values, found 2"):
        OutcomeBatch.from_table({"url": URLS, "fetched_at": TIMES[:2]})
    for wrong in (None, 7, "url", [Outcome(URLS[0], 1.0)]):
        with pytest.raises(TypeError, match="table: expected a pandas or polars frame"):
            OutcomeBatch.from_table(wrong)
    with pytest.raises(TypeError, match="fetched_at: expected a column"):
        OutcomeBatch.from_table({"url": URLS, "fetched_at": "2026"})


def test_columns_that_may_be_meant_for_fields_are_named(caplog: pytest.LogCaptureFixture) -> None:
    OutcomeBatch.from_table({"url": URLS, "fetched_at": TIMES, "staus": [1, 2, 3], "title": URLS})
    assert [one.getMessage() for one in caplog.records] == ["column 'staus' is not read: did you mean status?"]


def test_chunks_of_an_arrow_table_are_one_column() -> None:
    part = pa.table({"url": URLS, "fetched_at": TIMES, "changed": [None, True, None]})
    batch = OutcomeBatch.from_table(pa.concat_tables([part, part]))
    assert [one.changed for one in batch] == [None, True, None] * 2


texts = st.sampled_from(URLS)
records = st.builds(
    Outcome,
    texts,
    st.floats(-1e10, 1e10),
    status=st.none() | st.integers(0, 999) | st.sampled_from(["robots_denied", "not_attempted"]),
    fingerprint=st.none() | st.integers(0, 2**64 - 1),
    changed=st.none() | st.booleans(),
    importance=st.none() | st.floats(0.0, 1e30),
    moved_to=st.none() | texts,
)


@given(st.lists(records, max_size=6))
def test_any_outcomes_come_back_from_a_table(rows: list[Outcome]) -> None:
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in OutcomeBatch.FIELDS}
    for table in (columns, pd.DataFrame(columns, dtype=object)):
        batch = OutcomeBatch.from_table(table)
        assert list(batch) == list(OutcomeBatch.from_outcomes(rows))
