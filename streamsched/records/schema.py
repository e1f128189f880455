"""One shard's state as fixed-size records: the counters of the whole, the visit journal, and all arrays together.

A page's score depends on its `PAGE` and `TRACE` records, the published surge fields of its group, and the profile and
schedule that its seasonal link names. It changes only with the clock, when one of these records is written to.

Only ingest, the page table, persistence, the digest and the ranking take `ShardArrays` whole. Everything else takes the
arrays that it reads or writes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np

from streamsched.numerics.arrays import Hashes, Ints, Records
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.records.group_schema import GROUP, GroupArrays
from streamsched.records.page_schema import PAGE, TRACE, PageArrays
from streamsched.records.related_schema import RelatedArrays
from streamsched.records.seasonality_schema import SCHEDULE, SEASONAL_LINK, SeasonalityArrays
from streamsched.records.signal_schema import SIGNAL, SignalArrays
from streamsched.records.trial_counts import CELLS
from streamsched.records.validators import BLOCK, ValidatorArrays

VISIT: Final = np.dtype(
    [
        ("at_s", "<f8"),  # end of the visit
        ("row", "<u4"),
        ("flags", "u1"),  # bits named in `visit_journal`
        ("spare", "u1", 3),
    ]
)
INTERVAL_OCTAVES: Final = 40  # of interval lengths that first intervals are counted in
HALF_LIVES: Final = 9  # half-lives of evidence that are compared: see `estimation.forgetting`
SHADOW_PAGES: Final = 1 << 11  # pages that they are compared on, at most; it halves whenever it would be more
SHADOW: Final = np.dtype(  # what a page's visits would have added to its prior under each half-life
    [("shape", "<f8", HALF_LIVES), ("exposure", "<f8", HALF_LIVES)]
)
# Records with their places, as `dirty_tracking` keeps them and increments hold them. All fields but the first have the
# names of `state.state_arrays.ARRAYS`.
OLD_ROW: Final = np.dtype(
    [
        ("row", "<u8"),
        ("pages", PAGE),
        ("traces", TRACE),
        ("lease_until_s", "<f8"),
        ("lease_s", "<f4"),
        ("links", SEASONAL_LINK),
        ("validators", "<u4"),
    ]
)
PRIOR: Final = np.dtype([("prior_shape", PAGE["prior_shape"]), ("prior_exposure", PAGE["prior_exposure"])])
OLD_ADJUSTED: Final = np.dtype([("row", "<u8"), ("pages", PRIOR), ("links", SEASONAL_LINK)])  # these fields of PAGE
OLD_GROUP: Final = np.dtype([("number", "<u8"), ("groups", GROUP)])
OLD_SIGNAL: Final = np.dtype([("row", "<u8"), ("signals", SIGNAL)])
OLD_CONTENT: Final = np.dtype([("row", "<u8"), ("contents", "<u8")])
OLD_SCHEDULE: Final = np.dtype([("number", "<u8"), ("schedules", SCHEDULE)])
OLD_TEXT: Final = np.dtype([("number", "<u8"), ("validator_texts", BLOCK)])
CAUSES: Final = (  # of a change
    "itself",  # the page's own rate and hours
    "shown_surge",  # that visits of its group have shown
    "unseen_surge",  # that none has shown
    "related",  # pages that changed
    "signals",
)
CORPUS: Final = np.dtype(
    [
        ("pages", "<i8"),  # rows in use
        ("groups", "<i8"),
        ("domains", "<i8"),  # registrable domains
        ("domain_pages", "<i8"),  # pages of all of them: rows in use but for forgotten pages
        ("day", "<i8"),  # the last one on which pages were handed out: days since 1970 ...
        ("day_visits", "<i8"),  # ... and how many were
        ("text_end", "<i8"),  # bytes of URL text
        ("names_end", "<i8"),  # bytes of group names
        ("journaled", "<i8"),  # visits ever written to the journal
        ("halvings", "<i8"),  # times that the share of sampled pages was halved
        ("applied", "<i8"),  # outcomes applied
        ("failures", "<i8"),  # of these, failed visits
        ("newest_s", "<f8"),  # newest of them, -inf before the first
        ("compared", "<f8"),  # visits after the first that reached the page, fading ...
        ("unproven", "<f8"),  # ... and their share without evidence, see `estimation.change_detection`
        ("refused_pages", "<i8"),  # outcomes and discoveries of unknown pages that `PageBounds` refused
        ("refused_patterns", "<i8"),  # new pages that a larger group took because of the bound on URL patterns
        ("sweep", "<i8"),  # completed sweeps: the epoch of the priors
        ("sweep_row", "<i8"),  # next row of the current sweep
        ("sweep_end", "<i8"),  # ... and its end: the pages at its beginning
        ("sweep_due", "<i8"),  # observed intervals since the sweep last advanced
        ("sweep_hurried", "<i8"),  # sweeps before this one are fast: pages still have priors of a mean far off
        ("swept_pages", "<i8"),  # pages with observed intervals that the last completed sweep passed ...
        ("sweep_pages", "<i8"),  # ... and the current one
        ("change_sum", "<f8"),  # current sweep: see `hierarchical_prior`
        ("exposure_sum", "<f8"),
        ("mean", "<f8"),  # prior mean rate of a page without other evidence
        ("shape", "<f8"),  # prior shape, of pages within their group ...
        ("shape_information", "<f8"),  # ... and the Fisher information on its logarithm
        ("first_mean", "<f8"),  # mean by the pages' first intervals alone
        ("first_count", "<i8"),  # first intervals so far
        ("first_unchanged", "<f8", INTERVAL_OCTAVES),  # ... without and with a change, by the octave of their lengths
        ("first_changed", "<f8", INTERVAL_OCTAVES),
        ("first_cycles", "<f8", INTERVAL_OCTAVES),  # ... and the sum of their lengths
        ("half_life", "<f8"),  # days in which the evidence of a page's visits fades to half
        ("half_life_fits", "<f8", HALF_LIVES),  # log-likelihoods of the half-lives compared, fading
        ("shadow_stride", "<i8"),  # rows from one page with a shadow to the next: a power of two
        ("surge_sum", "<f8"),  # sums of GROUP's fields of the same names; `group_days` of `surge_days`
        ("group_days", "<f8"),
        ("hits", "<f8"),
        ("page_days", "<f8"),
        ("significance", "<f8"),  # mean of the changes of known significance, see `estimation.content`
        ("significant", "<f8"),  # number of these changes, fading
        ("cause_expected", "<f8", len(CAUSES)),  # changes of visited pages that each cause made expect, fading ...
        ("cause_found", "<f8", len(CAUSES)),  # ... and those credited to it, see `estimation.interval_update`
        ("trial_salt", "<u8"),  # of the trial under way: see `trial_counts` ...
        ("trial_bar", "<u8"),  # ... pages with a smaller salted hash are the challenger's; 0: no trial
        ("trial_start_s", "<f8"),
        ("trial_round_s", "<f8"),  # length of a round
        ("trial_costs", "<f8", CELLS),  # of the visits, by round, arm and block ...
        ("trial_finds", "<f8", CELLS),  # ... and the importance of those that found a change
    ]
)


class DirtyArrays(NamedTuple):
    """The rows and groups written to since the last save, and their records before: see `dirty_tracking`."""

    rows: Hashes  # uint64[words]: one bit per row
    adjusted: Hashes  # uint64[words]: likewise, if only what OLD_ADJUSTED has was written to
    groups: Hashes  # uint64[words]: one bit per group
    old_rows: Records  # OLD_ROW[m]: of rows that a save in progress has not copied yet
    old_adjusted: Records  # OLD_ADJUSTED[a]: of the others
    old_schedules: Records  # OLD_SCHEDULE[s]: of those of these rows that have one
    old_signals: Records  # OLD_SIGNAL[m]: of the same rows; of length 0 if pages had no signals at the instant
    old_contents: Records  # OLD_CONTENT[m]: likewise, of length 0 if pages had no `content` at the instant
    old_texts: Records  # OLD_TEXT[k]: the blocks of the validators of these rows
    old_groups: Records  # OLD_GROUP[m]
    counts: Ints  # int64[9], positions named in `dirty_tracking`


class ShardArrays(NamedTuple):
    """All arrays of one shard, by owner; counts are in ``corpus[0]``."""

    pages: PageArrays
    groups: GroupArrays
    journal: Records  # VISIT[a power of two], a ring buffer
    shadows: Records  # SHADOW[m]: of every page whose row is a multiple of `shadow_stride`, in their order
    corpus: Records  # CORPUS[1]
    dirty: DirtyArrays
    seasonality: SeasonalityArrays
    related: RelatedArrays
    signals: SignalArrays
    validators: ValidatorArrays


class PageLookup(Protocol):
    """A table that finds pages by their URLs."""

    @property
    def arrays(self) -> ShardArrays:
        """The table's arrays."""
        ...

    def find(self, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], -1 for pages never seen."""
        ...
