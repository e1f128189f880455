"""A scheduler is its slow twin: after any stream, cut anywhere, every record, prior, score and batch agrees."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from streamsched import Observed, OutcomeBatch, Politeness, Scheduler
from streamsched.estimation.change_detection import CHANGES, EVIDENCE_MEMORY
from streamsched.formula import Formula
from streamsched.formula.terminal_table import PROVIDED, SEASONAL
from streamsched.numerics.jit import mix
from streamsched.outcomes import Outcome
from streamsched.records.page_schema import DENIED, SUCCEEDED, VISITED, WITH_FINGERPRINT
from streamsched.records.schema import CAUSES
from streamsched.records.url_patterns import group_name
from streamsched.records.url_store import url_text
from streamsched.records.validators import read_validators
from streamsched.records.visit_journal import NO_EVIDENCE, SAW_CHANGE, WAS_FIRST, find_sampled, read_visits, sample_bar
from streamsched.state import page_table, state_arrays
from tests.reference import estimators
from tests.reference import shard as reference_shard
from tests.reference.surges import GroupSurges
from tests.reference.url_hash import hash_of
from tests.support.cases import examples, how_many
from tests.support.guarded_memory import fenced
from tests.support.handout import by_probability
from tests.support.outcome_streams import DAY, PREFIXES, bursts, cut, daily_crawl, streams

pytestmark = pytest.mark.usefixtures("small_tables")

sizes = st.lists(st.sampled_from([1, 2, 7, 30, 1000]), min_size=1, max_size=4)


formulas = st.sampled_from(["posterior", "t * X", "importance / cost - n", "1", "log(CG - NAD) + exp(AAD * GAD - SAD)"])

panels = st.sampled_from([0.0, 0.05, 0.3, 0.9])


def near(expected: object) -> object:
    """Within what one prior moves others by, should the last bit of a double turn its rounding to single precision.

    Evidence that has faded below 1e-100 is none: where it becomes 0 depends on the mathematics library.
    """
    return pytest.approx(expected, rel=5e-7, abs=1e-100)


def singly(expected: object) -> object:
    """Within what rounding to single precision may add up to."""
    return pytest.approx(expected, rel=1e-5, abs=1e-9)


def as_told(counts: Counter[str], served: int, hits: int, moved: int) -> Observed:
    return Observed(
        applied=counts.total() - counts["duplicate"] - counts["late"] - counts["refused"],
        changed=counts["change"],
        first_visits=counts["first"],
        duplicates=counts["duplicate"],
        late=counts["late"],
        failures=counts["failure"],
        served=served,
        hits=hits,
        refused=counts["refused"],
        robots_denied=counts["denied"],
        not_attempted=counts["untried"],
        moved=moved,
        unproven=counts["no_evidence"],
    )


def observe_both(scheduler: Scheduler, shard: reference_shard.Shard, outcomes: list[Outcome], sizes: list[int]) -> None:
    result, shown = Observed(), list[str | None]()
    for part in cut(outcomes, sizes):
        told = scheduler.observe(part[0] if len(part) == 1 else OutcomeBatch.from_outcomes(part), positions=True)
        assert told.positions is not None
        assert told.unchanged is not None
        verdicts = dict.fromkeys(told.positions, "change") | dict.fromkeys(told.unchanged, "same")
        shown += [verdicts.get(position) for position in range(len(part))]
        result += told
    served, hits, moved = shard.served, shard.hits, shard.moved
    expected = [shard.observe(outcome) for outcome in outcomes]
    assert shown == [verdict if verdict in ("change", "same") else None for verdict in expected]
    counts = Counter(expected)
    assert result == as_told(counts, shard.served - served, shard.hits - hits, shard.moved - moved)


def assert_same(scheduler: Scheduler, shard: reference_shard.Shard) -> None:
    assert scheduler.core.pages.faults() == []
    arrays = scheduler.core.pages.arrays
    assert [url_text(arrays.pages, row) for row in range(len(scheduler))] == list(shard.pages)
    for row, page in enumerate(shard.pages.values()):
        assert_same_page(scheduler, row, page)
        claims = arrays.seasonality.links["related"][row].tolist()
        assert claims == pytest.approx(shard.related.claims[page.url].packed, rel=0, abs=1)  # a bit of a double at most
    chances = arrays.related.chances[: int(arrays.related.state["keys"][0])]
    expected = list(zip(*shard.related.chances.values(), strict=True)) or [(), ()]
    assert (chances["followed"].tolist(), chances["failed"].tolist()) == (
        singly([*expected[0]]),
        singly([*expected[1]]),
    )
    corpus = arrays.corpus[0]
    sweep = (corpus["sweep"], corpus["sweep_row"], corpus["sweep_end"])
    assert sweep == (shard.sweeps, shard.sweep_row, shard.sweep_end)
    assert (corpus["mean"], corpus["shape"]) == near((shard.mean, shard.shape))
    assert corpus["shape_information"] == near(shard.shape_information)
    assert corpus["first_mean"] == near(shard.first_mean)
    assert (corpus["sweep_hurried"], corpus["swept_pages"]) == (shard.hurried, shard.swept_pages)
    assert corpus["half_life"] == pytest.approx(shard.forgetting.half_life, rel=1e-6)
    assert corpus["half_life_fits"].tolist() == pytest.approx(shard.forgetting.fits, rel=1e-6, abs=1e-9)
    members = Counter(page.group for page in shard.pages.values())
    assert corpus["groups"] == len(shard.groups)
    for index, (name, group) in enumerate(shard.groups.items()):
        record = arrays.groups.records[index]
        assert group_name(arrays.groups, index) == "/".join(name) + "/" * (len(name) > 1)
        assert group_name(arrays.groups, int(record["host"])) == name[0]
        assert group_name(arrays.groups, int(record["parent"])).rstrip("/") == "/".join(name[:-1] or name).rstrip("/")
        assert (record["visits"], record["changes"], record["pages"]) == (group.visits, group.changes, members[name])
        assert record["mean"] == near(group.mean)
        assert (record["own_mean"], record["log_odds"]) == (
            near(group.own_mean),
            pytest.approx(group.log_odds, rel=1e-6, abs=1e-6),
        )
        assert_same_surges(record, shard.surges.of(name))
    pooled = [corpus[name] for name in ("surge_sum", "group_days", "hits", "page_days")]
    assert pooled == singly([float(value) for value in vars(shard.surges.pooled).values()])
    learned = zip(corpus["cause_expected"].tolist(), corpus["cause_found"].tolist(), strict=True)
    assert [*learned] == [singly((shard.causes.expected[cause], shard.causes.found[cause])) for cause in CAUSES]
    assert journal_of(scheduler) == list(shard.journal)
    without = shard.evidence.count(False) / len(shard.evidence) if shard.evidence else 0.0
    assert corpus["compared"] == min(len(shard.evidence), EVIDENCE_MEMORY)
    if len(shard.evidence) <= EVIDENCE_MEMORY:
        assert corpus["unproven"] == pytest.approx(without)


def assert_same_surges(record: Any, surges: GroupSurges) -> None:
    result = [record[name] for name in ("told_share", "hazard", "surge_sum", "surge_days", "hits", "page_days")]
    assert result == singly((surges.told, surges.hazard, surges.surges, surges.days, surges.hits, surges.page_days))
    for name, window in (("open", surges.open), ("kept", surges.kept)):
        assert record[f"{name}_s"] == (-np.inf if window is None else window.begin_s)
        if window is not None:
            assert record[f"{name}_share"] == singly(window.share)
            assert record[f"{name}_unvisited"] == window.unvisited
            assert record[f"{name}_weights"].tolist() == singly(list(window.weights.values()))


def journal_of(scheduler: Scheduler) -> list[reference_shard.Visit]:
    """All that the journal holds, the oldest first."""
    shard = scheduler.core.pages.arrays
    written, size = int(shard.corpus["journaled"][0]), shard.journal.size
    ring = [shard.journal[at % size] for at in range(max(0, written - size), written)]
    return [
        reference_shard.Visit(
            url_text(shard.pages, int(visit["row"])),
            float(visit["at_s"]),
            bool(visit["flags"] & SAW_CHANGE),
            bool(visit["flags"] & WAS_FIRST),
            bool(visit["flags"] & NO_EVIDENCE),
        )
        for visit in ring
    ]


def assert_same_page(scheduler: Scheduler, row: int, page: reference_shard.Page) -> None:
    shard = scheduler.core.pages.arrays
    record, trace = shard.pages.records[row], shard.pages.traces[row]
    prior = float(record["prior_shape"]), float(record["prior_exposure"])
    assert prior == near(page.prior)
    assert record["url_hash"] == hash_of(page.url.encode())
    assert record["last_visit_s"] == page.last_visit_s
    assert (trace["last_outcome_s"], trace["last_attempt_s"]) == (page.last_outcome_s, page.last_attempt_s)
    assert bool(record["flags"] & DENIED) == page.denied
    assert (record["visits"], record["changes"]) == (len(page.flags), sum(page.flags))
    assert (record["importance"], record["cost"]) == (page.importance, page.cost)
    shadow = shard.shadows[row // int(shard.corpus["shadow_stride"][0])]
    assert list(zip(shadow["shape"], shadow["exposure"], strict=True)) == [near(both) for both in page.shadow]
    assert (record["failures"], record["gone"]) == (page.failures, page.gone)
    assert prior[0] + record["own_shape"] == near(page.prior[0] + page.own_shape)
    assert prior[1] + record["own_exposure"] == near(page.prior[1] + page.own_exposure)
    assert f"{trace['history']:064b}"[::-1] == "".join("01"[flag] for flag in page.flags[::-1])[:64].ljust(64, "0")
    assert trace["weighted_changes"] == sum(i for i, flag in enumerate(page.flags, 1) if flag)
    assert bool(record["flags"] & VISITED) == (page.left is not None)
    left = page.left or {"success": False}
    assert bool(record["flags"] & SUCCEEDED) == left["success"]
    assert bool(record["flags"] & WITH_FINGERPRINT) == ("fingerprint" in left)
    assert trace["fingerprint"] == left.get("fingerprint", trace["fingerprint"])
    content = int(shard.pages.contents[row]) if row < shard.pages.contents.size else 0
    assert content == left.get("content", -1) + 1
    found = read_validators(shard.pages.validators, shard.pages.validator_texts, np.array([row]))
    assert (found[0][0], found[1][0]) == page.validators


def test_twin_counts_prefixes_as_the_sketch_does() -> None:
    """None of the streams' prefixes shares both its counters with others, so exact counts are the sketch's."""
    names = {reference_shard.names_of(f"{prefix}1") for prefix in PREFIXES}
    prefixes = {"/".join(name[:size]).encode() for name in names for size in range(2, len(name) + 1)}
    hashes = {prefix: hash_of(prefix) for prefix in prefixes}
    counters = [{hash_ & 0xFFFF, int(mix(np.uint64(hash_))) & 0xFFFF} for hash_ in hashes.values()]
    assert len(set.union(*counters)) == sum(map(len, counters))


@examples(ordinary=6, whole=20)
@given(streams(), sizes, st.integers(1, 64), st.sampled_from(CHANGES))
def test_any_stream_leaves_the_state_of_the_twin(
    outcomes: list[Outcome], sizes: list[int], bits: int, changes: str
) -> None:
    with fenced(), patch.object(page_table, "CHANGE_BITS", bits):
        scheduler = Scheduler(max_ahead=None, changes=changes)
        shard = reference_shard.Shard(DAY, bits, changes=changes)
        observe_both(scheduler, shard, outcomes, sizes)
        assert_same(scheduler, shard)


@settings(max_examples=10, derandomize=True, database=None)  # a last bit of a claim may still move an estimate
@given(bursts(), sizes)
def test_visits_nanoseconds_apart_leave_the_state_of_the_twin(outcomes: list[Outcome], sizes: list[int]) -> None:
    scheduler, shard = Scheduler(max_ahead=None), reference_shard.Shard(DAY)
    observe_both(scheduler, shard, outcomes, sizes)
    assert_same(scheduler, shard)


@examples(ordinary=6, whole=20)
@given(streams(), sizes, st.integers(1, 60), st.integers(1, 40), st.integers(0, 3))
def test_bounds_refuse_the_same_pages_and_patterns_as_the_twin(
    outcomes: list[Outcome], sizes: list[int], pages: int, host_pages: int, host_patterns: int
) -> None:
    """However the stream is cut: the decision is made outcome by outcome."""
    bounds = (pages, host_pages, host_patterns)
    scheduler = Scheduler(
        max_ahead=None, max_pages=pages, max_pages_per_host=host_pages, max_patterns_per_host=host_patterns
    )
    shard = reference_shard.Shard(DAY, bounds=bounds)
    observe_both(scheduler, shard, outcomes, sizes)
    assert_same(scheduler, shard)
    assert (scheduler.refused_pages, scheduler.refused_patterns) == (shard.refused_pages, shard.refused_patterns)


@pytest.mark.longer
def test_long_stream_over_many_groups_leaves_the_state_of_the_twin() -> None:
    """More pages than a step of the sweep has rows, groups that open between its steps, and dozens of sweeps."""
    visits = how_many(2_500, 5_000)
    batch = daily_crawl(pages=700, visits=visits, seed=1)
    scheduler, shard = Scheduler(max_ahead=None), reference_shard.Shard(DAY)
    observe_both(scheduler, shard, list(batch), [1_000, 1, 499])
    assert_same(scheduler, shard)
    assert shard.sweeps > 5
    assert len(shard.journal) > 0.9 * visits
    assert max(map(len, shard.groups)) == 2


@examples(ordinary=3, whole=10)
@given(streams(), sizes)
def test_journal_keeps_the_newest_visits(outcomes: list[Outcome], sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_arrays, "JOURNAL_VISITS", 16)
        scheduler, shard = Scheduler(max_ahead=None), reference_shard.Shard(DAY, journal_visits=16)
        observe_both(scheduler, shard, outcomes, sizes)
    assert_same(scheduler, shard)


def test_sample_is_halved_as_pages_double() -> None:
    """Twice: with the 50,001st and the 100,001st page; some pages are visited again after each."""
    urls = [f"https://{i % 7}.example/{i}" for i in range(110_000)]
    order = np.r_[0:60_000, 0:2_000, 60_000:110_000, 0:2_000]
    batch = OutcomeBatch([urls[i] for i in order], np.arange(order.size) + 1.0)
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(batch)
    hashes = [reference_shard.sample_hash(row) for row in range(len(urls))]
    shares = np.select([np.arange(order.size) < 50_000, np.arange(order.size) < 102_000], [1, 2], 4)
    kept = [i + 1.0 for i in range(order.size) if hashes[order[i]] < 2**64 // int(shares[i])]
    np.testing.assert_array_equal([visit.at_s for visit in journal_of(scheduler)], kept)
    assert scheduler.core.pages.faults() == []
    left = np.flatnonzero(np.array(hashes) < 2**62)
    shard = scheduler.core.pages.arrays
    assert find_sampled(0, 110_000, sample_bar(shard.corpus)).tolist() == left.tolist()
    assert set(read_visits(shard.journal, shard.corpus).rows) == set(left)


@examples(ordinary=4, whole=15)
@given(streams(), formulas, st.integers(0, 2**64 - 1), st.none() | st.integers(1, 3), panels, st.data())
def test_pages_are_handed_out_in_the_order_of_the_twin(
    outcomes: list[Outcome], formula: str, seed: int, per_host: int | None, share: float, data: st.DataObject
) -> None:
    # What rests is for the twin of politeness, shares of domains for that of the live ranking.
    politeness = Politeness(backoff=0, retire_after=None, per_batch=per_host)
    outcomes = [structs.replace(outcome, retry_after=None, not_before=None) for outcome in outcomes]
    scheduler = Scheduler(
        formula=formula,
        max_ahead=None,
        seed=seed,
        panel=share,
        politeness=politeness,
        new_share=0.0,
        host_share=None,
    )
    shard = reference_shard.Shard(DAY)
    panel = reference_shard.Panel(shard, share)
    now = 0.0
    for part in cut(outcomes, data.draw(sizes)):
        observe_both(scheduler, shard, part, [1000])
        now += data.draw(st.sampled_from([0.0, 3_600.0, 300 * 3_600.0]))
        known = dict(zip(shard.pages, scheduler.scores(now=now).tolist(), strict=True))
        order = reference_shard.full_sort({url: known[url] for url in shard.eligible(now)}, seed, int(now // DAY))
        k = data.draw(st.sampled_from([0, 1, 5, 40, 10_000]))
        first = panel.choose(k, now, per_host)
        batch = scheduler.next_batch(k, now=now, lease=3_600.0)
        panel.handed, panel.own = panel.handed + len(batch), panel.own + len(first)
        order = first + [url for url in order if url not in first]
        chosen = (order if per_host is None else reference_shard.at_most_per_host(order, per_host))[:k]
        assert batch.urls == chosen[: len(first)] + by_probability(scheduler, chosen[len(first) :], now)
        assert batch.panel == len(first)
        assert batch.hosts == [reference_shard.names_of(url)[0] for url in batch.urls]
        assert batch.scores.tolist() == pytest.approx([known[url] for url in batch.urls], rel=0, nan_ok=True)
        for url in batch.urls:
            shard.pages[url].lease(now, now + 3_600.0)
            shard.pages[url].for_panel = url in first


@examples(ordinary=4, whole=15)
@given(streams(), formulas, st.sampled_from([-9.9e10, 0.0, 1e6, 9.9e10]))
def test_terminals_and_scores_are_those_of_the_twin(outcomes: list[Outcome], formula: str, now: float) -> None:
    scheduler, shard = Scheduler(formula=formula, max_ahead=None), reference_shard.Shard(DAY)
    observe_both(scheduler, shard, outcomes, [1000])
    root = Formula.parse(formula).root
    ranked = scheduler.rank(len(scheduler), now=now)
    probabilities = dict(zip(ranked.urls, ranked.probabilities.tolist(), strict=True))
    for url in list(shard.pages)[:20]:
        expected = shard.terminals(url, now)
        if url in probabilities:
            assert probabilities[url] == pytest.approx(shard.probability(url, now), rel=1e-4, abs=1e-9)
        result = scheduler.explain(url, now=now)
        assert list(result.causes) == list(CAUSES)
        for cause, changes in shard.expected_changes(url, now).items():
            shown = result.causes[cause]
            assert math.exp(-shown.expected) == pytest.approx(math.exp(-changes), rel=1e-4, abs=1e-9)
            assert shown.weight == pytest.approx(shard.causes.weight(cause), rel=1e-6)
        assert set(expected) == set(PROVIDED)
        beats = {name: expected.pop(name) for name in SEASONAL}
        assert {name: result.terminals.pop(name) for name in SEASONAL} == pytest.approx(beats, rel=1e-4, abs=1e-9)
        significance = result.terminals.pop("significance")
        assert significance == pytest.approx(
            expected.pop("significance"), abs=5e-4
        )  # two steps, if the last bits differ
        assert result.terminals == pytest.approx(expected, rel=5e-7, abs=1e-15)
        result.terminals.update(scheduler.explain(url, now=now).terminals)
        assert result.score == pytest.approx(estimators.formula_value(root, result.terminals), rel=1e-9, nan_ok=True)
        assert result.pattern == "/".join(shard.pages[url].group) + "/" * (len(shard.pages[url].group) > 1)
