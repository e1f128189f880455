"""The hierarchical prior of a page's change rate, page ← URL pattern ← host ← corpus, learned online.

A page's rate is a draw from Gamma(s, s / m): m is the mean of its group, s one shape for the whole corpus, which says
how alike the pages of a group are. A sweep goes through the rows, a few for each observed interval; at its end group
means are updated, each shrunk towards its parent's. What a page's own visits added, changes A and exposure B, is kept
apart from its prior. The mean is that at which the pages' posterior means (s + A) / (s/m + B) have the mean m: the sum
of A over that of B, each page weighted by 1 / (s/m + B). Expectation-maximisation, which averages posterior means, has
the same limit, but needs dozens of sweeps where pages have been seen for less than s/m. The shape is learned with each
visit after a page's first interval, by how well it predicted that visit.

Before a sweep has seen many pages, the mean comes from first intervals alone: each is one of the first that a page was
observed for, so which pages they are hardly depends on their rates. They are counted by length, with and without a
change, and the mean under which they are most likely is found whenever their number has doubled.

A page takes its group's current prior when it is created, with each outcome, and when the sweep passes it. So an
updated prior reaches every page within one sweep, and between these moments nothing that happens to other pages moves a
page's score. After the mean has moved far, the next sweep is a fast one.

The weight of URL patterns' means is learned for each host: by how much better than their parents' means they have
predicted visits (Bayesian model averaging over their prequential likelihoods).

The progress of the sweep depends on the stream alone, not on how the stream was cut into batches.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.estimation.content import refresh_significance
from streamsched.estimation.forgetting import learn_half_life
from streamsched.estimation.gamma_posterior import HIGHEST_SHAPE, LOWEST_SHAPE, ObservedInterval, mean_of_intervals
from streamsched.estimation.seasonality.group_profiles import refresh_link
from streamsched.estimation.seasonality.profile_fit import publish_profiles, sum_schedules
from streamsched.numerics.arrays import Record, Records
from streamsched.numerics.compilation.machine_operations import call, prefetch, prefetch_field
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import expm1, log, log1p
from streamsched.records.dirty_tracking import mark_adjusted_row, mark_dirty_group, mark_dirty_row
from streamsched.records.group_schema import SUMS_AT, GroupArrays
from streamsched.records.page_schema import FORGOTTEN, LONGEST_INTERVAL, SHORTEST_INTERVAL, PageArrays, assign_prior
from streamsched.records.schema import INTERVAL_OCTAVES, DirtyArrays, ShardArrays
from streamsched.records.seasonality_schema import SeasonalityArrays
from streamsched.records.url_patterns import assign_deeper_group

FIRST_SHAPE: Final = 0.5  # before anything is learned: most pages change seldom, some often
FIRST_MEAN_PER_DAY: Final = 0.1  # until `FIRST_INTERVALS`; change logs have 0.001 to 0.1
GROUP_STRENGTH: Final = 8.0  # pages that the parent's mean counts for when a group's mean is learned
CORPUS_STRENGTH: Final = 8.0  # pages that the mean of first intervals counts for
FIRST_INTERVALS: Final = 16  # first intervals from which a mean is learned, and each time that they have doubled
FIRST_STRENGTH: Final = 4.0  # intervals that FIRST_MEAN_PER_DAY counts for: all first ones may be of one quiet day
INTERVAL_SHAPE: Final = 2.0  # for that mean: between FIRST_SHAPE and pages of one rate; only fast changes need one
SHAPE_INFORMATION: Final = 1.0  # Fisher information that FIRST_SHAPE counts for: a standard deviation of a factor e
SWEEP_EVERY: Final = 16  # observed intervals between two steps of the sweep
FAST: Final = 16  # times SWEEP_ROWS a step of a fast sweep has
FAR: Final = 1.25  # factor by which the mean moves before the next sweep is a fast one
SWEEP_ROWS: Final = 64  # rows a step: 4 for each interval, so a crawl of 5 % a cycle renews priors every 5 cycles
EVIDENCE_STRIDE: Final = 4  # every fourth outcome updates the evidence on URL patterns
EVIDENCE_MEMORY: Final = 2_000.0  # time constant of that evidence, in such outcomes of one host
_PAGES_AHEAD: Final = 32  # rows between prefetching a page and the sweep's passing it
_GROUPS_AHEAD: Final = 8  # ... its group, which the page names

_DAY_S: Final = 86_400.0
_UNLIKELY: Final = 1e-300  # least likelihood of a change, so that one within no time does not count infinitely


def init_corpus(corpus: Records, cycle_s: float) -> None:
    """Set the CORPUS record to the priors before the first outcome."""
    corpus["mean"] = corpus["first_mean"] = FIRST_MEAN_PER_DAY * cycle_s / _DAY_S
    corpus["shape"] = FIRST_SHAPE
    corpus["shape_information"] = SHAPE_INFORMATION
    corpus["newest_s"] = -np.inf


@inlined_kernel
def refresh_prior(page: Record, corpus: Record, groups: Records) -> None:
    """Set a page's prior to the current one of its group. O(1)."""
    assign_prior(page, corpus.shape, groups[page.group].mean)


@inlined_kernel
def count_first_interval(shard: ShardArrays, observed: ObservedInterval, own: float) -> None:
    """Count the first observed interval of a page; learn the mean when their number has doubled. O(1) amortised.

    `own`: the probability that a change was the page's own.
    """
    corpus: Record = shard.corpus[0]
    cycles = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    octave = min(max(math.frexp(cycles)[1] + INTERVAL_OCTAVES // 2, 0), INTERVAL_OCTAVES - 1)
    changed = own if observed.changed else 0.0
    corpus.first_changed[octave] += changed
    corpus.first_unchanged[octave] += 1.0 - changed
    corpus.first_cycles[octave] += cycles
    corpus.first_count += 1
    if corpus.first_count >= FIRST_INTERVALS and corpus.first_count & (corpus.first_count - 1) == 0:
        _learn_first_mean(corpus, shard.groups, shard.dirty, observed.cycle_s)


@bare_kernel
def _learn_first_mean(corpus: Record, groups: GroupArrays, dirty: DirtyArrays, cycle_s: float) -> None:
    """Learn the mean of first intervals; all means move by as much if no sweep has seen half of them. O(groups)."""
    guess = FIRST_MEAN_PER_DAY * cycle_s / _DAY_S
    corpus.first_mean = mean_of_intervals(
        corpus.first_unchanged, corpus.first_changed, corpus.first_cycles, INTERVAL_SHAPE, guess, FIRST_STRENGTH
    )
    if corpus.first_count < 2 * corpus.swept_pages:
        return
    ratio = corpus.first_mean / corpus.mean
    _hurry(corpus, ratio)
    corpus.mean = corpus.first_mean
    for index in range(corpus.groups):
        mark_dirty_group(dirty, groups.records, index)
        group: Record = groups.records[index]
        group.mean *= ratio
        group.own_mean *= ratio


@inlined_kernel
def _hurry(corpus: Record, ratio: float) -> None:
    """Make the rest of this sweep fast, and the next one, if the mean moves by a factor `ratio` far from 1."""
    if not 1.0 / FAR <= ratio <= FAR:
        corpus.sweep_hurried = corpus.sweep + 2


@inlined_kernel
def advance_sweep(shard: ShardArrays, stepper: int) -> None:
    """Count one more observed interval, and move the sweep when it is due. O(1) amortised.

    `stepper`: the address of `step_sweep`.
    """
    corpus: Record = shard.corpus[0]
    corpus.sweep_due += 1
    if corpus.sweep_due >= SWEEP_EVERY:
        corpus.sweep_due = 0
        call(stepper, (shard,))


@inlined_kernel
def update_pattern_evidence(
    corpus: Record, groups: Records, page: Record, observed: ObservedInterval, own: float
) -> None:
    """Update the evidence on whether the mean of the page's URL pattern predicts better than its parent's. O(1).

    The host keeps the log-likelihood ratio of the two, decaying: the posterior odds that its patterns' means are
    useful. Where pages of a pattern change together, one bulk edit looks like many pages that change often, and the
    pattern predicts changes that do not come. Only every fourth outcome is used, because this costs a logarithm or
    more. `own`: the probability that the change was the page's own.
    """
    group: Record = groups[page.group]
    if corpus.applied % EVIDENCE_STRIDE != 0 or group.depth == 0:
        return
    shape, exposure = corpus.shape, page.own_exposure
    above: Record = groups[group.parent]
    host: Record = groups[group.host]
    interval = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    mean, mean_above = group.own_mean, above.mean
    scaled, scaled_above = shape + mean * exposure, shape + mean_above * exposure  # the posteriors' exposures · means
    expected, expected_above = mean * interval, mean_above * interval
    if observed.changed:
        gain = _log_chance(shape + page.own_shape, expected / scaled)
        gain -= _log_chance(shape + page.own_shape, expected_above / scaled_above)
    else:
        quiet = (scaled + expected) * scaled_above / (scaled * (scaled_above + expected_above))
        gain = -(shape + page.own_shape) * log(quiet)
    host.log_odds += own * gain - host.log_odds / EVIDENCE_MEMORY


@inlined_kernel
def learn_shape(corpus: Record, page: Record, observed: ObservedInterval, own: float) -> None:
    """Learn the shape by how well it predicts a visit: a step of the online natural gradient of its logarithm. O(1).

    With u and e the posterior's shape and exposure, m the prior's mean and L = ln(1 + t / e), no change within t has
    the log-likelihood -u L, whose derivative by ln s is u s t / (m e (e + t)) - s L. A step is that slope over the
    Fisher information so far, the sum of squared slopes: Ollivier (2018), "Online natural gradient as a Kalman filter".
    `own`: the probability that a change was the page's own. First intervals do not show how pages differ.
    """
    interval = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    logged = log1p(interval / exposure)
    slope = shape * page.prior_exposure / exposure * interval / (exposure + interval) - page.prior_shape * logged
    if observed.changed:
        slope *= 1.0 - own / max(0.0 - expm1(-shape * logged), _UNLIKELY)
    corpus.shape_information += slope * slope
    corpus.shape *= np.exp(slope / corpus.shape_information)
    corpus.shape = min(max(corpus.shape, LOWEST_SHAPE), HIGHEST_SHAPE)


@inlined_kernel
def _log_chance(shape: float, ratio: float) -> float:
    """Return the logarithm of the probability of a change, by a Gamma and an interval of `ratio` times its exposure."""
    return float(log(max(0.0 - expm1(-shape * log1p(ratio)), _UNLIKELY)))


@bare_kernel
def step_sweep(shard: ShardArrays) -> None:
    """Sum the next rows of the sweep; at its end, update the priors. O(rows of a step), O(groups) at the end."""
    corpus: Record = shard.corpus[0]
    pages, groups, seasonality, dirty = shard.pages, shard.groups, shard.seasonality, shard.dirty
    if corpus.sweep_row == 0:
        corpus.sweep_end = corpus.pages  # later pages wait for the next sweep, or this one might never end
    rows = FAST * SWEEP_ROWS if corpus.sweep < corpus.sweep_hurried else SWEEP_ROWS
    stop = min(corpus.sweep_row + rows, corpus.sweep_end)
    for row in range(corpus.sweep_row, stop):
        prefetch(pages.records, row + _PAGES_AHEAD)
        prefetch(seasonality.links, row + _PAGES_AHEAD)
        if row + _GROUPS_AHEAD < corpus.pages:
            soon: Record = pages.records[row + _GROUPS_AHEAD]
            prefetch(groups.records, np.int64(soon.group))
            prefetch_field(groups.records, np.int64(soon.group), SUMS_AT)
        _sum_page(corpus, pages, groups, seasonality, dirty, row)
    corpus.sweep_row = stop
    if stop == corpus.sweep_end:
        _update_priors(corpus, groups, seasonality, dirty)
        corpus.sweep_row = 0
        corpus.sweep += 1


@inlined_kernel
def _sum_page(
    corpus: Record,
    pages: PageArrays,
    groups: GroupArrays,
    seasonality: SeasonalityArrays,
    dirty: DirtyArrays,
    row: int,
) -> None:
    """Update one page's prior, and add its posterior to the sums of its group."""
    page: Record = pages.records[row]
    if page.rule == FORGOTTEN:
        return
    group: Record = groups.records[page.group]
    mark_adjusted_row(dirty, pages, seasonality, row)
    if corpus.sweep < group.recheck_before and row < group.recheck_rows:
        mark_dirty_row(dirty, pages, seasonality, row)
        assign_deeper_group(groups, pages, dirty, row)
        group = groups.records[page.group]
    assign_prior(page, corpus.shape, group.mean)
    refresh_link(seasonality, row, page, corpus.sweep)
    refresh_significance(seasonality.links[row], corpus, groups.records[group.host])
    sum_schedules(seasonality, row, corpus.sweep)
    if page.visits == 0:
        return
    weight = 1.0 / (page.prior_exposure + page.own_exposure)
    mark_dirty_group(dirty, groups.records, np.int64(page.group))
    corpus.sweep_pages += 1
    group.change_sum += page.own_shape * weight
    group.exposure_sum += page.own_exposure * weight


@bare_kernel
def _update_priors(corpus: Record, groups: GroupArrays, seasonality: SeasonalityArrays, dirty: DirtyArrays) -> None:
    """Learn the corpus' mean, then every group's mean, from one sweep's sums; reset the sums. O(groups)."""
    records = groups.records
    for index in range(corpus.groups - 1, -1, -1):  # parents have lower numbers: this visits children first
        group: Record = records[index]
        mark_dirty_group(dirty, records, index)
        mark_dirty_group(dirty, records, np.int64(group.parent))
        if group.depth > 0:
            parent: Record = records[group.parent]
            parent.change_sum += group.change_sum
            parent.exposure_sum += group.exposure_sum
        else:
            corpus.change_sum += group.change_sum
            corpus.exposure_sum += group.exposure_sum
    mean = (CORPUS_STRENGTH * corpus.first_mean + corpus.change_sum) / (CORPUS_STRENGTH + corpus.exposure_sum)
    _hurry(corpus, mean / corpus.mean)
    corpus.mean = mean
    for index in range(corpus.groups):
        group = records[index]
        parent = records[group.parent]
        above = corpus.mean if group.depth == 0 else parent.mean
        group.own_mean = (GROUP_STRENGTH * above + group.change_sum) / (GROUP_STRENGTH + group.exposure_sum)
        group.mean = group.own_mean
        if group.depth > 0:
            host: Record = records[group.host]
            weight = 1.0 / (1.0 + np.exp(-host.log_odds))
            group.mean = above * (group.own_mean / above) ** weight
        group.change_sum = 0.0
        group.exposure_sum = 0.0
    learn_half_life(corpus)
    corpus.swept_pages, corpus.sweep_pages = corpus.sweep_pages, 0
    corpus.change_sum = 0.0
    corpus.exposure_sum = 0.0
    if not seasonality.state[0].off:
        publish_profiles(seasonality, groups, corpus)
