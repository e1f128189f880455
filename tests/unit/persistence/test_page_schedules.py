"""Images that are written while pages are given schedules."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamsched import OutcomeBatch, Scheduler
from streamsched.persistence.image_format import ImageWriter
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.snapshot_view import CopySpace, SnapshotView
from streamsched.state.state_arrays import digest_state

DAY = 86_400.0
URLS = [f"https://a.example/{i}" for i in range(8)]


def visit(scheduler: Scheduler, urls: list[str], day: int) -> None:
    scheduler.observe(OutcomeBatch(urls, np.full(len(urls), (1 + day) * DAY), changed=np.ones(len(urls), np.bool_)))


def schedules(scheduler: Scheduler) -> int:
    return int(scheduler.core.pages.arrays.seasonality.state["schedules"][0])


def test_schedules_given_after_an_image_began_are_not_in_it(tmp_path: Path) -> None:
    scheduler = Scheduler(surges=False)
    for day in range(4):
        visit(scheduler, URLS[:4] if day == 3 else URLS, day)
    assert schedules(scheduler) == 4
    digest = digest_state(scheduler.core.pages, scheduler.core.to_json())
    moment = SnapshotView(scheduler.core, None, CopySpace(scheduler.core))
    with ImageWriter(tmp_path / "snapshot-00000001.state") as writer:
        for at, piece in enumerate(moment.pieces()):
            if at == 0:
                visit(scheduler, URLS, 4)
                assert schedules(scheduler) == 8
            writer.add(*piece)
        marks = {"mark": "0", "follows": None, "sequence": 0, "log": None}
        writer.finish({"state": moment.state, "counts": moment.counts()} | marks)
    moment.dismiss(saved=True, marking=True)
    loaded = load_images(tmp_path)
    assert digest_state(loaded.pages, loaded.state) == digest
    assert int(loaded.pages.arrays.seasonality.state["schedules"][0]) == 4
    assert not loaded.pages.arrays.seasonality.schedules[5:]["last_change_s"].any()
