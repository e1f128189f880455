"""Crawl outcomes for the tests of the connectors: made up by hand, by a seed, or by Hypothesis."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar, cast

import msgpack
import numpy as np
from hypothesis import strategies as st

from streamsched.connectors import Delivery
from streamsched.outcomes import OPTIONAL, STATUSES, Outcome, OutcomeBatch

Value = TypeVar("Value")

FLOAT32_MAX = float(np.finfo(np.float32).max)

amounts = st.floats(0, FLOAT32_MAX)
outcomes = st.builds(
    Outcome,
    url=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    fetched_at=st.floats(0, 1e11, exclude_min=True, exclude_max=True),
    status=st.none() | st.integers(0, 999) | st.sampled_from(["robots_denied", "not_attempted"]),
    fingerprint=st.none() | st.integers(0, 2**64 - 1),
    changed=st.none() | st.booleans(),
    importance=st.none() | amounts,
    cost=st.none() | amounts,
    retry_after=st.none() | amounts,
    significance=st.none() | st.floats(0, 1),
    moved_to=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=41, max_size=60),
    etag=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    last_modified=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    content=st.none() | st.integers(0, 2**64 - 1),
    not_before=st.none() | st.floats(0, 1e11, exclude_min=True, exclude_max=True),
)


def make_outcomes(count: int, seed: int = 0) -> list[Outcome]:
    """`count` outcomes in which every optional field is sometimes there and sometimes not."""
    rng = np.random.default_rng(seed)

    def sometimes(value: Value) -> Value | None:
        return value if rng.random() < 0.7 else None

    return [
        Outcome(
            f"https://host{rng.integers(5)}.example/päge/{rng.integers(50)}",
            1.7e9 + i + float(rng.random()),
            status=sometimes(int(rng.integers(0, 1000)) if rng.random() < 0.8 else list(STATUSES)[rng.integers(2)]),
            fingerprint=sometimes(int(rng.integers(0, 2**64, dtype=np.uint64))),
            changed=sometimes(bool(rng.random() < 0.5)),
            importance=sometimes(float(rng.random())),
            cost=sometimes(float(rng.integers(0, 10**6))),
            retry_after=sometimes(float(rng.integers(0, 3600))),
            significance=sometimes(float(rng.random())),
            moved_to=f"https://other.example/é{i}" if rng.random() < 0.2 else None,
            etag=sometimes(f'W/"é{i}"'),
            last_modified=sometimes("Wed, 21 Oct 2015 07:28:00 GMT"),
            content=sometimes(int(rng.integers(0, 2**64, dtype=np.uint64))),
        )
        for i in range(count)
    ]


def read_out(deliveries: Iterable[Delivery[OutcomeBatch]]) -> list[Outcome]:
    """All outcomes of `deliveries`; each is valid, or iterating over it would raise."""
    return [outcome for delivery in deliveries for outcome in delivery.records]


def pack(*records: object) -> bytes:
    """The records as msgpack, one after the other, by an encoder that the project does not use."""
    return b"".join(cast(bytes, msgpack.packb(record)) for record in records)


def put(path: Path, data: bytes) -> Path:
    """Write `data` to `path`, compressed where its name ends in .gz, and return `path`."""
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def same(left: OutcomeBatch, right: OutcomeBatch) -> bool:
    """True where both hold the same records, NaN equal to NaN, valid or not."""
    return [fields(left, i) for i in range(len(left))] == [fields(right, i) for i in range(len(right))]


def fields(batch: OutcomeBatch, record: int) -> list[object]:
    """What a record carries, as text, so that NaN equals itself."""
    carried = batch.urls.blob[batch.urls.offsets[record] : batch.urls.offsets[record + 1]].tobytes()
    values: list[object] = [carried, repr(batch.fetched_at[record]), int(batch.given[record])]
    return values + [repr(getattr(batch, one.column)[record]) for one in OPTIONAL if batch.given[record] & one.bit]
