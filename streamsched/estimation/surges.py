"""Surges: bulk edits and releases, which change many pages of one group at once.

A group is a URL pattern that enough pages share, or a host; each page belongs to its deepest. Surges of a group arrive
at a rate per day, and each hits a share of its pages. Time is cut into windows for each group, from a visit on. A page
that was last visited before a window began and is visited in it is evidence of whether the group was hit. The group
keeps the probability that a surge has hit each of `SHARES` of its pages. At the beginning of a window it is that of a
surge since the beginning of the window before. A visit multiplies each by its likelihood: a change has the probability
1 - q·(1 - s), no change q·(1 - s), where q is the probability that neither the page itself nor another surge has
changed it.

A window lasts a day, or a cycle if that is longer, while evidence gathers for a surge. One without suspicion ends after
a cycle: visits without a change before a surge would count against it.

Nothing tells a surge from pages that change often before the rates of a group's pages are known: a section whose pages
change every day would look as if a surge hit it each day, and its pages would never be credited with their changes. So
the probability of a surge in a new group begins at 0, and rises with the days for which the group has been observed.

The expected share is published: it applies at once to every page not visited since. A window with a surge is kept after
its end and still receives evidence.

The hazard is the rate, per page and day, of surges that are not shown when they hit. It has a Gamma posterior, learned
from every observed interval τ: no change has the likelihood e^(-hτ), a change 1 - q·e^(-hτ). So a change of a page that
changes anyway tells nothing. The rate of surges and the hazard are learned for each group, with that over all groups as
its prior. Both are per time, whatever the cycle.

The published share and the hazard move in steps; each step invalidates the scores of the group's pages: O(pages of the
group). A visit costs O(1).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.gamma_posterior import ObservedInterval
from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import expm1, log1p
from streamsched.records.group_schema import SURGE_SHARES
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_group

SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)  # midpoints of equal intervals: a uniform prior
FIRST_SURGES: Final = 1.0  # prior of how common surges are before any group is known: one surge ...
FIRST_DAYS: Final = 100.0  # ... in this many days of a group
GROUP_DAYS: Final = 100.0  # days of a group for which the frequency over all groups counts
NEW_DAYS: Final = 3.0  # days of a group after which its changes count half as evidence of surges, later more
FIRST_HITS: Final = 1.0  # prior of the hazard before any page is known: one page hit ...
FIRST_PAGE_DAYS: Final = 200.0  # ... in this many days of a page
GROUP_HITS: Final = 4.0  # pages hit for which the hazard over all groups counts in a group
MEMORY_DAYS: Final = 1_000.0  # time constant of the frequency and the hazard
FEWEST_PAGES: Final = 2  # of a group: a single page changes by itself
STEP: Final = 1 / 16  # least change of a share for which it is published again
LEAST_SHOWN: Final = 1 / 32  # least share published; the hazard counts lower ones
HAZARD_STEP: Final = 2.0**0.25  # least factor by which the hazard moves before it is published again

MEAN_SHARE: Final = math.fsum(SHARES) / len(SHARES)
_LEAST_DOUBT: Final = 1e-6  # least probability that there was no surge, so that it can recover
_UNLIKELIEST: Final = 1e-12  # least distance of the probability of a page's own change from 0 and 1
_DAYS_A_SECOND: Final = 1.0 / 86_400.0
_HIGHEST_HAZARD: Final = 0.99  # a cycle

assert len(SHARES) == SURGE_SHARES


class _Evidence(NamedTuple):
    """Evidence of a visit about surges: windows that may have hit the page.

    ``open_share``, ``kept_share``: expected shares, 0 if the window cannot have hit the page; ``open_shown``: the same
    if the share was published before the visit, else 0. That of the kept window was.
    """

    open_share: float
    kept_share: float
    open_shown: float


@inlined_kernel
def keep_window(
    corpus: Record, groups: Records, invalidated: InvalidationBuffer, page: Record, observed: ObservedInterval
) -> None:
    """Begin a window of a page's group at a visit if the open one has ended. O(1).

    Before a day is over, it ends once a surge in it is no more probable than it would be in a new window.
    """
    number = np.int64(page.group)
    group: Record = groups[number]
    since_s = abs(observed.end_s - group.open_s)  # a clock may have been set back
    if since_s >= observed.cycle_s and group.pages >= FEWEST_PAGES:
        days = since_s * _DAYS_A_SECOND
        if days >= 1.0 or unseen_surge_value(group) <= _expect_surge(corpus, group, days):
            _begin_window(corpus, group, invalidated, number, observed)


@inlined_kernel
def update_surges(
    corpus: Record,
    groups: Records,
    invalidated: InvalidationBuffer,
    page: Record,
    observed: ObservedInterval,
    due: float,
) -> float:
    """Update the surges of a page's group by an observed interval; the page's record is as before the visit. O(1).

    `due`: the probability of a change by the page's models of seasonality, NaN if unknown. Returns the probability that
    the page changed by itself, not by a surge alone: 1 if no change was seen. Frequent bulk changes are attributed to
    the pages: the more probable a surge is on any day, the more of what surges explain counts as the page's own.
    """
    number = np.int64(page.group)
    group: Record = groups[number]
    if group.pages < FEWEST_PAGES:
        return 1.0
    in_open = page.last_visit_s < group.open_s <= observed.end_s
    in_kept = page.last_visit_s < group.kept_s <= observed.end_s and group.kept_share > 0.0
    open_share = _expect(group.open_weights) if in_open else 0.0
    kept_share = _expect(group.kept_weights) if in_kept else 0.0
    was_shown = group.open_share > 0.0 and group.open_s < observed.end_s
    evidence = _Evidence(open_share, kept_share, open_share if was_shown else 0.0)
    own = 1.0
    if observed.changed:
        own = _attribute_change(corpus, group, page, observed, due, evidence)
        own += (1.0 - own) * (0.0 - expm1(-surge_frequency(corpus, group)))
    else:
        days = _count_days(observed)
        group.page_days += days
        corpus.page_days += days
        if in_open:
            _update_on_no_change(group.open_weights)
        if in_kept:
            _update_on_no_change(group.kept_weights)
    if in_open:
        group.open_unvisited -= min(group.open_unvisited, np.uint32(1))
        _publish_open(invalidated, number, group)
    if in_kept:
        group.kept_unvisited -= min(group.kept_unvisited, np.uint32(1))
        _publish_kept(invalidated, number, group)
    return own


@inlined_kernel
def share_not_hit(group: Record, last_visit_s: float) -> float:
    """Return the share of a group's pages last visited at that time that no published surge has hit since. O(1)."""
    # Both are read in any case, so that there is no branch to mispredict.
    open_share, kept_share = float(group.open_share), float(group.kept_share)
    untouched = 1.0 - (open_share if last_visit_s < group.open_s else 0.0)
    return untouched * (1.0 - (kept_share if last_visit_s < group.kept_s else 0.0))


@inlined_kernel
def share_not_told(group: Record, last_visit_s: float, at_s: float) -> float:
    """Return what `share_not_hit` was when a visit at `at_s` was chosen; its window has begun. O(1).

    Of the window kept it is that before all visits of the open one: those that were chosen together refute a surge one
    after another, so the last of them would not know what they were chosen by.
    """
    told = float(group.told_share) if last_visit_s < group.kept_s else 0.0
    return (1.0 - told) * (1.0 - (float(group.open_share) if last_visit_s < group.open_s < at_s else 0.0))


@inlined_kernel
def surge_frequency(corpus: Record, group: Record) -> float:
    """Return how many surges of a group are expected per day. O(1)."""
    days = FIRST_DAYS + corpus.group_days  # the mean over all groups is (FIRST_SURGES + surge_sum) / days
    surges_ = GROUP_DAYS * (FIRST_SURGES + corpus.surge_sum) + group.surge_sum * days
    return float(surges_ / (days * (GROUP_DAYS + group.surge_days)))


@inlined_kernel
def unseen_surge_value(group: Record) -> float:
    """Return the probability that the open window of a group has a surge, by the visits so far. O(1)."""
    return 1.0 - _doubt(group.open_weights)


@inlined_kernel
def _expect_surge(corpus: Record, group: Record, days: float) -> float:
    """Return the probability of a surge of a group within `days`, before any visit. O(1)."""
    known = group.surge_days / (NEW_DAYS + group.surge_days)
    return float(known * (0.0 - expm1(-surge_frequency(corpus, group) * days)))


@inlined_kernel
def _count_days(observed: ObservedInterval) -> float:
    """Return the length of an observed interval in days; a clock error counts as a long one."""
    return float(min(max(observed.cycles, SHORTEST_INTERVAL) * observed.cycle_s * _DAYS_A_SECOND, MEMORY_DAYS))


@bare_kernel
def _begin_window(
    corpus: Record, group: Record, invalidated: InvalidationBuffer, number: int, observed: ObservedInterval
) -> None:
    """Begin a window of a group at a visit, after learning from the one before."""
    days = observed.cycle_s * _DAYS_A_SECOND
    if group.open_s > -np.inf:
        days = min(abs(observed.end_s - group.open_s) * _DAYS_A_SECOND, MEMORY_DAYS)
        _end_window(corpus, invalidated, number, group, days)
    per_day = (GROUP_HITS + group.hits) / (_prior_days(corpus) + group.page_days)
    hazard = min(per_day * (observed.cycle_s * _DAYS_A_SECOND), _HIGHEST_HAZARD)
    if not group.hazard <= hazard * HAZARD_STEP or not hazard <= group.hazard * HAZARD_STEP:
        group.hazard = hazard
        invalidate_group(invalidated, number, np.inf)
    chance = _expect_surge(corpus, group, days)
    for i in range(SURGE_SHARES):
        group.open_weights[i] = chance * (1.0 / SURGE_SHARES)
    group.open_s = observed.end_s
    group.open_share = 0.0
    group.open_unvisited = group.pages
    group.told_share = group.kept_share


@inlined_kernel
def _end_window(corpus: Record, invalidated: InvalidationBuffer, number: int, group: Record, days: float) -> None:
    """Learn from the open window how common surges are, and keep it if it weighs no less than the one kept.

    A window weighs its published share times the pages not visited since it began. `days`: since it began.
    """
    fading = days / MEMORY_DAYS
    surges_, seen_days = 1.0 - _doubt(group.open_weights) - fading * group.surge_sum, days - fading * group.surge_days
    group.surge_sum += surges_
    group.surge_days += seen_days
    corpus.surge_sum = max(corpus.surge_sum + surges_, 0.0)
    corpus.group_days = max(corpus.group_days + seen_days, 0.0)
    _add_hits(corpus, group, -fading * group.hits, -fading * group.page_days)
    if group.open_share == 0.0:
        return
    if group.kept_share * float(group.kept_unvisited) > group.open_share * float(group.open_unvisited):
        invalidate_group(invalidated, number, group.open_s)
        return
    if group.kept_share > 0.0:
        invalidate_group(invalidated, number, group.kept_s)
    group.kept_s, group.kept_share, group.kept_unvisited = group.open_s, group.open_share, group.open_unvisited
    for i in range(SURGE_SHARES):
        group.kept_weights[i] = group.open_weights[i]


@bare_kernel
def _attribute_change(
    corpus: Record, group: Record, page: Record, observed: ObservedInterval, due: float, evidence: _Evidence
) -> float:
    """Update the windows and the hazard by a change; return the probability that the page changed by itself."""
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    interval = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    own = 0.0 - expm1(-shape * log1p(interval / exposure)) if np.isnan(due) else due
    own = min(max(own, _UNLIKELIEST), 1.0 - _UNLIKELIEST)
    shown = (1.0 - evidence.open_shown) * (1.0 - evidence.kept_share)
    hit = _learn_hazard(corpus, group, _count_days(observed), 1.0 - (1.0 - own) * shown)
    quiet = (1.0 - own) * (1.0 - hit)
    if evidence.open_share > 0.0:
        _update_on_change(group.open_weights, quiet * (1.0 - evidence.kept_share))
    if evidence.kept_share > 0.0:
        _update_on_change(group.kept_weights, quiet * (1.0 - evidence.open_share))
    return float(own / (1.0 - quiet * (1.0 - evidence.open_share) * (1.0 - evidence.kept_share)))


@inlined_kernel
def _prior_days(corpus: Record) -> float:
    """Return the days of a page in which `GROUP_HITS` are expected, by the hazard over all groups."""
    return float(GROUP_HITS * (FIRST_PAGE_DAYS + corpus.page_days) / (FIRST_HITS + corpus.hits))


@inlined_kernel
def _learn_hazard(corpus: Record, group: Record, days: float, other: float) -> float:
    """Update the hazard by a change within `days`; return the probability that a surge hit the page in that time.

    `other`: the probability that something else changed the page. The posterior is proportional to
    Gamma(h; a, b)·(1 - (1 - other)·e^(-h·days)); match its mean and variance.
    """
    shape = GROUP_HITS + group.hits
    exposure = _prior_days(corpus) + group.page_days
    ratio = days / exposure
    hit = 0.0 - expm1(-shape * log1p(ratio))
    alone = (1.0 - other) * (1.0 - hit)  # P(no change): 1 - alone is free of cancellation below
    share = ratio / (1.0 + ratio)
    missed = alone * share / (other + (1.0 - other) * hit)
    once = 1.0 + missed  # the mean, over that before
    spread = (shape + 1.0) * (
        1.0 + missed * (2.0 - share)
    ) - shape * once * once  # the variance, over shape / exposure²
    if spread > 0.0:
        faster = once / spread
        _add_hits(corpus, group, shape * (once * faster - 1.0), exposure * (faster - 1.0))
    return float(hit)


@inlined_kernel
def _add_hits(corpus: Record, group: Record, hits: float, days: float) -> None:
    """Add to what a group, and all groups together, know of the hazard; no sum falls below 0."""
    hits, days = max(hits, -float(group.hits)), max(days, -group.page_days)
    group.hits += hits
    group.page_days += days
    corpus.hits = max(corpus.hits + hits, 0.0)
    corpus.page_days = max(corpus.page_days + days, 0.0)


@inlined_kernel
def _update_on_no_change(weights: Floats) -> None:
    """Apply Bayes' rule to a visit that found no change."""
    total = _doubt(weights)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - SHARES[i])
    scale = 1.0 / total  # of several divisions, one
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - SHARES[i]) * scale


@inlined_kernel
def _update_on_change(weights: Floats, quiet: float) -> None:
    """Apply Bayes' rule to a change; `quiet`: the probability that nothing else would have changed the page."""
    total = _doubt(weights) * (1.0 - quiet)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - quiet * (1.0 - SHARES[i]))
    scale = 1.0 / total
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - quiet * (1.0 - SHARES[i])) * scale


@inlined_kernel
def _doubt(weights: Floats) -> float:
    """Return the probability that there was no surge."""
    doubt = 1.0
    for i in range(SURGE_SHARES):
        doubt -= weights[i]
    return max(doubt, _LEAST_DOUBT)


@inlined_kernel
def _expect(weights: Floats) -> float:
    """Return the expected share of the group's pages hit."""
    expected = 0.0
    for i in range(SURGE_SHARES):
        expected += weights[i] * SHARES[i]
    return expected


@inlined_kernel
def _publish_open(invalidated: InvalidationBuffer, number: int, group: Record) -> None:
    """Publish the open window's share if it has moved far enough."""
    share = _choose_share(_expect(group.open_weights), group.hazard, group.open_share)
    if share != group.open_share:
        group.open_share = share
        invalidate_group(invalidated, number, group.open_s)


@inlined_kernel
def _publish_kept(invalidated: InvalidationBuffer, number: int, group: Record) -> None:
    """Publish the kept window's share if it has moved far enough."""
    share = _choose_share(_expect(group.kept_weights), group.hazard, group.kept_share)
    if share != group.kept_share:
        group.kept_share = share
        invalidate_group(invalidated, number, group.kept_s)


@inlined_kernel
def _choose_share(expected: float, hazard: float, share: float) -> np.float32:
    """Return the share to publish, given the expected one and the one published now."""
    spared = 1.0 - hazard
    excess = expected - hazard  # times the share that the hazard spares
    if abs(excess - share * spared) > STEP * spared or (share > 0.0 and excess < LEAST_SHOWN * spared):
        return np.float32(excess / spared if excess >= LEAST_SHOWN * spared else 0.0)
    return np.float32(share)
