"""Few pages are ranked by scoring all of them: nothing else is compiled for them."""

from __future__ import annotations

import pytest

from streamsched import Outcome, Scheduler
from streamsched.ranking import (
    certificates,
    host_floors,
    incremental_topk,
    line_control,
    page_examination,
    page_scorer,
    tie_classes,
)
from streamsched.scheduler.batches import surge_probes

KERNELS = {
    incremental_topk: ("list_above", "list_expired", "list_needed", "needed_level", "summarise"),
    page_examination: ("examine", "certify_rows", "score_lanes", "bound_lanes", "bound_block"),
    line_control: ("_write_levels",),
    page_scorer: ("score_block", "run_bounds"),
    certificates: ("_convert",),
    tie_classes: ("_write_keys", "_divide", "_collect"),
    host_floors: ("_find_short", "_list_below_floors"),
    surge_probes: ("_list_due", "_list_candidates", "_choose_best"),
}


def test_a_program_of_three_pages_calls_no_kernel_of_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("called for three pages")

    for module, names in KERNELS.items():
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    urls, scheduler = [f"https://a.example/{i}" for i in range(3)], Scheduler()
    scheduler.discover(urls, now=0.0)
    for day in range(4):
        batch = scheduler.next_batch(2, now=86_400.0 * day)
        assert len(batch) == 2
        scheduler.observe([Outcome(url, 86_400.0 * day + 1.0, changed=True) for url in batch.urls])
        assert len(scheduler.rank(3, now=86_400.0 * day + 2.0)) == 3
        assert scheduler.explain(urls[0], now=86_400.0 * day + 2.0).score is not None
    scheduler.use("posterior", wait=True)
    assert len(scheduler.next_batch(3, now=86_400.0 * 9)) == 3
