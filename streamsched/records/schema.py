"""The layout of a shard's state: what a page, a group of pages and the corpus remember, as fixed-size records.

A page is 64 bytes (`PAGE`) and 40 of what scoring seldom reads (`TRACE`). All that a score reads of a page stands in
these two, its prior as well, in what its group shows of surges, and in `SeasonalityArrays`: of when in the week pages
change, a page's link names what it goes by. So a score moves only with the clock, when something is done to that very
page, or when its group shows something else. Rows of both are given out in the order in which pages are first seen, and
never move or end.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Floats, Hashes, Ints, Records
from streamsched.numerics.packed_urls import PackedUrls

__all__ = [
    "BY_SETTINGS",
    "CORPUS",
    "DAY_SETS",
    "FOR_PANEL",
    "GROUP",
    "LEASED",
    "LONGEST_INTERVAL",
    "MEMBER_LINK",
    "NO_GROUP",
    "OLD_GROUP",
    "OLD_LINK",
    "OLD_ROW",
    "OLD_SCHEDULE",
    "OUT",
    "PAGE",
    "POOLED",
    "PROFILE",
    "SCHEDULE",
    "SEASONALITY",
    "SEASONAL_LINK",
    "SHORTEST_INTERVAL",
    "SUCCEEDED",
    "SURGE_SHARES",
    "TRACE",
    "URGENT",
    "VISIT",
    "VISITED",
    "WEEK_HOURS",
    "WITH_FINGERPRINT",
    "DirtyArrays",
    "GroupArrays",
    "PageArrays",
    "PageLookup",
    "RegionClocks",
    "SeasonalityArrays",
    "ShardArrays",
]

# Bits of PAGE.flags.
VISITED: Final = 1  # some visit told what the page holds; until then last_visit_s is when the page became known
SUCCEEDED: Final = 2  # the last such visit answered below 400
WITH_FINGERPRINT: Final = 4  # TRACE.fingerprint is that of the content last seen
LEASED: Final = 8  # handed out; the lease column says until when
FOR_PANEL: Final = 16  # as well as LEASED: not for its score, so its outcome says nothing of the formula
OUT: Final = 32  # as well as LEASED: its host counts it among its pages that are out
URGENT: Final = 64  # asked for: to be visited once whatever its score

BY_SETTINGS: Final = 0xFFFF  # in GROUP.most_out and GROUP.most_batch: what the settings say of all hosts

# Bounds of a time in cycles, as learned from and as scored. Beyond them lie clock errors: without the one a rate could
# become infinite, without the other an exposure, and NaN would spread from one page's prior to every page.
SHORTEST_INTERVAL: Final = 1e-12
LONGEST_INTERVAL: Final = 1e15

SURGE_SHARES: Final = 5  # shares of a group's pages that a surge may hit, as `surges` has them

WEEK_HOURS: Final = 168
DAY_SETS: Final = 128  # sets of days of the week, bit 0 Monday; the empty one is none
NO_GROUP: Final = 0xFFFFFFFF  # in PROFILE.group: of no group, but of all pages or those of a region

PAGE: Final = np.dtype(
    [
        ("last_visit_s", "<f8"),  # end of the last visit that could show a change
        ("own_shape", "<f8"),  # what the page's visits added to the Gamma prior's shape
        ("own_exposure", "<f8"),  # ... and to its exposure, in cycles
        ("url_hash", "<u8"),
        ("visits", "<u4"),  # n of SPEC 3: visits after the first that could show a change
        ("changes", "<u4"),  # X: those that did
        ("group", "<u4"),  # deepest group the page belongs to
        ("prior_shape", "<f4"),  # the Gamma prior the page was last given, by `page_init.give_prior`
        ("prior_exposure", "<f4"),  # ... in cycles
        ("importance", "<f4"),
        ("cost", "<f4"),
        ("failures", "u1"),  # failed visits since the last one that told something, 255 for more
        ("gone", "u1"),  # answers of 404 or 410 since the last other one that told something, 255 for more
        ("flags", "u1"),
        ("rule", "u1"),  # number of the page's rule in `politeness.Limits`, 0 for the settings
    ]
)
TRACE: Final = np.dtype(
    [
        ("url_span", "<u8"),  # start in the text << 16 | length
        ("last_outcome_s", "<f8"),  # newest outcome of any kind, -inf before the first
        ("fingerprint", "<u8"),
        ("history", "<u8"),  # change flags of the last 64 visits, bit 0 the newest
        ("weighted_changes", "<f8"),  # sum of i * I_i over visits i = 1..n
    ]
)
GROUP: Final = np.dtype(
    [
        ("key", "<u8"),  # hash of the name
        ("name_span", "<u8"),  # start in the names << 16 | length
        ("mean", "<f8"),  # prior mean of a page's rate, changes per cycle
        ("learned", "<f8"),  # what the group's own pages would have it be; mean lies between the parent's and this
        ("edge", "<f8"),  # of a host: by how much its URL patterns' means foretold better than what stands above them
        ("rate_sum", "<f8"),  # this sweep: posterior means of the group's pages
        ("rate_count", "<f8"),  # this sweep: pages summed
        ("visits", "<u8"),
        ("changes", "<u8"),
        ("pages", "<u4"),  # pages whose deepest group this is
        ("parent", "<u4"),  # a host is its own parent
        ("host", "<u4"),
        ("recheck_until", "<u4"),  # sweep up to which pages may still belong deeper
        ("ready_s", "<f8"),  # this and all below of a host alone: no visits before
        ("delay_s", "<f4"),  # least time between two visits, NaN for the settings'
        ("out", "<u4"),  # pages out on lease
        ("most_out", "<u2"),  # ... at the most
        ("most_batch", "<u2"),  # pages in a batch at the most
        ("consecutive_429s", "u1"),  # times in a row that it answered 429
        ("why", "u1"),  # it rests until ready_s, as `politeness` names it
        ("depth", "u1"),  # path segments in the name
        ("asked", "u1"),  # 1 where it asked for a rest since it was last given visits, whatever it rests for
        # What `surges` learns: of the present window, and of an earlier one whose surge pages may still bear.
        ("open_s", "<f8"),  # begin of the present window, -inf before the first
        ("kept_s", "<f8"),  # ... and of the earlier one, -inf for none
        ("open_shown", "<f4"),  # share of the group's pages that a surge has hit, as rankings are told; 0 for none
        ("kept_shown", "<f4"),
        ("hazard", "<f4"),  # share that surges hit unseen, a cycle, as rankings are told
        ("open_left", "<u4"),  # pages that bear the window's surge, if any, still: not visited since
        ("kept_left", "<u4"),
        ("surge_sum", "<f4"),  # windows over: their probabilities of a surge ...
        ("window_count", "<f4"),  # ... how many they are, fading
        ("missed_sum", "<f4"),  # ... and the shares hit in those that showed no surge
        ("open_weights", "<f4", SURGE_SHARES),  # probability that a surge has hit that share of the pages
        ("kept_weights", "<f4", SURGE_SHARES),
    ]
)
MEMBER_LINK: Final = np.dtype([("before", "<u4"), ("after", "<u4")])  # `chains`: rows plus 1, 0 for none. Not saved.
VISIT: Final = np.dtype(
    [
        ("at_s", "<f8"),  # its end
        ("row", "<u4"),
        ("flags", "u1"),  # as `journal` names them
        ("spare", "u1", 3),
    ]
)
OLD_ROW: Final = np.dtype([("row", "<u8"), ("page", PAGE), ("trace", TRACE), ("lease_until_s", "<f8")])
OLD_GROUP: Final = np.dtype([("number", "<u8"), ("group", GROUP)])
CORPUS: Final = np.dtype(
    [
        ("pages", "<i8"),  # rows given out
        ("groups", "<i8"),
        ("text_end", "<i8"),  # bytes of URL text
        ("names_end", "<i8"),  # bytes of group names
        ("journaled", "<i8"),  # visits ever written to the journal
        ("halvings", "<i8"),  # of the share of pages whose visits are
        ("sorted", "<i8"),  # rows already sorted into groups: all that the stream has reached
        ("applied", "<i8"),  # outcomes applied
        ("failures", "<i8"),  # of these, failed visits
        ("sweep", "<i8"),  # sweeps finished: the epoch of the priors
        ("sweep_row", "<i8"),  # where the present sweep stands
        ("sweep_end", "<i8"),  # ... and ends: the pages that there were when it began
        ("sweep_due", "<i8"),  # observed intervals since the sweep last moved
        ("rate_sum", "<f8"),  # this sweep: sum and count of the pages' posterior means
        ("rate_count", "<f8"),
        ("gap_sum", "<f8"),  # this sweep: what the prior's shape is learned from
        ("gap_count", "<f8"),
        ("mean", "<f8"),  # prior mean rate of a page of which nothing else is known
        ("shape", "<f8"),  # prior shape, of pages within their group
        ("first_mean", "<f8"),  # the mean to begin with
    ]
)


SEASONAL_LINK: Final = np.dtype(
    [
        ("profile", "<u4"),  # number of the profile the page goes by
        ("schedule", "<u4"),  # number of its own schedule, 0 for none
        ("quarters", "i1"),  # its region's clock at the last visit: quarters of an hour before UTC
        ("age", "u1"),  # which of the profile's two published states it goes by, 0 or 1
        ("spare", "u1", 2),
    ]
)
SCHEDULE: Final = np.dtype(
    [
        ("sets", "u1", DAY_SETS),  # by how much each set of weekdays, as bits, fits worse than the best, in 1/16 nat
        ("hours", "u1", 24),  # ... each hour of the day
        ("parts", "u1", 4),  # ... each quarter of the hour
        ("marks_yes", "u1"),  # hours with an update, in 1/16
        ("marks_no", "u1"),
        ("edge", "<f4"),  # ln of the odds of the schedule by days against a rate, by what visits found; it may change
        ("hourly_edge", "<f4"),  # ... of that by hours
        ("proof", "<f4"),  # ln of how much likelier it made all that visits found since the beginning
        ("hourly_proof", "<f4"),
        ("begun_s", "<u4"),  # the change that the gaps are counted from, epoch seconds
        ("changed_s", "<u4"),  # the last change seen
        ("gaps", "u1"),  # between changes seen; of these:
        ("near_hour", "u1"),  # as long as 1 hour, within the time between two visits
        ("near_day", "u1"),  # ... 24 hours
        ("near_week", "u1"),
        ("spare", "u1", 6),
    ]
)
PROFILE: Final = np.dtype(
    [
        ("group", "<u4"),  # whose pages it is of; ANYONE for those of a region, or all
        ("region", "<u4"),  # whose clock its hours go by
        ("trust_sum", "<f8"),  # this sweep: how likely pages' own schedules are
        ("trust_count", "<f8"),  # ... pages that have one
        ("sets_sum", "<f4", DAY_SETS),  # ... on which sets of weekdays they are updated
        ("hours_sum", "<f4", 24),  # ... at which hour
        ("odds", "<f4", 2),  # published, twice: odds that a page has a schedule of its own
        ("sets_told", "u1", 2 * DAY_SETS),  # by how much each set of weekdays is rarer than the commonest, in 1/16 nat
        ("hours_told", "u1", 2 * 24),  # ... each hour of the day
        ("changes", "<f8", WEEK_HOURS),  # up to this sweep: by local hour of the week from Monday, fading
        ("exposure", "<f8", WEEK_HOURS),  # page-hours watched, likewise
        (
            "shares",
            "<f8",
            WEEK_HOURS,
        ),  # this sweep: what is to be added to an hour's changes for each unit of its weight
        ("watches", "<f8", WEEK_HOURS),  # ... to its exposure; both as differences from the hour before
        ("weekly_share", "<f8"),  # ... and for all hours, where intervals reached into another week
        ("weekly_watch", "<f8"),
        ("told", "<u4", 2 * (WEEK_HOURS + 1)),  # published, twice: sums of the hours' weights before each hour
    ]
)
POOLED: Final = np.dtype(
    [
        ("changes", "<f8", WEEK_HOURS),  # of the profile's own pages and of all below
        ("exposure", "<f8", WEEK_HOURS),
        ("trust_sum", "<f8"),
        ("trust_count", "<f8"),
        ("sets_sum", "<f8", DAY_SETS),
        ("hours_sum", "<f8", 24),
    ]
)
SEASONALITY: Final = np.dtype(
    [
        ("profiles", "<i8"),  # profiles given out; those of all pages and of the regions are the first
        ("schedules", "<i8"),  # schedules given out, numbered from 1
        ("regions", "<i8"),
        ("newest_s", "<f8"),  # the latest visit
        ("renewed_s", "<f8"),  # ... when profiles were published last
        ("off", "<i8"),  # 1 where rhythms are not learned
        ("linked", "<i8"),  # 1 once pages have links: 0 in states that were saved before there were any
    ]
)
OLD_LINK: Final = np.dtype([("row", "<u8"), ("link", SEASONAL_LINK), ("schedule", SCHEDULE)])
OLD_SCHEDULE: Final = np.dtype([("number", "<u8"), ("schedule", SCHEDULE)])


class RegionClocks(NamedTuple):
    """Which top-level domains belong to a region, and the regions' clocks, by region: number 0 is all other pages'."""

    domains: Hashes  # uint64[domains]: hashes of their names
    regions: Ints  # int64[domains]
    first: Ints  # int64[regions + 1]: where each region's switches begin
    switch_s: Floats  # float64[switches]: ascending within a region, the first -inf
    quarters: Ints  # int64[switches]: how many quarters of an hour the clock is before UTC from then on


class SeasonalityArrays(NamedTuple):
    """When in the week pages change: of each page which profile and schedule it goes by, and these."""

    links: Records  # LINK[rows]
    schedules: Records  # SCHEDULE[1 + most]; number 0 is nobody's
    profiles: Records  # PROFILE[most]: of all pages, of each region, then of groups
    pooled: Records  # POOLED[most], to work in
    work: Floats  # float64[336], likewise
    of_group: npt.NDArray[np.uint32]  # uint32[groups]: the profile that a group's pages go by
    state: Records  # SEASONALITY[1]
    calendar: RegionClocks


class DirtyArrays(NamedTuple):
    """Which rows and groups were written to since the last save, and what they were before: see `marks`."""

    rows: Hashes  # uint64[words]: a bit a row
    groups: Hashes  # uint64[words]: a bit a group
    old_rows: Records  # ROW_WAS[m]: of rows that a save under way has not copied yet
    old_links: Records  # LINK_WAS[m]: of the same rows
    old_groups: Records  # GROUP_WAS[m]
    counts: Ints  # int64[6], as `marks` names them


class PageArrays(NamedTuple):
    """The arrays of pages; lengths are the rows reserved."""

    records: Records  # PAGE[rows]
    traces: Records  # TRACE[rows]
    text: Bytes  # the URLs, one after another
    lease_until_s: Floats  # float64[rows], meaningful where LEASED is set


class GroupArrays(NamedTuple):
    """The arrays of groups, which are hosts and URL patterns; lengths are the groups reserved."""

    records: Records  # GROUP[groups]
    names: Bytes  # the groups' names
    slots: Hashes  # hash index of the groups
    candidates: Bytes  # how often a path prefix that is no group yet was met
    scratch: Bytes  # one URL's name under construction
    member_links: Records  # MEMBER_LINK[rows]: linked list of each group's pages
    first_members: npt.NDArray[np.uint32]  # uint32[groups]: the first of them, plus 1; 0 for none


class ShardArrays(NamedTuple):
    """The arrays of one shard, by the room that owns them; counts are in ``corpus[0]``."""

    pages: PageArrays
    groups: GroupArrays
    journal: Records  # VISIT[a power of two], a ring
    corpus: Records  # CORPUS[1]
    dirty: DirtyArrays
    seasonality: SeasonalityArrays


class PageLookup(Protocol):
    """What finds pages by their URLs: a page table, as rules see it."""

    @property
    def arrays(self) -> ShardArrays:
        """The arrays as kernels take them."""
        ...

    def find(self, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], -1 for pages never seen."""
        ...
