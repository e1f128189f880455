"""The calibration watch does what its slow twin does, whatever comes between two looks at the pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.records.page_schema import PAGE
from streamsched.scheduler.monitoring import CalibrationWatch
from tests.reference import calibration

PAGES = 5


@dataclass(frozen=True)
class Lease:
    chances: dict[int, float]  # by row
    length_s: int


@dataclass(frozen=True)
class Visit:
    row: int
    changed: bool


rows = st.integers(0, PAGES - 1)
leases = st.builds(Lease, st.dictionaries(rows, st.floats(0.0, 1.0), max_size=PAGES), st.integers(1, 6))
visits = st.builds(Visit, rows, st.booleans())
acts = st.lists(leases | visits | visits | st.none(), max_size=40)  # None: a look at the pages


@given(acts, st.integers(1, 6), st.integers(3, 12))
def test_it_compares_as_its_twin(acts: list[Lease | Visit | None], window: int, most: int) -> None:
    pages = np.zeros(PAGES, PAGE)
    watch, twin = CalibrationWatch(window, most), calibration.Watch(window, most)
    for now, act in enumerate([*acts, None]):
        if isinstance(act, Lease):
            leased, chances = np.array(list(act.chances), np.int64), np.array(list(act.chances.values()))
            watch.note(pages, leased, chances, now + act.length_s)
            counts = {row: (int(pages[row]["visits"]), int(pages[row]["changes"])) for row in act.chances}
            until_s = now + act.length_s
            twin.note([calibration.Forecast(row, one, *counts[row], until_s) for row, one in act.chances.items()])
        elif isinstance(act, Visit):
            pages["visits"][act.row] += 1
            pages["changes"][act.row] += act.changed
        else:
            watch.settle(pages, now)
            twin.settle(pages["visits"].tolist(), pages["changes"].tolist(), now)
            expected = calibration.calibration_error(twin.compared)
            assert (len(watch), watch.reliability.total) == (len(twin.waiting), len(twin.compared))
            assert watch.reliability.error == (None if expected is None else pytest.approx(expected, abs=1e-12))
