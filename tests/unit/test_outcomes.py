"""Outcomes and their columns: what fits, and which record and field is named where something does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import InvalidOutcome, Outcome, OutcomeBatch, PackedUrls
from streamsched.outcomes import NEVER_S, OPTIONAL, OutcomeEvent
from tests.support.cases import grouped
from tests.support.crawl_outcomes import outcomes

FULL = Outcome("https://a.example/", 1.5, 200, 2**64 - 1, True, 0.5, 2.5, 60.0, significance=0.25)
BARE = Outcome("https://b.example/", -2.0)
FIELDS = {
    "status": 200,
    "fingerprint": 7,
    "changed": True,
    "importance": 1.0,
    "cost": 1.0,
    "retry_after": 1.0,
    "significance": 0.5,
}


def outcome_with(field: str, value: Any) -> Outcome:
    fields: dict[str, Any] = {"url": "https://a.example/", "fetched_at": 1.0}
    return Outcome(**fields | {field: value})


@grouped(
    ("field", "value"),
    {
        "url": ["", "x" * 8193, "ä" * 4097, "\ud800", None, b"https://a.example/"],
        "fetched_at": [math.nan, math.inf, -math.inf, None, "1.0", True, 10**400],
        "status": [-1, 1000, 200.0, "200", True, 2**40],
        "fingerprint": [-1, 2**64, 1.0, "ff"],
        "changed": [1, "yes"],
        "importance": [-0.1, math.nan, math.inf, 3.5e38, "1"],
        "cost": [-1, math.nan, True, 10**400],
        "retry_after": [-1, math.inf, "60"],
        "significance": [-0.1, 1.1, math.nan, "1"],
        "moved_to": ["", "\ud800"],
        "etag": ["e" * 8193, "\ud800", b"1"],
        "last_modified": ["ä" * 4097, 1_700_000_000],
        "not_before": [math.nan, math.inf, "1.0", True],
    },
)
def test_value_that_breaks_the_format_names_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        outcome_with(field, value)
    assert (caught.value.record, caught.value.field) == (0, field)
    assert repr(caught.value.found) in (repr(value), f"{value}.0")  # a column holds whole numbers as float64
    assert str(caught.value).startswith(f"record 0: {field}: expected ")
    assert len(str(caught.value)) < 200


@grouped(
    ("field", "value"),
    {
        "url": ["x" * 8192, "ä" * 4096, "\0"],
        "fetched_at": [0, -9.9e10, np.float32(1.5)],
        "status": [0, 999, np.int16(404)],
        "fingerprint": [0, np.uint64(2**64 - 1)],
        "changed": [np.False_],
        "importance": [0, 3.4e38],
        "cost": [np.float64(0.0), 2**60],
        "retry_after": [0],
        "significance": [0, 1, np.float32(0.5)],
        "etag": ["", "ä" * 4096],
        "not_before": [NEVER_S, 5e-324],
    },
)
def test_value_at_the_ends_of_the_format(field: str, value: Any) -> None:
    outcome = outcome_with(field, value)
    assert getattr(next(iter(OutcomeBatch.from_outcomes([outcome]))), field) == value


def test_columns_give_back_the_outcomes_that_made_them() -> None:
    batch = OutcomeBatch.from_outcomes(outcome for outcome in (FULL, BARE, FULL))
    assert list(batch) == [FULL, BARE, FULL]
    assert batch[-1] == FULL
    all_given = sum(field.bit for field in OPTIONAL if field.name in FIELDS)
    assert batch.given.tolist() == [all_given, 0, all_given]
    assert repr(batch) == "OutcomeBatch(3 outcomes: url, fetched_at, " + ", ".join(FIELDS) + ")"
    with pytest.raises(IndexError):
        batch[3]


def test_column_that_no_record_carries_is_empty() -> None:
    batch = OutcomeBatch.from_outcomes([BARE, BARE])
    assert [getattr(batch, field).size for field in FIELDS] == [0] * len(FIELDS)
    assert repr(batch) == "OutcomeBatch(2 outcomes: url, fetched_at)"
    assert len(OutcomeBatch([], [])) == 0
    assert list(OutcomeBatch([], np.empty(0), status=[])) == []


@given(st.lists(outcomes, max_size=6))
def test_columns_hold_what_the_events_said(rows: list[Outcome]) -> None:
    batch = OutcomeBatch.from_events(list(OutcomeBatch.from_outcomes(rows).to_events()))
    assert list(batch) == rows
    for field in OPTIONAL:
        some = any(getattr(row, field.name) is not None for row in rows)
        assert len(getattr(batch, field.column)) == (len(rows) if some else 0)


def test_fingerprints_as_text() -> None:
    given_values = ("00000000000000ff", 7, None)
    batch = OutcomeBatch.from_events([OutcomeEvent("u", 1.0, fingerprint=value) for value in given_values])
    assert [outcome.fingerprint for outcome in batch] == [255, 7, None]
    assert Outcome("u", 1.0, fingerprint="00000000000000FF").fingerprint == 255
    with pytest.raises(ValueError, match="255"):
        OutcomeBatch.from_events([OutcomeEvent("u", 1.0, fingerprint="255")])
    with pytest.raises(OverflowError):
        OutcomeBatch.from_events([OutcomeEvent("u", 1.0, fingerprint=2**64)])


def test_times_as_text() -> None:
    texts = ("1970-01-01T01:00:00+01:00", "1970-01-01", "19700101T000001.5Z", 2.0)
    batch = OutcomeBatch.from_events([OutcomeEvent("u", at) for at in texts])
    assert batch.fetched_at.tolist() == [0.0, 0.0, 1.5, 2.0]
    assert Outcome("u", "1970-01-01 00:01").fetched_at == 60.0  # type: ignore[arg-type]
    for wrong in ("", "1790000000", "yesterday", "2026-02-30", "2026-11-25T24:01", "9" * 10_000):
        with pytest.raises(ValueError, match="no ISO 8601 time"):
            OutcomeBatch.from_events([OutcomeEvent("u", wrong)])
        with pytest.raises(InvalidOutcome, match="fetched_at"):
            Outcome("u", wrong)  # type: ignore[arg-type]


def test_taking_is_indexing() -> None:
    batch = OutcomeBatch.from_outcomes([FULL, BARE, FULL, BARE])
    assert list(batch.take(np.array([3, 0, 0]))) == [BARE, FULL, FULL]
    bare = OutcomeBatch.from_outcomes([BARE, BARE])
    assert list(bare.take(np.array([1]))) == [BARE]


@pytest.mark.parametrize("field", FIELDS)
def test_none_is_absent(field: str) -> None:
    batch = OutcomeBatch(["a", "b"], [1.0, 2.0], **{field: [None, FIELDS[field]]})
    assert [getattr(outcome, field) for outcome in batch] == [None, FIELDS[field]]
    assert [getattr(outcome, field) for outcome in OutcomeBatch(["a"], [1.0], **{field: [None]})] == [None]
    assert [getattr(outcome, field) for outcome in OutcomeBatch(["a"], [1.0], **{field: None})] == [None]


def test_fitting_arrays_are_not_copied() -> None:
    times, status = np.arange(3.0), np.full(3, 200, np.int32)
    batch = OutcomeBatch(["a", "b", "c"], times, status=status)
    assert np.shares_memory(batch.fetched_at, times)
    assert np.shares_memory(batch.status, status)
    strided = OutcomeBatch(["a", "b"], np.arange(4.0)[::2])
    assert strided.fetched_at.flags.c_contiguous


@pytest.mark.parametrize(
    ("field", "column", "record"),
    [
        ("status", np.array([200, 2**40]), 1),
        ("status", np.array([200.0, 200.5]), 1),
        ("status", np.array([math.nan, 200.0]), 0),
        ("fingerprint", np.array([1, -1]), 1),
        ("fingerprint", np.array([1.0, -1.0]), 0),
        ("fingerprint", np.array([0.5, 1.0]), 0),
        ("changed", np.array([1, 2]), 1),
        ("changed", np.array([0.5, 0.0]), 0),
        ("importance", np.array(["1", "2"]), 0),
        ("cost", np.array([1j, 1.0]), 0),
        ("status", np.array([200, None, "x"], object)[1:], 1),
    ],
)
def test_array_whose_values_would_change_names_the_first(field: str, column: Any, record: int) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch(["a", "b"], [1.0, 2.0], **{field: column})
    assert (caught.value.record, caught.value.field) == (record, field)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.float32, np.float64])
def test_arrays_of_other_widths_are_taken_where_nothing_is_lost(dtype: Any) -> None:
    column = np.array([0, 1], dtype)
    columns = {"status": column, "changed": column, "importance": column, "cost": column}
    batch = OutcomeBatch(["a", "b"], column, fingerprint=column.astype(np.uint32), **columns)
    assert list(batch) == [Outcome("a", 0.0, 0, 0, False, 0.0, 0.0), Outcome("b", 1.0, 1, 1, True, 1.0, 1.0)]


def test_list_item_that_does_not_fit_names_its_record() -> None:
    for field, value in (("status", "x"), ("fingerprint", 2**64), ("changed", 1), ("cost", "free")):
        with pytest.raises(InvalidOutcome) as caught:
            OutcomeBatch(["a", "b", "c"], [1.0, 2.0, 3.0], **{field: [None, FIELDS[field], value]})
        assert (caught.value.record, caught.value.field, caught.value.found) == (2, field, value)


def test_time_must_be_given() -> None:
    with pytest.raises(InvalidOutcome, match="record 1: fetched_at: expected UTC epoch seconds above 0, found None"):
        OutcomeBatch(["a", "b"], np.array([1.0, None]))


@pytest.mark.parametrize(
    ("times", "columns", "error", "message"),
    [
        ([1.0], {}, ValueError, r"fetched_at: expected 2 values, one for each URL, found shape \[1\]"),
        ([1.0, 2.0], {"cost": [1.0]}, ValueError, r"cost: expected 2 values, one for each URL, found shape \[1\]"),
        (np.ones((2, 1)), {}, ValueError, r"fetched_at: expected 2 values, .* found shape \[2, 1\]"),
        ([1.0, 2.0], {"colour": [1, 2]}, TypeError, "unknown column 'colour': expected any of status, fingerprint"),
    ],
)
def test_columns_that_do_not_fit_together(times: Any, columns: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OutcomeBatch(["a", "b"], times, **columns)


def test_problems_name_the_first_fault_of_each_record() -> None:
    urls = PackedUrls(b"a\xffb" + b"c" * 8193, [0, 1, 2, 2, 3, 3 + 8193])
    batch = OutcomeBatch(
        urls,
        [1.0, math.nan, math.inf, 1.0, 1.0],
        status=[1000, 1000, None, 1000, 0],
        importance=[-1.0, None, None, None, -1.0],
        cost=[-1.0, None, None, None, None],
    )
    assert [(fault.record, fault.field) for fault in batch.problems()] == [
        (0, "status"),
        (1, "url"),
        (2, "url"),
        (3, "status"),
        (4, "url"),
    ]
    with pytest.raises(InvalidOutcome):
        batch[0]


def test_value_that_is_not_given_breaks_nothing() -> None:
    batch = OutcomeBatch(["a", "b"], [1.0, 2.0], status=[None, 200], cost=[None, 1.0])
    batch.status[0] = -5
    batch.cost[0] = math.nan
    assert batch.problems() == []


@pytest.mark.parametrize("length", range(1, 26))
@pytest.mark.parametrize("before", [0, 3])
def test_byte_that_is_not_utf8_is_seen_wherever_it_stands(length: int, before: int) -> None:
    """And bytes of the blob outside the batch's URLs are nobody's fault."""
    for place in range(length):
        text = b"x" * place + b"\xff" + b"x" * (length - place - 1)
        blob = b"\xff" * before + text + b"\xff"
        batch = OutcomeBatch(PackedUrls(blob, [before, before + length]), [1.0])
        assert [problem.field for problem in batch.problems()] == ["url"]
    sound = OutcomeBatch(PackedUrls(b"\xff" * before + b"x" * length + b"\xff", [before, before + length]), [1.0])
    assert sound.problems() == []


@pytest.mark.parametrize("field", ["importance", "cost"])
def test_the_largest_amount_is_named(field: str) -> None:
    with pytest.raises(InvalidOutcome, match=rf"{field}: expected a finite number of 0 or more, at most 3\.40"):
        Outcome("https://a.example/", 0.0, **{field: 1e300})  # type: ignore[arg-type]


def test_any_retry_after_of_a_server_is_valid() -> None:
    assert Outcome("https://a.example/", 0.0, 429, retry_after=1e300).retry_after == 1e300
    with pytest.raises(InvalidOutcome, match="retry_after: expected a finite number of 0 or more"):
        Outcome("https://a.example/", 0.0, 429, retry_after=-1.0)


@pytest.mark.parametrize("at", [1e11, 1_700_000_000_000, np.float64(1.7e12), 1e300])
def test_times_in_milliseconds_are_problems_of_their_batch(at: float) -> None:
    batch = OutcomeBatch.from_outcomes([Outcome("https://a.example/", 1.0), Outcome("https://a.example/", at)])
    (problem,) = batch.problems()
    assert (problem.record, problem.field, problem.found) == (1, "fetched_at", at)
    assert "seconds" in problem.expected
    assert "milliseconds" in problem.expected
