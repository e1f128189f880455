"""The figures of all shards as those of one service: counts are added up, shares are weighed by what they are of.

What neither holds for is not known of the whole: the calibration error of a sample, and the share of unproven visits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

from msgspec import structs

from streamsched.api.answers import CalibrationView, ReliabilityBin, Sample, SignalSources, Stats
from streamsched.api.views import SourceReliability
from streamsched.http.endpoints.reading import MOST_SOURCES

LOOK_BACK: Final = 3  # periods before the first sample that is wanted, in which each shard has one

_SUMS: Final = ("pages", "waiting", "refused_pages", "refused_patterns", "batches", "handed_out")
_SAMPLE_SUMS: Final = ("pages", "leased", "waiting", "applied", "served", "hits", "handed_out", "state_bytes")
_AT: Final = attrgetter("at_s")


def merge_stats(shards: Sequence[Stats], every_s: float, since_s: float) -> Stats:
    """Return the figures of `shards`, one at least, as of one service; what is of a service's own is the first one's.

    ``started_s`` is the newest start: counts of a shard begin with it. `every_s`, `since_s`: of the samples.
    """
    calibration = merge_calibrations([one.calibration for one in shards])
    latest = _merge_sample(min(one.latest.at_s for one in shards), [one.latest for one in shards])
    return structs.replace(
        shards[0],
        **{name: _sum(shards, name) for name in _SUMS},
        started_s=max(one.started_s for one in shards),
        unproven_share=None,
        outcomes=_add_counts(one.outcomes for one in shards),
        signals=_add_counts(one.signals for one in shards),
        calibration=calibration,
        sample_every_s=every_s,
        latest=structs.replace(latest, calibration_error=calibration.error),
        samples=merge_samples([one.samples for one in shards], every_s, since_s),
    )


def merge_calibrations(shards: Sequence[CalibrationView]) -> CalibrationView:
    """Return the calibration over the visits of all `shards`. O(bins)."""
    ranges: dict[float, list[ReliabilityBin]] = {}
    for one in (one for shard in shards for one in shard.bins):
        ranges.setdefault(one.low, []).append(one)
    bins = [
        ReliabilityBin(
            low=low,
            high=same[0].high,
            visits=_sum(same, "visits"),
            predicted=sum(one.predicted for one in same),
            observed=_sum(same, "observed"),
        )
        for low, same in sorted(ranges.items())
    ]
    visits = sum(one.visits for one in bins)
    return CalibrationView(
        visits=visits,
        error=sum(abs(one.predicted - one.observed) for one in bins) / visits if visits else None,
        predicted=sum(one.predicted for one in bins) / visits if visits else None,
        observed=sum(one.observed for one in bins) / visits if visits else None,
        bins=bins,
    )


def merge_samples(shards: Sequence[Sequence[Sample]], every_s: float, since_s: float) -> list[Sample]:
    """Return samples of all `shards` together, later than `since_s`, at whole multiples of `every_s`. O(samples).

    Shards take theirs at times of their own: at each multiple that all of them have reached, the newest one of each
    shard counts. So a multiple has the same sample whenever it is asked for, if those of `LOOK_BACK` periods before
    `since_s` are given.
    """
    if not all(shards):
        return []
    first, last = max(samples[0].at_s for samples in shards), min(samples[-1].at_s for samples in shards)
    merged = [
        _merge_sample(at_s, [samples[bisect_right(samples, at_s, key=_AT) - 1] for samples in shards])
        for at_s in (every_s * step for step in range(math.ceil(first / every_s), math.floor(last / every_s) + 1))
    ]
    merged[1:] = [_with_hit_rate(one, before) for before, one in pairwise(merged)]
    return [one for one in merged if one.at_s > since_s]


def merge_sources(shards: Sequence[SignalSources]) -> SignalSources:
    """Return each kind of source of any shard, followed by its hosts with the most signals."""
    found: dict[str, dict[str | None, list[SourceReliability]]] = {}
    for one in (one for shard in shards for one in shard.sources):
        found.setdefault(one.kind, {}).setdefault(one.host, []).append(one)
    listed: list[SourceReliability] = []
    for of_kind in found.values():
        merged = map(_merge_source, of_kind.values())
        listed += sorted(merged, key=lambda one: (one.host is not None, -one.signals, one.host))[: 1 + MOST_SOURCES]
    return SignalSources(sources=listed)


def _merge_source(parts: Sequence[SourceReliability]) -> SourceReliability:
    """Return a source as all shards have seen it; its lateness is weighed by the changes that it has announced."""
    lateness_s = _mean((one.lateness_s, one.changes * (one.recall or 0.0)) for one in parts)
    return SourceReliability(
        kind=parts[0].kind,
        host=parts[0].host,
        signals=_sum(parts, "signals"),
        pages=_sum(parts, "pages"),
        precision=_mean((one.precision, one.checked) for one in parts),
        checked=sum(one.checked for one in parts),
        recall=_mean((one.recall, one.changes) for one in parts),
        changes=sum(one.changes for one in parts),
        lateness_s=parts[0].lateness_s if lateness_s is None else lateness_s,  # the prior's, as of all of them
    )


def _merge_sample(at_s: float, parts: Sequence[Sample]) -> Sample:
    sums: dict[str, Any] = {name: _sum(parts, name) for name in _SAMPLE_SUMS}
    drifted = [one.drifted for one in parts if one.drifted is not None]
    return Sample(
        at_s=at_s,
        **sums,
        lag=_sum_known(one.lag for one in parts),
        fetches=_add_counts(one.fetches for one in parts),
        outcomes_per_s=_sum_known(one.outcomes_per_s for one in parts),
        hit_rate=None,
        freshness=_mean((one.freshness, one.pages) for one in parts),
        calibration_error=None,
        image_age_s=max(one.image_age_s for one in parts),
        lock_wait_s=max(one.lock_wait_s for one in parts),
        drifted=any(drifted) if drifted else None,
    )


def _with_hit_rate(sample: Sample, before: Sample) -> Sample:
    served = sample.served - before.served
    return structs.replace(sample, hit_rate=(sample.hits - before.hits) / served) if served > 0 else sample


def _sum(parts: Iterable[Any], name: str) -> int:
    return sum(map(attrgetter(name), parts))


def _sum_known(values: Iterable[Any]) -> Any:
    """Return the sum, None if one of `values` is."""
    known = list(values)
    return None if None in known else sum(known)


def _mean(weighed: Iterable[tuple[float | None, float]]) -> float | None:
    """Return the mean of values with weights, of those that are known; None if they weigh nothing."""
    known = [(value, weight) for value, weight in weighed if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0.0 else None


def _add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for one in counts:
        total.update(one)  # which keeps what is 0
    return dict(total)
