"""Records of when in the week pages change: links of pages, schedules of pages, profiles of groups."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Hashes, Ints, Records

WEEK_HOURS: Final = 168
DAY_SETS: Final = 128  # sets of weekdays as bits, bit 0 Monday; the empty set is not used
KEY_KINDS: Final = 3  # ways in which names of pages may be related, see `records.related_schema`
MOST_PROFILES: Final = 1 << 16  # SEASONAL_LINK.profile has 16 bits
NO_GROUP: Final = 0xFFFFFFFF  # in PROFILE.group: the profile of all pages, or of a region

SEASONAL_LINK: Final = np.dtype(
    [
        ("profile", "<u2"),  # number of the page's profile
        ("significance", "<u2"),  # how much of the page its changes concern, see `estimation.content`
        ("schedule", "<u4"),  # number of the page's own schedule; 0: none
        ("quarters", "i1"),  # UTC offset of the page's region at the last visit, in quarters of an hour
        ("version", "u1"),  # which of the profile's two published versions the page uses, 0 or 1
        ("related", "<u2", KEY_KINDS),  # what related pages say of this one, bits named in `related_schema`
    ]
)
SCHEDULE: Final = np.dtype(
    [
        ("sets", "u1", DAY_SETS),  # misfit of each set of weekdays relative to the best, in 1/16 nat
        ("hours", "u1", 24),  # ... of each hour of the day
        ("parts", "u1", 4),  # ... of each quarter of the hour
        ("hours_updated", "u1"),  # hours with an update, in 1/16
        ("hours_quiet", "u1"),  # hours without
        ("log_odds", "<f4"),  # ln odds of the daily schedule against a Poisson rate; the page may change between them
        ("hourly_log_odds", "<f4"),  # ... of the hourly schedule
        (
            "log_evidence",
            "<f4",
        ),  # ln likelihood ratio of the daily schedule since the beginning: ln of an e-value
        ("hourly_log_evidence", "<f4"),
        ("first_change_s", "<u4"),  # the change from which gaps are counted, epoch seconds
        ("last_change_s", "<u4"),  # the last change seen
        ("gaps", "u1"),  # gaps between changes seen; of these:
        ("near_hour", "u1"),  # gaps of 1 hour, to within the interval between two visits
        ("near_day", "u1"),  # ... of 24 hours
        ("near_week", "u1"),
        ("spare", "u1", 6),
    ]
)
PROFILE: Final = np.dtype(
    [
        ("group", "<u4"),  # its group; NO_GROUP for the profile of a region, or of all pages
        ("region", "<u4"),  # the region in whose local time its hours are
        ("scheduled_sum", "<f8"),  # current sweep: sum of the probabilities that pages have schedules of their own
        ("scheduled_count", "<f8"),  # ... pages in the sum
        ("sets_sum", "<f4", DAY_SETS),  # ... sum of the pages' probabilities of each set of weekdays
        ("hours_sum", "<f4", 24),  # ... of each hour
        ("odds", "<f4", 2),  # published, two versions: odds that a page has a schedule of its own
        ("sets_rarity", "u1", 2 * DAY_SETS),  # ... how much rarer each set of weekdays is than the commonest, 1/16 nat
        ("hours_rarity", "u1", 2 * 24),  # ... each hour of the day
        ("changes", "<f8", WEEK_HOURS),  # up to this sweep: by local hour of the week from Monday, fading
        ("exposure", "<f8", WEEK_HOURS),  # page-hours observed, likewise
        # Current sweep, as differences from the hour before: ...
        ("changes_steps", "<f8", WEEK_HOURS),  # ... to add to an hour's changes, per unit of its weight
        ("exposure_steps", "<f8", WEEK_HOURS),  # ... to add to its exposure
        ("weekly_changes", "<f8"),  # ... to add to all hours, from intervals that reach into another week
        ("weekly_exposure", "<f8"),
        ("cumulative", "<u4", 2 * (WEEK_HOURS + 1)),  # published, two versions: sum of the weights before each hour
    ]
)
POOLED: Final = np.dtype(  # counts of a profile and of all below it
    [
        ("changes", "<f8", WEEK_HOURS),
        ("exposure", "<f8", WEEK_HOURS),
        ("scheduled_sum", "<f8"),
        ("scheduled_count", "<f8"),
        ("sets_sum", "<f8", DAY_SETS),
        ("hours_sum", "<f8", 24),
    ]
)
SEASONALITY: Final = np.dtype(
    [
        ("profiles", "<i8"),  # profiles in use; those of all pages and of the regions come first
        ("schedules", "<i8"),  # schedules in use, numbered from 1
        ("regions", "<i8"),
        ("newest_s", "<f8"),  # the latest visit
        ("published_s", "<f8"),  # ... when profiles were last published
        ("off", "<i8"),  # 1 if seasonality is not learned
        ("spare", "<i8"),  # always 1
    ]
)


class RegionClocks(NamedTuple):
    """The top-level domains of each region, and the regions' UTC offsets; region 0 is that of all other pages."""

    domains: Hashes  # uint64[domains]: hashes of their names
    regions: Ints  # int64[domains]
    first: Ints  # int64[regions + 1]: first of each region's clock changes
    switch_s: Floats  # float64[switches]: times of clock changes, ascending within a region, the first -inf
    quarters: Ints  # int64[switches]: UTC offset from then on, in quarters of an hour


class SeasonalityArrays(NamedTuple):
    """The arrays of seasonality; ``state[0]`` counts the profiles and schedules in use."""

    links: Records  # SEASONAL_LINK[rows]
    schedules: Records  # SCHEDULE[1 + most]; number 0 belongs to no page
    profiles: Records  # PROFILE[most]: of all pages, of each region, then of groups
    pooled: Records  # POOLED[most], working memory
    work: Floats  # float64[336], working memory
    of_group: npt.NDArray[np.uint32]  # uint32[groups]: number of the profile that a group's pages use
    state: Records  # SEASONALITY[1]
    calendar: RegionClocks
