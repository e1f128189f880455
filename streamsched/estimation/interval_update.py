"""Update of the estimators by one observed interval: the page's, its group's and those of related pages."""

from __future__ import annotations

import numpy as np

from streamsched.estimation.forgetting import fade_page, update_shadow
from streamsched.estimation.gamma_posterior import Announced, ObservedInterval, update_page
from streamsched.estimation.hierarchical_prior import count_first_interval, learn_shape, update_pattern_evidence
from streamsched.estimation.related_pages import is_claimed, own_probability, settle_claims, unclaimed
from streamsched.estimation.signal_update import has_source, settle_signals
from streamsched.estimation.surges import update_surges
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import inlined_kernel
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer


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
    own = part = unexplained = 1.0
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
        own = update_surges(corpus, groups, invalidated, page, observed, apart) * part
    known = _known_part(own, observed, announced)
    _update_rates(shard, row, observed, own - known, announced.effective, known)
    return unexplained


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
    if row & (corpus.shadow_stride - 1) == 0:
        update_shadow(shard.shadows[row // corpus.shadow_stride], corpus, page, observed, own, effective, known)
    counted = fade_page(page, corpus, observed)
    page.own_exposure += counted - counted * effective
    update_page(page, shard.pages.traces[row], counted * effective, observed.changed, own)
    page.own_shape += known
