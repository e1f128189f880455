"""When in the week pages change: the busyness of each hour, of a page or of the profile that a group's pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streamsched.api.views import WeekView
from streamsched.estimation.seasonality.regions import HOUR_S, local_hours, quarters_at, week_of
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.arrays import Record
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import NO_GROUP, WEEK_HOURS
from streamsched.records.url_patterns import group_name

_QUARTER_S: Final = 900.0
_EPOCH_HOURS: Final = 72.0  # from the Monday before 1970, which began on a Thursday


def view_page_week(shard: ShardArrays, row: int, now: float, cycle_s: float, regions: Sequence[str]) -> WeekView:
    """Return the week of the page of `row`: its terminal `rhythm` at each hour of the week around `now`. O(168).

    `regions`: the names of the regions by number, from 1.
    """
    rows = np.array([row])
    link: Record = shard.seasonality.links[row]
    pages, traces, context = shard.pages.records[rows], shard.pages.traces[rows], context_of(shard, rows)
    fill = TerminalColumns(["rhythm"], 1).fill
    offset_s = _QUARTER_S * int(link["quarters"])
    monday = WEEK_HOURS * week_of(local_hours(now, int(link["quarters"]))) - _EPOCH_HOURS
    times = ((monday + np.arange(WEEK_HOURS) + 0.5) * HOUR_S - offset_s).tolist()
    hours = [float(fill(pages, traces, context, at_s, cycle_s)["rhythm"][0]) for at_s in times]
    return _describe(shard, int(link["profile"]), hours, offset_s, regions, scheduled=bool(link["schedule"]))


def view_profile_week(shard: ShardArrays, number: int, now: float, regions: Sequence[str]) -> WeekView:
    """Return the week of the profile of that number, as it was last published. O(168).

    The profile of all pages is number 0, those of regions follow in their order.
    """
    profile: Record = shard.seasonality.profiles[number]
    version = int(shard.corpus["sweep"][0]) & 1
    weights = np.diff(profile["cumulative"][version * (WEEK_HOURS + 1) :][: WEEK_HOURS + 1].astype(np.float64))
    offset_s = _QUARTER_S * quarters_at(shard.seasonality.calendar, int(profile["region"]), now)
    return _describe(shard, number, (weights / weights.mean()).tolist(), offset_s, regions, scheduled=False)


def _describe(
    shard: ShardArrays, number: int, hours: Sequence[float], offset_s: float, regions: Sequence[str], *, scheduled: bool
) -> WeekView:
    profile: Record = shard.seasonality.profiles[number]
    group, region = int(profile["group"]), int(profile["region"])
    return WeekView(
        hours=tuple(hours),
        utc_offset_s=offset_s,
        profile=None if group == NO_GROUP else group_name(shard.groups, group),
        region=regions[region - 1] if region else None,
        scheduled=scheduled,
        regions=tuple(regions),
    )
