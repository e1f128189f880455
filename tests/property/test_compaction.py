"""A compacted state is the one before without what was forgotten: the same answers, and the same ones later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Scheduler
from streamsched.estimation.hierarchical_prior import SWEEP_ROWS
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.url_patterns import group_names
from streamsched.records.url_store import url_texts
from streamsched.scheduler.compaction import compact
from streamsched.scheduler.core import SchedulerCore
from tests.support.cases import examples
from tests.support.guarded_memory import fenced, small_reserve
from tests.support.random_calls import KINDS, Call, calls, settings_of

HOSTS = ("a.example", "a.example:8080", "b.example", "[::1]")


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    with small_reserve(), fenced():
        yield


def scheduler_of(core: SchedulerCore) -> Scheduler:
    scheduler = Scheduler.__new__(Scheduler)
    scheduler.core = core
    return scheduler


def urls_of(scheduler: Scheduler) -> list[str]:
    """The known pages."""
    pages = scheduler.core.pages
    rows = np.flatnonzero(pages.arrays.pages.records["rule"][: len(pages)] != FORGOTTEN)
    return sorted(url_texts(pages.arrays.pages, rows))


def views(scheduler: Scheduler, now: float) -> Any:
    """What is known of pages and of hosts that have any."""
    urls = urls_of(scheduler)
    pages = [(scheduler.page(url, now=now), scheduler.explain(url, now=now)) for url in urls]
    hosts = {page.host for page, _ in pages if page is not None}
    return (
        [repr(page) for page in pages],
        [repr(scheduler.host(host, now=now)) for host in sorted(hosts)],
        scheduler.score(urls, now=now).tolist(),
        repr(scheduler.rules), repr(scheduler.sources()), scheduler.positions, scheduler.rank(50, now=now).urls,
    )  # fmt: skip


def hosts_mask(core: SchedulerCore, names: set[str]) -> np.ndarray:
    shard = core.pages.arrays
    numbers = np.arange(int(shard.corpus["groups"][0]))
    return np.isin(group_names(shard.groups, numbers), sorted(names))


unbounded = st.integers(0, KINDS - 2).flatmap(calls)


@examples(ordinary=25, whole=400)
@given(st.lists(calls(), max_size=12), st.sampled_from([0.0, 3e6, 4e6]), st.lists(unbounded, max_size=6))
def test_compacted_state_answers_as_the_one_before(before: list[Call], now: float, after: list[Call]) -> None:
    scheduler = Scheduler(**settings_of() | {"panel": 0.0})
    for call in before:
        call(scheduler)
    scheduler.max_pages = scheduler.max_pages_per_host = None
    digest = scheduler.digest()
    compacted = scheduler_of(compact(scheduler.core))
    assert scheduler.digest() == digest
    assert compacted.core.pages.faults() == []
    assert views(compacted, now) == views(scheduler, now)
    counts = [int(one.core.pages.corpus["groups"][0]) for one in (compacted, scheduler)]
    alike = counts[0] == counts[1]  # otherwise one has forgotten what the other knows of a host without pages
    for call in after:
        answers = call(compacted), call(scheduler)
        alike &= len(scheduler.core.pages) <= SWEEP_ROWS  # a sweep has one step
        assert answers[0] == answers[1] or not alike
        assert compacted.core.pages.faults() == []
    assert not alike or views(compacted, now) == views(scheduler, now)
