"""A batch's problems are those of its records taken one by one: looking at extremes alone misses none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import MOVED_TO, OPTIONAL, Outcome, OutcomeBatch
from tests.support.cases import examples

LARGEST = float(np.finfo(np.float32).max)
COLUMNS = [field.name for field in OPTIONAL if field.kind.dtype is not None]
AMOUNTS = ("importance", "cost", "retry_after", "significance")
urls = st.sampled_from([b"https://a.example/", "ä".encode(), b"x" * 8192, b"", b"x" * 8193, b"\xff", b"\xc3"])
amounts = st.sampled_from([0.0, 1.0, LARGEST, np.nextafter(LARGEST, math.inf), -5e-324, math.nan, math.inf])
sound = {
    "url": st.sampled_from([b"https://a.example/", b"x" * 8192]),
    "fetched_at": st.floats(0, 1e11, exclude_min=True, exclude_max=True),
    "status": st.none() | st.integers(0, 999),
    "importance": st.none() | st.floats(0, LARGEST),
    "cost": st.none() | st.floats(0, LARGEST),
    "retry_after": st.none() | st.floats(0, LARGEST),
    "significance": st.none() | st.floats(0, 1),
    "not_before": st.none() | st.floats(0, 1e11, exclude_min=True, exclude_max=True),
    "moved_to": st.none() | st.sampled_from([b"https://b.example/", b"y" * 8192]),
}
any_value = {
    "url": urls,
    "fetched_at": st.floats() | st.sampled_from([1e11, -5.0, 0.0, 1.7e12]),
    "status": st.none() | st.sampled_from([0, 200, 999, -1, 1000, "robots_denied", "not_attempted", 30_000, 30_003]),
    "importance": st.none() | amounts,
    "cost": st.none() | amounts,
    "retry_after": st.none() | amounts,
    "significance": st.none() | amounts | st.just(np.nextafter(1.0, 2.0)),
    "not_before": st.none() | st.floats() | st.sampled_from([1e11, 0.0]),
    "moved_to": st.none() | urls,
}
records = st.lists(st.fixed_dictionaries(sound), max_size=20) | st.lists(
    st.fixed_dictionaries(sound) | st.fixed_dictionaries(any_value), max_size=20
)


def is_valid(record: dict[str, Any]) -> bool:
    """The table of docs/outcomes.md, field by field."""
    moved_to = b"/" if record["moved_to"] is None else record["moved_to"]
    try:
        record["url"].decode()
        moved_to.decode()
    except UnicodeDecodeError:
        return False
    amounts = [record[field] for field in ("importance", "cost") if record[field] is not None]
    return (
        1 <= len(record["url"]) <= 8192
        and 0 < record["fetched_at"] < 1e11
        and (record["status"] is None or isinstance(record["status"], str) or 0 <= record["status"] <= 999)
        and 1 <= len(moved_to) <= 8192
        and all(0.0 <= amount <= LARGEST for amount in amounts)
        and (record["retry_after"] is None or 0.0 <= record["retry_after"] < math.inf)
        and (record["significance"] is None or 0.0 <= record["significance"] <= 1.0)
    )


@examples(ordinary=45, whole=150)
@given(records, st.sampled_from([b"", b"\xff"]))
def test_problems_are_the_records_that_break_the_format(rows: list[dict[str, Any]], before: bytes) -> None:
    blob = before + b"".join(row["url"] for row in rows) + before
    ends = len(before) + np.cumsum([0, *(len(row["url"]) for row in rows)], dtype=np.int64)
    columns = {field: [row[field] for row in rows] for field in ("status", *AMOUNTS)}
    moves = [row["moved_to"] or b"" for row in rows]
    moved_to = PackedUrls(b"".join(moves), np.cumsum([0, *map(len, moves)], dtype=np.int64))
    times = np.array([row["fetched_at"] for row in rows], np.float64)
    batch = OutcomeBatch(PackedUrls(blob, ends), times, moved_to=moved_to, **columns)
    batch.given &= np.array([0xFF if row["moved_to"] is not None else 0xFF ^ MOVED_TO for row in rows], np.uint8)
    assert [problem.record for problem in batch.problems()] == [i for i, row in enumerate(rows) if not is_valid(row)]


some_outcomes = st.lists(
    st.builds(
        Outcome,
        st.sampled_from(["https://a.example/", "https://ä.example/1"]),
        st.floats(1, 1e9),
        status=st.none() | st.sampled_from([200, "robots_denied"]),
        fingerprint=st.none() | st.integers(0, 2**64 - 1),
        changed=st.none() | st.booleans(),
        cost=st.none() | st.just(2.0),
        moved_to=st.none() | st.just("https://b.example/"),
    ),
    max_size=4,
)


@given(st.lists(st.tuples(some_outcomes, st.integers(0, 2)), max_size=4))
def test_concatenated_batches_have_all_records_in_order(parts: list[tuple[list[Outcome], int]]) -> None:
    """Of batches with and without each column, and of batches that are parts of larger blobs."""
    batches = [OutcomeBatch.from_outcomes(part) for part, _ in parts]
    for batch, (_, start) in zip(batches, parts, strict=True):
        if start < len(batch):
            batch.urls = PackedUrls(batch.urls.blob, batch.urls.offsets[start:])
            for name in ("fetched_at", "given", *COLUMNS):
                setattr(batch, name, getattr(batch, name)[start:])
            if len(batch.moved_to):
                batch.moved_to = PackedUrls(batch.moved_to.blob, batch.moved_to.offsets[start:])
    joined = OutcomeBatch.concatenate(batches)
    assert list(joined) == [outcome for batch in batches for outcome in batch]
    assert joined.problems() == []
    for name in COLUMNS:
        column = getattr(joined, name)
        assert column.dtype == getattr(OutcomeBatch([], []), name).dtype
        assert column.size in (0, len(joined))
