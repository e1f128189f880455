"""Schedules of single pages, independent of the other pages of their group."""

from __future__ import annotations

import numpy as np

from streamsched import Scheduler
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch

HOUR = 3_600.0
MONDAY_S = 1_704_067_200.0  # 2024-01-01
PAGES = 2_000
VISITS = (2, 4, 14, 16)  # by the clock


def test_a_page_keeps_its_hour_where_no_other_page_has_it() -> None:
    """All pages change between 2 and 4 but one between 14 and 16: its own visits show it, however rare it is."""
    scheduler = Scheduler(cycle=HOUR, surges=False)
    urls = PackedUrls.pack([f"https://one.example/{i}" for i in range(PAGES)])
    for day in range(35):
        for hour in VISITS:
            changed = np.full(PAGES, hour == 4)
            changed[0] = hour == 16
            at_s = np.full(PAGES, MONDAY_S + (24 * day + hour) * HOUR)
            scheduler.observe(OutcomeBatch(urls, at_s, changed=changed))
    scheduler.use("due")
    evening, noon = (MONDAY_S + (24 * day + hour) * HOUR for day, hour in ((34, 16), (35, 13)))
    assert scheduler.scores(now=evening).max() < 0.1
    due = scheduler.scores(now=noon)  # the others' hour has passed since, but not that of page 0
    assert due[0] < 0.2
    assert due[1:].min() > 0.9
    assert scheduler.scores(now=noon + 3 * HOUR)[0] > 0.9
    assert scheduler.core.pages.faults() == []
