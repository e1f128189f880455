"""A compacted state is the one before without what was forgotten: the same answers, and the same ones later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamsched import Scheduler
from streamsched.api.views import HostView
from streamsched.estimation.hierarchical_prior import SWEEP_ROWS
from streamsched.numerics.arrays import Bools
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.url_patterns import group_names, hosts_of
from streamsched.records.url_store import url_texts
from streamsched.records.visit_journal import SAMPLE_PAGES, find_sampled, read_visits, sample_bar
from streamsched.scheduler.compaction import compact
from streamsched.scheduler.core import SchedulerCore
from streamsched.state import compaction
from streamsched.state.crawl_plan import CrawlPlan
from streamsched.state.page_table import PageTable
from tests.support.cases import examples
from tests.support.guarded_memory import fenced, small_reserve
from tests.support.outcome_streams import cut, daily_crawl
from tests.support.random_calls import KINDS, Call, calls, settings_of

HOSTS = ("a.example", "a.example:8080", "b.example", "[::1]", "new.example")


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


def without_rows(answer: Any) -> Any:
    """An answer without what counts rows of forgotten pages."""
    return replace(answer, pages=0) if isinstance(answer, CrawlPlan) else answer


def host_view(scheduler: Scheduler, host: str, now: float) -> HostView:
    view = scheduler.host(host, now=now)
    assert view is not None
    return view


def views(scheduler: Scheduler, now: float) -> Any:
    """What is known of pages and of hosts that have any, but for the number of URL patterns: some have no pages."""
    urls = urls_of(scheduler)
    pages = [(scheduler.page(url, now=now), scheduler.explain(url, now=now)) for url in urls]
    hosts = {page.host for page, _ in pages if page is not None}
    return (
        [repr(page) for page in pages],
        [repr(structs.replace(host_view(scheduler, host, now), patterns=0)) for host in sorted(hosts)],
        scheduler.score(urls, now=now).tolist(),
        repr(scheduler.rules), repr(scheduler.sources()), scheduler.positions, scheduler.rank(50, now=now).urls,
    )  # fmt: skip


unbounded = st.integers(0, KINDS - 2).flatmap(calls)


@examples(ordinary=15, whole=400)
@given(st.lists(calls(), max_size=12), st.sampled_from([0.0, 3e6, 4e6]), st.lists(unbounded, max_size=6))
def test_compacted_state_answers_as_the_one_before(before: list[Call], now: float, after: list[Call]) -> None:
    without_panel: dict[str, Any] = settings_of() | {"panel": 0.0}
    scheduler = Scheduler(**without_panel)
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
        answers = [without_rows(call(one)) for one in (compacted, scheduler)]
        alike &= len(scheduler.core.pages) <= SWEEP_ROWS  # a sweep has one step
        assert answers[0] == answers[1] or not alike
        assert compacted.core.pages.faults() == []
    assert not alike or views(compacted, now) == views(scheduler, now)


@examples(ordinary=10, whole=150)
@given(st.lists(calls(), max_size=12), st.sets(st.sampled_from(HOSTS)), st.lists(calls(), max_size=4))
def test_cut_states_have_each_page_once(before: list[Call], hosts: set[str], after: list[Call]) -> None:
    """Rows, and so the panel, differ; what is known of pages and hosts does not, and saved parts are as they were."""
    scheduler = Scheduler(**settings_of())
    for call in before:
        call(scheduler)
    parts = [scheduler_of(compact(scheduler.core, part)) for part in cut_by_host(scheduler.core, hosts)]
    known = [urls_of(part) for part in parts]
    assert sorted(known[0] + known[1]) == urls_of(scheduler)
    now = 4e6
    for part, urls in zip(parts, known, strict=True):
        assert part.core.pages.faults() == []
        assert [part.page(url, now=now) for url in urls] == [scheduler.page(url, now=now) for url in urls]
        assert part.score(urls, now=now).tolist() == scheduler.score(urls, now=now).tolist()
        assert {view.host for view in part.hosts(size=1_000, now=now).hosts if view.pages} <= {
            hosts_of(PackedUrls.pack([url]))[0] for url in urls
        }
        with TemporaryDirectory() as folder:
            part.save(folder)
            loaded = Scheduler.load(folder, threads=1)
        assert loaded.digest() == part.digest()
        for call in after:
            assert call(loaded) == call(part)
            assert loaded.core.pages.faults() == []
        assert loaded.digest() == part.digest()


def test_samples_keep_their_pages_and_visits() -> None:
    """The share of the journal's sample grows as the table shrinks; the panel's members are its smallest hashes."""
    urls = [f"https://h{number % 300}.example/d{number % 7}/{number}" for number in range(3 * SAMPLE_PAGES)]
    scheduler = Scheduler(threads=1, panel=0.1)
    scheduler.discover(urls, now=1e6)
    scheduler.observe(OutcomeBatch(urls[::2], np.full(len(urls[::2]), 2e6)))
    scheduler.core.panel.bar = 1 << 58
    scheduler.forget([url for number, url in enumerate(urls) if number % 5 in (0, 2, 3)])
    old = scheduler.core.pages
    compacted = compact(scheduler.core)
    assert compacted.pages.faults() == []
    known = set(urls_of(scheduler))
    for bar in (1 << 58, sample_bar(old.corpus)):
        before, after = (set(sampled(pages, bar)) for pages in (old, compacted.pages))
        few, many = sorted((before & known, after), key=len)
        assert few <= many
        assert bar > 1 << 58 or len(many) - len(few) < 4 * len(few) ** 0.5
    visits = [visited(pages) for pages in (old, compacted.pages)]
    assert visits[1] == [url for url in visits[0] if url in known]
    assert visits[1]


def test_what_a_smaller_table_has_no_room_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without room for their schedules have none; those of groups without room follow the profile above."""
    scheduler = Scheduler(threads=1)
    for batch in cut(list(daily_crawl(pages=400, visits=12_000, seed=3)), [500]):
        scheduler.observe(batch)
    arrays = scheduler.core.pages.arrays
    had = [int(arrays.seasonality.state[name][0]) for name in ("schedules", "profiles")]
    regions = int(arrays.seasonality.state["regions"][0]) + 1
    assert had[0] > 5
    assert had[1] > regions + 2
    monkeypatch.setattr(compaction, "most_schedules", lambda _: 5)
    monkeypatch.setattr(compaction, "most_profiles", lambda _: 2)
    compacted = compact(scheduler.core)
    assert compacted.pages.faults() == []
    seasonality = compacted.pages.arrays.seasonality
    assert (seasonality.state["schedules"][0], seasonality.state["profiles"][0]) == (5, regions + 2)
    for name in ("changes", "exposure"):
        totals = [
            one.profiles[name][: int(one.state["profiles"][0])].sum() for one in (arrays.seasonality, seasonality)
        ]
        assert totals[0] == pytest.approx(totals[1])


def test_what_waits_for_a_time_stays_until_then() -> None:
    """A host that rests is known without pages, and a forgotten page while the key of a batch names it."""
    urls = [f"https://h{number}.example/" for number in range(9)]
    scheduler = Scheduler(threads=1)
    scheduler.discover(urls, now=1e6)
    scheduler.block("h3.example", 3e6)
    leased = scheduler.next_batch(2, now=2e6, lease="1h", key="mine").urls
    scheduler.forget([*leased, urls[3], urls[4]])
    compacted = scheduler_of(compact(scheduler.core))
    assert len(compacted) == len(scheduler)
    assert compacted.core.forgotten == len(leased)
    assert compacted.next_batch(2, now=2e6 + 60.0, lease="1h", key="mine").urls == leased
    assert compacted.host("h4.example", now=2e6) is None
    compacted.discover([urls[3]], now=2e6)
    found = compacted.page(urls[3], now=2e6)
    assert found is not None
    assert found.eligible_from_s == 3e6
    later = scheduler_of(compact(compacted.core))
    assert later.core.forgotten == len(leased)
    later.next_batch(0, now=2.1e6)
    assert compact(later.core).forgotten == 0


def cut_by_host(core: SchedulerCore, names: set[str]) -> list[Bools]:
    """Which groups are the hosts with these names, and which are not."""
    shard = core.pages.arrays
    numbers = np.arange(int(shard.corpus["groups"][0]))
    inside = np.array([name in names for name in group_names(shard.groups, numbers)], np.bool_)
    return [inside, ~inside]


def sampled(pages: PageTable, bar: int) -> list[str]:
    """The pages with sample hashes up to `bar`."""
    return url_texts(pages.arrays.pages, find_sampled(0, len(pages), bar))


def visited(pages: PageTable) -> list[str]:
    """The pages of the visits in the journal that its sample still has."""
    return sorted(url_texts(pages.arrays.pages, read_visits(pages.arrays.journal, pages.corpus).rows))
