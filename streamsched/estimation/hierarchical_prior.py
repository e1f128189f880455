"""The hierarchical prior of a page's change rate, page ← URL pattern ← host ← corpus, learned while outcomes come.

A page's rate is taken for a draw from Gamma(s, s / m): m is the mean of its group, s one shape for the whole corpus
that says how alike the pages of a group are. Both are learned by expectation-maximisation: a sweep goes through the
rows, a few for each observed interval, and sums what every page's posterior says now (the E step); when it has been
through, group means and the shape are renewed (the M step), each shrunk towards what stands above it. A page keeps
what its own visits added apart from its prior, and takes its group's present prior when it is created, with each
outcome, and when the sweep passes it: a renewed prior reaches every page within one sweep, those created long before
it too, and between these moments nothing that happens to other pages moves a page's score.

How far the means of URL patterns are trusted is learned as well, for each host: as far as they have foretold what
visits found better than what stands above them (Bayesian model averaging over their prequential likelihoods).

How far the sweep has come depends on the stream alone, not on how the stream was cut into batches.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.gamma_posterior import digamma, shape_of_log_gap
from streamsched.estimation.observed_interval import ObservedInterval
from streamsched.estimation.seasonality.group_profiles import refresh_link
from streamsched.estimation.seasonality.profile_fit import publish_profiles, sum_schedules
from streamsched.numerics.arrays import Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row
from streamsched.records.group_schema import GroupArrays
from streamsched.records.page_init import assign_prior
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL, PageArrays
from streamsched.records.schema import DirtyArrays
from streamsched.records.seasonality_schema import SeasonalityArrays
from streamsched.records.url_patterns import assign_deeper_group

__all__ = ["FIRST_SHAPE", "advance_sweep", "init_corpus", "refresh_prior", "update_pattern_evidence"]

FIRST_SHAPE: Final = 0.5  # before anything is learned: most pages change seldom, some often
FIRST_MEAN_PER_DAY: Final = 0.1  # change log of code, docs and news pages agree on this within a factor of ten
GROUP_STRENGTH: Final = 8.0  # pages that the group above counts for when a group's mean is learned
CORPUS_STRENGTH: Final = 8.0  # pages that FIRST_MEAN_PER_DAY counts for
SHAPE_STRENGTH: Final = 20.0  # pages that FIRST_SHAPE counts for: with few pages a shape is easily overrated
SWEEP_EVERY: Final = 16  # observed intervals between two steps of the sweep
SWEEP_ROWS: Final = 64  # rows a step: 4 for each interval, so a crawl of 5 % a cycle renews priors every 5 cycles
EDGE_STRIDE: Final = 4  # outcomes for each that the worth of URL patterns is learned from
EDGE_MEMORY: Final = 2_000.0  # of these, of one host, until what they said has faded to a third
GAP_STRIDE: Final = 4  # the shape needs a logarithm and a digamma a row: every fourth row is sample enough

_UNLIKELY: Final = 1e-300  # a change within no time at all must not count without end
_FIRST_GAP: Final = 1.2703628454614782  # ln s - digamma(s) at FIRST_SHAPE


def init_corpus(corpus: Records, cycle_s: float) -> None:
    """Set the CORPUS record to what is believed before the first outcome."""
    corpus["mean"] = corpus["first_mean"] = FIRST_MEAN_PER_DAY * cycle_s / 86_400.0
    corpus["shape"] = FIRST_SHAPE


@inlined_kernel
def refresh_prior(page: Record, corpus: Record, groups: Records) -> None:
    """Give a page the present prior of its group. O(1)."""
    assign_prior(page, corpus.shape, groups[page.group].mean)


@inlined_kernel
def advance_sweep(
    corpus: Record, pages: PageArrays, groups: GroupArrays, seasonality: SeasonalityArrays, dirty: DirtyArrays
) -> None:
    """Note one more observed interval, and move the sweep when it is due. O(1) amortised."""
    corpus.sweep_due += 1
    if corpus.sweep_due >= SWEEP_EVERY:
        corpus.sweep_due = 0
        _step(corpus, pages, groups, seasonality, dirty)


@inlined_kernel
def update_pattern_evidence(
    corpus: Record, groups: Records, page: Record, observed: ObservedInterval, own: float
) -> None:
    """Note which prior foretold better what a visit found: that of the page's URL pattern, or the one above it. O(1).

    The host keeps the log-likelihood ratio of the two, fading: the posterior odds that its patterns are worth anything.
    Where pages of a pattern change together, one bulk edit looks like many pages that change often, and the pattern
    foretells changes that do not come. Only every fourth outcome is asked; it costs two logarithms or more.
    """
    group: Record = groups[page.group]
    if group.depth == 0 or corpus.applied % EDGE_STRIDE != 0:
        return
    shape = corpus.shape
    above: Record = groups[group.parent]
    host: Record = groups[group.host]
    interval = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    quiet = -(shape + page.own_shape) * np.log1p(interval / (shape / group.own_mean + page.own_exposure))
    other = -(shape + page.own_shape) * np.log1p(interval / (shape / above.mean + page.own_exposure))
    if observed.changed:
        quiet, other = np.log(max(-np.expm1(quiet), _UNLIKELY)), np.log(max(-np.expm1(other), _UNLIKELY))
    host.log_odds += own * (quiet - other) - host.log_odds / EDGE_MEMORY


@bare_kernel
def _step(
    corpus: Record, pages: PageArrays, groups: GroupArrays, seasonality: SeasonalityArrays, dirty: DirtyArrays
) -> None:
    if corpus.sweep_row == 0:
        corpus.sweep_end = corpus.sorted  # pages that come from now on wait for the next, or it might never end
    stop = min(corpus.sweep_row + SWEEP_ROWS, corpus.sweep_end)
    for row in range(corpus.sweep_row, stop):
        _sum_page(corpus, pages, groups, seasonality, dirty, row)
    corpus.sweep_row = stop
    if stop == corpus.sweep_end:
        _renew(corpus, groups, seasonality, dirty)
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
    """Renew one page's prior, and add what the page says of its group and of the prior's shape."""
    page: Record = pages.records[row]
    group: Record = groups.records[page.group]
    mark_dirty_row(dirty, pages, seasonality, row)
    if group.recheck_until >= corpus.sweep:
        assign_deeper_group(groups, pages, dirty, row)
        group = groups.records[page.group]
    assign_prior(page, corpus.shape, group.mean)
    refresh_link(seasonality, row, page, corpus.sweep)
    sum_schedules(seasonality, row, corpus.sweep)
    if page.visits == 0:
        return
    shape = page.prior_shape + page.own_shape
    exposure = page.prior_exposure + page.own_exposure
    rate = shape / exposure
    mark_dirty_group(dirty, groups.records, np.int64(page.group))
    group.rate_sum += rate
    group.rate_count += 1.0
    if (row + corpus.sweep) % GAP_STRIDE == 0:
        corpus.gap_sum += rate / group.mean - 1.0 - (digamma(shape) - np.log(exposure) - np.log(group.mean))
        corpus.gap_count += 1.0


@bare_kernel
def _renew(corpus: Record, groups: GroupArrays, seasonality: SeasonalityArrays, dirty: DirtyArrays) -> None:
    """Learn the corpus' mean and shape, then every group's mean, from one sweep's sums; forget the sums. O(groups)."""
    records = groups.records
    for index in range(corpus.groups - 1, -1, -1):  # a group is opened after its parent: children come first here
        group: Record = records[index]
        mark_dirty_group(dirty, records, index)
        mark_dirty_group(dirty, records, np.int64(group.parent))
        if group.depth > 0:
            parent: Record = records[group.parent]
            parent.rate_sum += group.rate_sum
            parent.rate_count += group.rate_count
        else:
            corpus.rate_sum += group.rate_sum
            corpus.rate_count += group.rate_count
    corpus.mean = (CORPUS_STRENGTH * corpus.first_mean + corpus.rate_sum) / (CORPUS_STRENGTH + corpus.rate_count)
    gap = (SHAPE_STRENGTH * _FIRST_GAP + corpus.gap_sum) / (SHAPE_STRENGTH + corpus.gap_count)
    corpus.shape = shape_of_log_gap(gap)
    for index in range(corpus.groups):
        group = records[index]
        parent = records[group.parent]
        above = corpus.mean if group.depth == 0 else parent.mean
        group.own_mean = (GROUP_STRENGTH * above + group.rate_sum) / (GROUP_STRENGTH + group.rate_count)
        group.mean = group.own_mean
        if group.depth > 0:
            host: Record = records[group.host]
            trust = 1.0 / (1.0 + np.exp(-host.log_odds))
            group.mean = above * (group.own_mean / above) ** trust
        group.rate_sum = 0.0
        group.rate_count = 0.0
    corpus.rate_sum = 0.0
    corpus.rate_count = 0.0
    corpus.gap_sum = 0.0
    corpus.gap_count = 0.0
    if not seasonality.state[0].off:
        publish_profiles(seasonality, groups, corpus)
