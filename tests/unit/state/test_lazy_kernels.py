"""Rarely needed ingest kernels: each is compiled before the first outcome that needs it."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.state import lazy_kernels
from streamsched.state.lazy_kernels import LazyKernels
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import digest_state

DAY = 86_400.0
KEY = np.array([3, 5], np.uint64)


def stream() -> list[Outcome]:
    """Return outcomes with new pages, moved ones, failures, validators, sweeps, and pages that earn schedules."""
    found = []
    for i in range(240):
        page = i % 6 if i < 200 else i % 11
        moved = f"https://a.example/moved/{i % 5}" if i % 50 == 20 else None
        status = 503 if i % 17 == 0 else 200
        etag = str(i) if i % 40 == 30 else None
        url, at_s = f"https://a.example/docs/{page}", i * DAY / 12
        found.append(Outcome(url, at_s, changed=i % 3 > 0, status=status, moved_to=moved, etag=etag))
    return found


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_kernels, "_known", [LazyKernels(0, 0, 0, 0, 0)])


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_batch_has_the_kernels_that_it_needs_wherever_the_stream_is_cut(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = stream()
    whole, parts = (PageTable(DAY, key=KEY) for _ in range(2))
    whole.observe(OutcomeBatch.from_outcomes(outcomes))
    for start in range(0, len(outcomes), size):
        forget(monkeypatch)  # as if each batch were the first of its process
        parts.observe(OutcomeBatch.from_outcomes(outcomes[start : start + size]))
    assert int(whole.arrays.seasonality.state["schedules"][0]) > 0
    assert int(whole.arrays.corpus["sweep"][0]) > 1
    assert digest_state(parts, {}) == digest_state(whole, {})


def test_a_first_batch_of_known_pages_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    table = PageTable(DAY)
    batch = OutcomeBatch.from_outcomes([Outcome(f"https://a.example/{i}", DAY) for i in range(3)])
    table.discover(batch.urls, 0.0)
    forget(monkeypatch)
    table.observe(batch)
    assert lazy_kernels._known == [LazyKernels(0, 0, 0, 0, 0)]
    table.observe(OutcomeBatch.from_outcomes([Outcome("https://a.example/new", DAY)]))
    assert lazy_kernels._known[0].add_page != 0
