"""Certificates beside a slow twin: none is said to hold longer or to say more than what it was made of."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import bare_kernel
from streamsched.ranking.certificates import (
    BELOW_FLOOR,
    CHUNK,
    FOREVER,
    POOLED,
    Certificates,
    CertificateTable,
    Singles,
    list_above,
    list_expired,
    round_up,
    set_certificate,
    summarise,
)
from tests.support.cases import examples
from tests.support.guarded_memory import fenced

PAGES = 3 * CHUNK + 5
NOW = 1.7e9
DAY = 86_400.0
levels = st.sampled_from([-math.inf, -1e300, -1.0, 0.0, 1e-50, 0.1, 0.5, 0.7, 1e300, math.inf, math.nan])
waits = st.sampled_from([-1.0, 0.0, 1e-3, 0.5, 1.0, 7.25, 3_600.0, DAY, 100 * DAY, math.inf])
steps = st.sampled_from([0.0, 1e-6, 0.1, 1.0, 60.0, 3_600.0, DAY])


@bare_kernel
def round_all(levels: Floats, out: Singles) -> None:
    for i in range(levels.size):
        out[i] = round_up(levels[i])


@given(st.lists(st.floats() | levels | st.floats(width=32), min_size=1, max_size=20))
def test_levels_are_rounded_to_the_least_float32_that_is_not_below(numbers: list[float]) -> None:
    exact = np.array(numbers)
    rounded = np.empty(exact.size, np.float32)
    round_all(exact, rounded)
    with np.errstate(over="ignore"):
        nearest = exact.astype(np.float32)
        above = np.nextafter(nearest, np.float32(np.inf))
    np.testing.assert_array_equal(rounded, np.where(nearest < exact, above, nearest))


@bare_kernel
def set_all(certificates: Certificates, rows: Ints, bounds: Floats, untils: Floats, now: float, done: Bools) -> None:
    for i in range(rows.size):
        done[i] = set_certificate(certificates, rows[i], bounds[i], untils[i], now)


def find_expired(table: CertificateTable, now: float) -> list[int]:
    return listed(list_expired, table.arrays, table.chunks_expired(now), now)


def find_above(table: CertificateTable, level: float, now: float) -> list[int]:
    return listed(list_above, table.arrays, table.chunks_above(level), level, now)


def listed(kernel: Callable[..., int], *arguments: object) -> list[int]:
    out = np.empty(PAGES, np.int64)
    rows: list[int] = out[: kernel(*arguments, out)].tolist()
    return rows


@examples(ordinary=20, whole=65)
@given(
    st.lists(
        st.tuples(st.integers(0, PAGES - 1), levels, waits), min_size=1, max_size=40, unique_by=lambda one: one[0]
    ),
    st.lists(st.tuples(st.sampled_from([0.0, 0.4, 1.0, 59.0, 3_600.0, DAY, 40 * DAY]), steps), min_size=1, max_size=4),
    levels,
)
def test_certificates_end_in_time_and_are_found(
    pages: list[tuple[int, float, float]], moves: list[tuple[float, float]], level: float
) -> None:
    with fenced():
        table, now = CertificateTable(), NOW
        table.cover(PAGES)
        table.keep_time(now, moves[0][1], DAY)
        rows, bounds = np.array([row for row, _, _ in pages]), np.array([bound for _, bound, _ in pages])
        untils, done = now + np.array([wait for _, _, wait in pages]), np.zeros(len(pages), np.bool_)
        with np.errstate(over="ignore"):
            set_all(table.arrays, rows, bounds, untils, now, done)
        summarise(table.arrays, rows)
        assert not done[untils <= now].any()
        assert done[untils == math.inf].all()
        for seconds, step_s in moves:
            now += seconds
            table.keep_time(now, step_s, DAY)
            arrays = table.arrays
            above = find_above(table, level, now)
            expired = find_expired(table, now)
            assert expired == sorted(expired)
            assert set(expired) >= set(range(PAGES)) - set(rows[done & (untils > now)].tolist())
            assert not set(expired) & set(rows[untils == math.inf].tolist())
            assert not set(above) & set(expired)
            for row, bound in zip(rows.tolist(), bounds.tolist(), strict=True):
                held = float(arrays.bound[row])
                assert row in expired or held >= bound or math.isnan(bound)
                assert (row in above) == (row not in expired and held >= level)
            arrays.tick[expired] = 0
            summarise(arrays, np.array(expired, np.int64))
            assert find_expired(table, now) == expired
            assert find_expired(table, now) == []
            summarise(arrays, np.array(expired, np.int64))


def test_pages_of_the_pool_and_below_floors_are_not_listed() -> None:
    table = CertificateTable()
    table.cover(PAGES)
    table.keep_time(NOW, 1.0, DAY)
    rows, done = np.arange(PAGES), np.zeros(PAGES, np.bool_)
    set_all(table.arrays, rows, np.full(PAGES, 0.5), np.full(PAGES, NOW + 60.0), NOW, done)
    table.arrays.tick[3], table.arrays.bound[3] = POOLED, np.nan
    table.arrays.tick[70] |= np.uint16(BELOW_FLOOR)
    summarise(table.arrays, rows)
    assert find_above(table, 0.5, NOW) == [row for row in range(PAGES) if row not in (3, 70)]
    assert find_above(table, 0.6, NOW) == []
    assert find_expired(table, NOW) == []
    assert 70 in find_expired(table, NOW + 61.0)


def test_more_than_fits_is_reported() -> None:
    table, out = CertificateTable(), np.empty(4, np.int64)
    table.cover(PAGES)
    table.keep_time(NOW, 1.0, DAY)
    assert list_expired(table.arrays, table.chunks_expired(NOW), NOW, out) == 5
    set_all(table.arrays, np.arange(PAGES), np.ones(PAGES), np.full(PAGES, NOW + 60.0), NOW, np.zeros(PAGES, np.bool_))
    summarise(table.arrays, np.arange(PAGES))
    assert list_above(table.arrays, table.chunks_above(1.0), 1.0, NOW, out) == 5


@pytest.mark.parametrize("days", [1.0, 1_000.0])
def test_ends_too_far_for_ticks_are_spread(days: float) -> None:
    table, done = CertificateTable(), np.zeros(PAGES, np.bool_)
    table.cover(PAGES)
    table.keep_time(NOW, 1e-3, DAY)
    set_all(table.arrays, np.arange(PAGES), np.zeros(PAGES), np.full(PAGES, NOW + days * DAY), NOW, done)
    assert done.all()
    assert np.unique(table.arrays.tick).size > PAGES // 2
    assert table.arrays.tick.max() < FOREVER


def test_memory_in_use() -> None:
    table = CertificateTable()
    assert table.nbytes() == 0
    table.cover(10 * CHUNK)
    assert 60 * CHUNK < table.nbytes() <= 60 * CHUNK + 4 * mmap.PAGESIZE
