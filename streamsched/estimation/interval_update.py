"""Update of the estimators by one observed interval: the page's, its group's and those of related pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.estimation.forgetting import fade_page, update_shadow
from streamsched.estimation.hierarchical_prior import count_first_interval, update_pattern_evidence
from streamsched.estimation.page_update import update_page
from streamsched.estimation.related.claims import is_claimed, unclaimed
from streamsched.estimation.related.related_pages import own_probability, settle_claims
from streamsched.estimation.surges import update_surges
from streamsched.numerics.jit import inlined_kernel

if TYPE_CHECKING:
    from streamsched.estimation.observed_interval import ObservedInterval
    from streamsched.numerics.arrays import Record
    from streamsched.records.schema import ShardArrays
    from streamsched.records.score_invalidation import InvalidationBuffer

__all__ = ["update_estimators"]


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
    own = part = unexplained = 1.0
    if surges:
        apart = due  # the probability of a change by no surge
        link: Record = shard.seasonality.links[row]
        if is_claimed(link):
            missed, alone = unclaimed(link), own_probability(page, observed, due)
            by_one = settle_claims(shard, row, observed, due)
            if observed.changed:
                apart = 1.0 - (1.0 - alone) * missed
                unexplained = alone / apart
                part = alone / (1.0 - (1.0 - alone) * (1.0 - by_one))
        own = update_surges(corpus, groups, invalidated, page, observed, apart) * part
    update_pattern_evidence(corpus, groups, page, observed, own)
    if page.visits == 0:
        count_first_interval(shard, observed, own)
    if row & (corpus.shadow_stride - 1) == 0:
        update_shadow(shard.shadows[row // corpus.shadow_stride], corpus, page, observed, own)
    counted = fade_page(page, corpus, observed)
    update_page(page, shard.pages.traces[row], counted, observed.changed, own)
    return unexplained
