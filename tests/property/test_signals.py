"""Change signals are their slow twin: after any mixture of signals and visits, cut anywhere, all knowledge agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from streamsched import Noticed, OutcomeBatch, Scheduler
from streamsched.formula.terminal_table import SEASONAL
from streamsched.outcomes import Outcome
from streamsched.signals import Signal, SignalBatch
from tests.reference import shard as reference_shard
from tests.reference.signals import NAMES
from tests.support.cases import examples
from tests.support.outcome_streams import DAY, cut

pytestmark = pytest.mark.usefixtures("small_tables")

URLS = [f"https://{host}.example/{folder}/{i}" for host in "ab" for folder in ("x", "y") for i in range(4)]
KINDS = ["sitemap", "feed", "indexnow"]

Event = Outcome | Signal
sizes = st.lists(st.sampled_from([1, 2, 7, 1000]), min_size=1, max_size=4)


@dataclass
class Both:
    """A scheduler and its twin."""

    scheduler: Scheduler
    shard: reference_shard.Shard

    def take(self, events: Sequence[Event], sizes: Sequence[int]) -> None:
        for kind, group in groupby(events, type):
            part: list[Any] = list(group)
            if kind is Outcome:
                for batch in cut(part, sizes):
                    self.scheduler.observe(batch)
                for outcome in part:
                    self.shard.observe(outcome)
            else:
                self.notice(part, sizes)

    def notice(self, signals: list[Signal], sizes: Sequence[int]) -> None:
        noticed = Noticed()
        for at in range(0, len(signals), sizes[0]):
            noticed += self.scheduler.notice(signals[at : at + sizes[0]])
        fates = Counter(self.shard.notice(one.url, one.source, one.at) for one in signals)
        assert {name: getattr(noticed, name) for name in fates} == dict(fates)
        assert fates.total() == len(signals) - noticed.rejected


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Visits and signals of a few pages, mostly in the order of their times; some twice or of two kinds, some late."""
    urls = st.sampled_from(URLS[: draw(st.integers(2, len(URLS)))])
    at_s, found = 1e6, list[Event]()
    for url in URLS[: draw(st.integers(0, len(URLS)))]:
        found.append(Outcome(url, at_s, changed=False))
    for _ in range(draw(st.integers(1, 40))):
        at_s += draw(st.sampled_from([0.0, 1.0, 3_600.0, 20_000.0, DAY, 9.0 * DAY, -3_600.0]))
        if draw(st.booleans()):
            found.append(Outcome(draw(urls), at_s, changed=draw(st.booleans())))
        else:
            found.append(Signal(draw(urls), at_s, draw(st.sampled_from(KINDS))))
            found += found[-1:] * draw(st.integers(0, 1))
            if draw(st.booleans()):
                found.append(replace(found[-1], source=draw(st.sampled_from(KINDS))))
    return found


def assert_same(both: Both) -> None:
    assert both.scheduler.core.pages.faults() == []
    shard, twin = both.scheduler.core.pages.arrays, both.shard.signals
    names = both.scheduler.core.pages.signal_kinds
    assert names == twin.kinds
    count = int(shard.signals.state["sources"][0])
    assert count == len(twin.sources)
    for record, ((host, kind), source) in zip(shard.signals.sources[:count], twin.sources.items(), strict=True):
        assert list(both.shard.groups)[int(record["host"])] == (host,)
        assert names[int(record["kind"])] == kind
        assert (record["signals"], record["pages"], record["seen_s"]) == (
            source.signals, len(source.pages), source.seen_s,
        )  # fmt: skip
        expected = [source.evidence[name] for name in NAMES]
        assert record["evidence"].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    if not names:
        return
    for row, url in enumerate(both.shard.pages):
        signal, heard = shard.pages.signals[row], twin.of_page(url)
        assert (signal["echoes"], signal["first_after_s"], signal["last_after_s"]) == pytest.approx(
            (heard.echoes, heard.first_s, heard.last_s), rel=1e-4
        )
        assert signal["signalled"] == pytest.approx(heard.signalled, abs=2)
        assert (signal["quiet"], signal["lateness"]) == pytest.approx((heard.quiet, heard.lateness), abs=1)
        bits = [{kind for i, kind in enumerate(names) if int(signal[of]) >> i & 1} for of in ("covered", "kinds")]
        assert bits == [heard.covered, heard.kinds]
        counts = {kind: int(signal["counts"][i]) for i, kind in enumerate(names) if signal["counts"][i]}
        assert counts == heard.counts
        assert kinds_of({"kinds": signal["latest"]}, names) == heard.latest
        page = both.shard.pages[url]
        record = shard.pages.records[row]
        assert (record["own_shape"], record["own_exposure"]) == pytest.approx(
            (page.own_shape, page.own_exposure), rel=1e-4, abs=1e-9
        )


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(events(), sizes)
def test_any_mixture_leaves_the_state_of_the_twin(events: list[Event], sizes: list[int]) -> None:
    both = Both(Scheduler(max_ahead=None), reference_shard.Shard(DAY))
    both.take(events, sizes)
    assert_same(both)
    now = max(event.fetched_at if isinstance(event, Outcome) else event.at for event in events) + DAY
    for url in list(both.shard.pages)[:6]:
        expected, result = both.shard.terminals(url, now), both.scheduler.explain(url, now=now).terminals
        for name in SEASONAL | {"posterior", "signalled", "rate", "surge"}:
            assert result[name] == pytest.approx(expected[name], rel=2e-3, abs=1e-4)


@examples(ordinary=4, whole=15)
@given(events(), sizes, sizes)
def test_cuts_do_not_matter(events: list[Event], first: list[int], second: list[int]) -> None:
    digests = []
    for sizes in (first, second):
        scheduler = Scheduler(max_ahead=None)
        feed(scheduler, events, sizes)
        digests.append(scheduler.digest())
    assert digests[0] == digests[1]


@examples(ordinary=3, whole=10)
@given(events(), sizes)
def test_copies_of_a_source_are_counted_as_one_is(events: list[Event], sizes: list[int]) -> None:
    """Every signal comes of one kind, or at the same time of two: both kinds then have the counts of the one."""
    alone, copied = Scheduler(max_ahead=None), Scheduler(max_ahead=None)
    known = [Outcome(url, 1.0, changed=False) for url in URLS]
    feed(alone, known, sizes)
    feed(copied, known, sizes)
    for event in events:
        if isinstance(event, Outcome):
            feed(alone, [event], sizes)
            feed(copied, [event], sizes)
        else:
            noticed = copied.notice([replace(event, source=kind) for kind in ("feed", "copy")])
            once = alone.notice([replace(event, source="feed")])
            assert noticed == once + once
    expected = [astuple(source)[:4] for source in alone.sources()]
    for kind in {source.kind for source in copied.sources()}:
        assert [astuple(replace(one, kind="feed"))[:4] for one in copied.sources() if one.kind == kind] == expected
    rows, twins = (one.core.pages.arrays.pages.signals[: len(URLS)] for one in (alone, copied))
    for name in ("first_after_s", "last_after_s"):
        assert twins[name].tolist() == rows[name].tolist()
    for name in ("covered", "kinds", "latest"):  # the bit of each kind is the first one's
        assert twins[name].tolist() == (rows[name] * 3).tolist()
    assert twins["counts"][:, :2].tolist() == np.repeat(rows["counts"][:, :1], 2, axis=1).tolist()


@examples(ordinary=3, whole=10)
@given(events(), events(), st.randoms(use_true_random=False))
def test_two_streams_of_different_hosts_may_arrive_in_any_order(
    left: list[Event], right: list[Event], chance: Any
) -> None:
    """Each host's own evidence depends on its own stream alone; what kinds have in common does not."""
    sides = [
        [event for event in left if "//a." in event.url and isinstance(event, Signal)],
        [event for event in right if "//b." in event.url and isinstance(event, Signal)],
    ]
    known = [Outcome(url, 1.0, changed=False) for url in URLS]
    order = [side for side, part in enumerate(sides) for _ in part]
    found = []
    for _ in range(2):
        chance.shuffle(order)
        waiting = [iter(part) for part in sides]
        scheduler = Scheduler(max_ahead=None)
        scheduler.observe(known)
        noticed = sum((scheduler.notice(next(waiting[side])) for side in order), Noticed())
        rows = scheduler.core.pages.arrays.pages.signals[: len(URLS)]
        names = scheduler.core.pages.signal_kinds
        seen = [(row["first_after_s"], row["last_after_s"], kinds_of(row, names)) for row in rows]
        found.append((noticed, seen))
    assert found[0] == found[1]


@examples(ordinary=3, whole=10)
@given(events(), st.integers(0, 40), sizes)
def test_a_saved_state_goes_on_as_the_one_that_was_kept(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], at: int, sizes: list[int]
) -> None:
    folder: Path = tmp_path_factory.mktemp("saved")
    kept = Scheduler(max_ahead=None)
    feed(kept, events[:at], sizes)
    kept.save(folder)
    loaded = Scheduler.load(folder)
    for scheduler in (kept, loaded):
        feed(scheduler, events[at:], sizes)
    assert loaded.digest() == kept.digest()
    assert loaded.sources() == kept.sources()


def feed(scheduler: Scheduler, events: Sequence[Event], sizes: Sequence[int]) -> None:
    for kind, group in groupby(events, type):
        part: list[Any] = list(group)
        for batch in cut(part, sizes):
            if kind is Outcome:
                scheduler.observe(OutcomeBatch.from_outcomes(batch))
            else:
                scheduler.notice(SignalBatch.from_signals(batch))  # type: ignore[arg-type]


def kinds_of(row: Any, names: list[str]) -> set[str]:
    return {name for i, name in enumerate(names) if int(row["kinds"]) >> i & 1}


def test_without_signals_nothing_changes_by_a_bit() -> None:
    """Pages that no source covers keep their scores when another host has one."""
    rng = np.random.default_rng(5)
    scheduler, other = Scheduler(), Scheduler()
    for day in range(9):
        batch = OutcomeBatch(URLS, DAY * day + np.arange(len(URLS)) + 1.0, changed=rng.random(len(URLS)) < 0.4)
        scheduler.observe(batch)
        other.observe(batch)
        other.notice([Signal("https://c.example/", DAY * day + 100.0, "feed")])
    now = 9.5 * DAY
    assert scheduler.scores(now=now).tolist() == other.scores(now=now)[: len(URLS)].tolist()
