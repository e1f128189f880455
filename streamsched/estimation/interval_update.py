"""Update of the estimators by one observed interval: the page's, its group's and those of related pages.

Each cause of a change has an estimator of its own: the page itself, a surge that was shown, one that was not, a change
of a related page, signals. Cause j makes x_j = -ln(1 - p_j) changes expected since the last visit, and the probability
of a change is P = 1 - exp(-Σ w_j x_j). The weights w_j are learned from the visits of pages with a shadow, which all
pages of a small corpus have: a change found is divided among the causes, w_j x_j / P to each, and a weight is what was
found over what was expected, both fading and after a prior.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from streamsched.estimation.forgetting import fade_page, has_shadow, update_shadow
from streamsched.estimation.gamma_posterior import Announced, ObservedInterval, update_page
from streamsched.estimation.hierarchical_prior import count_first_interval, learn_shape, update_pattern_evidence
from streamsched.estimation.related_pages import is_claimed, own_probability, settle_claims, unclaimed
from streamsched.estimation.signal_update import has_source, settle_signals
from streamsched.estimation.surges import keep_window, share_not_told, update_surges
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import ALMOST_CERTAIN, expm1, log1p
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer

Causes: TypeAlias = tuple[float, float, float, float, float]
"""A number for each cause: the page itself, a surge that was shown, one that was not, a related page, signals."""

CAUSE_CHANGES: Final = 20.0  # prior of each weight: changes expected, all of them found
CAUSE_MEMORY: Final = 300.0  # time constant of the weights: the mean of changes expected and found
MOST_EXPECTED: Final = 30.0  # changes by one cause: more are no surer, and a clock error must not outweigh all visits
_LEAST: Final = 1e-12  # least probability that divides


@inlined_kernel
def update_estimators(
    shard: ShardArrays, row: int, observed: ObservedInterval, due: float, surges: bool, invalidated: InvalidationBuffer
) -> float:
    """Update the page's estimators, its group's counts and surges, and its claims by one observed interval.

    `due`: the probability of the change by the page's models of seasonality, NaN if unknown. Returns the probability
    that the page did not just follow a change of a related page.
    """
    corpus: Record = shard.corpus[0]
    page: Record = shard.pages.records[row]
    groups = shard.groups.records
    group: Record = groups[page.group]
    group.visits += 1
    group.changes += observed.changed
    heard = has_source(shard.pages, row)
    announced = settle_signals(shard, row, observed, due) if heard else Announced(1.0, 1.0, np.nan)
    own = part = unexplained = missed = 1.0
    if surges:
        apart = due  # the probability of a change by no surge
        link: Record = shard.seasonality.links[row]
        claimed = is_claimed(link)
        if claimed or heard:
            missed, alone = unclaimed(link), _alone(page, observed, due, announced)
            by_one = settle_claims(shard, row, observed, alone) if claimed else 0.0
            if observed.changed:
                apart = 1.0 - (1.0 - alone) * missed
                unexplained = alone / apart
                part = alone / (1.0 - (1.0 - alone) * (1.0 - by_one))
        keep_window(corpus, groups, invalidated, page, observed)
        if has_shadow(corpus, row):
            itself = due if np.isnan(announced.alone) else announced.alone
            expected = _expect_changes(page, group, observed, itself, missed, announced.spared)
            learn_weights(corpus, expected, observed.changed)
        own = update_surges(corpus, groups, invalidated, page, observed, apart) * part
    known = _known_part(own, observed, announced)
    _update_rates(shard, row, observed, own - known, announced.effective, known)
    return unexplained


@inlined_kernel
def cause_weight(corpus: Record, cause: int) -> float:
    """Return the weight of a cause, above 0. O(1)."""
    return float((CAUSE_CHANGES + corpus.cause_found[cause]) / (CAUSE_CHANGES + corpus.cause_expected[cause]))


@bare_kernel
def learn_weights(corpus: Record, expected: Causes, changed: bool) -> None:
    """Learn the weights of the causes from a visit, before which each made some changes expected. O(1)."""
    total = weighed = 0.0
    for cause in range(len(expected)):
        changes = min(expected[cause], MOST_EXPECTED)
        total += changes
        if changed:
            weighed += cause_weight(corpus, cause) * changes
    credit = 1.0 / max(0.0 - expm1(-weighed), _LEAST) if changed else 0.0
    kept = max(1.0 - (total + changed) * (0.5 / CAUSE_MEMORY), 0.0)
    for cause in range(len(expected)):
        changes = min(expected[cause], MOST_EXPECTED)
        found = credit * cause_weight(corpus, cause) * changes if changed else 0.0
        corpus.cause_found[cause] = corpus.cause_found[cause] * kept + found
        corpus.cause_expected[cause] = corpus.cause_expected[cause] * kept + changes


@bare_kernel
def _expect_changes(
    page: Record, group: Record, observed: ObservedInterval, due: float, unclaimed_: float, unsignalled_: float
) -> Causes:
    """Return how many changes by each cause were expected in an interval, in a window that has begun.

    `due`: the probability of a change by the page itself, NaN if its rate tells; the others: of none by related pages,
    and of none that signals announced.
    """
    itself = min(own_probability(page, observed, due), ALMOST_CERTAIN)
    unseen = group.hazard * min(max(observed.cycles, 0.0), LONGEST_INTERVAL)
    untold = share_not_told(group, page.last_visit_s, observed.end_s)
    return -log1p(-itself), -log1p(untold - 1.0), unseen, -log1p(unclaimed_ - 1.0), -log1p(unsignalled_ - 1.0)


@inlined_kernel
def _alone(page: Record, observed: ObservedInterval, due: float, announced: Announced) -> float:
    """Return the probability that the page itself changed, announced or not."""
    if np.isnan(announced.alone):
        return own_probability(page, observed, due)
    return 1.0 - (1.0 - announced.alone) * announced.spared


@inlined_kernel
def _known_part(own: float, observed: ObservedInterval, announced: Announced) -> float:
    """Return the probability that a change was the page's own and announced, so that its time is known."""
    if not observed.changed or announced.spared == 1.0:
        return 0.0
    return own * ((1.0 - announced.spared) / (1.0 - (1.0 - announced.alone) * announced.spared))


@inlined_kernel
def _update_rates(
    shard: ShardArrays, row: int, observed: ObservedInterval, own: float, effective: float, known: float
) -> None:
    """Update the estimators of rates by an interval: see `estimation.signal_update`.

    `own`: the probability that a change was the page's own and no signal announced it, `known`: that one did.
    """
    corpus: Record = shard.corpus[0]
    page: Record = shard.pages.records[row]
    quietly = ObservedInterval(observed.end_s, observed.cycles * effective, observed.cycle_s, observed.changed)
    update_pattern_evidence(corpus, shard.groups.records, page, quietly, own)
    if page.visits == 0:
        count_first_interval(shard, quietly, own)
    else:
        learn_shape(corpus, page, quietly, own)
    if has_shadow(corpus, row):
        update_shadow(shard.shadows[row // corpus.shadow_stride], corpus, page, observed, own, effective, known)
    counted = fade_page(page, corpus, observed)
    page.own_exposure += counted - counted * effective
    update_page(page, shard.pages.traces[row], counted * effective, observed.changed, own)
    page.own_shape += known
