"""Test of whether a page is updated on a schedule: its type, a p-value, and the gaps between its changes.

The test uses predictive likelihoods: before each visit, schedules and the page's rate predict the chance of a change.
The product of their likelihood ratios, averaged over the daily and the hourly schedule, is an e-value E of the
hypothesis that the page is Poisson at its rate. The p-value is min(1, 1/E). By Ville's inequality, a Poisson page ever
has a p-value of a or less with probability a at most, however often it is tested and whatever decided when it was
visited. In exchange it is larger than that of a test made for one sample. Grünwald, de Heide & Koolen (2024), "Safe
testing".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from streamsched.estimation.published_estimators import modified_interval
from streamsched.estimation.seasonality.page_schedules import NAT
from streamsched.numerics.arrays import Floats, Record
from streamsched.records.seasonality_schema import DAY_SETS, SeasonalityArrays

PageType: TypeAlias = Literal["poisson", "hourly", "daily", "weekly", "other"]

LEVEL: Final = 0.05  # pages with a p-value of this or more are Poisson
_HOUR_S: Final = 3_600.0
_LIKELY: Final = 0.5  # least probability of a day: of the sets that have it
_LIKELY_HOUR: Final = 2 / 24  # least probability of an hour: visits a day apart show none


@dataclass(frozen=True, slots=True)
class Periodicity:
    """Whether and when a page is updated on a schedule.

    ``kind``: ``poisson`` if no schedule is significant, ``hourly``, ``daily``, ``weekly`` on one day of the week, or
    ``other`` on several; ``p_value``: of the hypothesis that the page is Poisson; ``days``, ``hour``: the likeliest
    days of the week, 0 for Monday, and hour of the day of its updates, in local time with a UTC offset of ``quarters``
    of an hour; empty and None for a Poisson page or if visits do not show them; ``gaps``: times between changes seen;
    ``mean_gap``, ``modified_gap``: hours between changes, by the simple and the modified estimator (Grimes & O'Brien,
    eq. 1), NaN without a gap; ``near_hour``, ``near_day``: the share of gaps within one visit's interval of 1 h and of
    24 h, and ``..._by_chance`` the share that the exponential of the modified mean has.
    """

    kind: PageType
    p_value: float
    days: tuple[int, ...] = ()
    hour: int | None = None
    quarters: int = 0
    gaps: int = 0
    mean_gap: float = math.nan
    modified_gap: float = math.nan
    near_hour: float = 0.0
    near_hour_by_chance: float = 0.0
    near_day: float = 0.0
    near_day_by_chance: float = 0.0


def find_periodicity(page: Record, seasonality: SeasonalityArrays, row: int) -> Periodicity:
    """Return the type of `page`, which is in `row`, with its evidence. O(1).

    A page that changes too seldom to have a schedule of its own is Poisson, with a p-value of 1.
    """
    link = seasonality.links[row]
    if not link["schedule"]:
        return Periodicity("poisson", 1.0)
    schedule: Record = seasonality.schedules[link["schedule"]]
    published: Record = seasonality.profiles[link["profile"]]
    version = int(link["version"])
    evidence = float(schedule["log_evidence"]), float(schedule["hourly_log_evidence"])
    p_value = min(1.0, 2.0 / sum(math.exp(min(max(one, -700.0), 700.0)) for one in evidence))
    sets = _weigh(schedule["sets"], published["sets_rarity"][version * DAY_SETS : (version + 1) * DAY_SETS])
    hours = _weigh(schedule["hours"], published["hours_rarity"][version * 24 : (version + 1) * 24])
    days = tuple(day for day in range(7) if sets[np.arange(DAY_SETS) >> day & 1 != 0].sum() > _LIKELY)
    return Periodicity(
        _name_type(p_value, evidence, days),
        p_value,
        days,
        int(np.argmax(hours)) if hours.max() > _LIKELY_HOUR else None,
        int(link["quarters"]),
        **_describe_gaps(schedule, int(page["visits"]), int(page["changes"])),
    )


def _weigh(own: Floats, common: Floats) -> Floats:
    """Return the probabilities that misfits, in 1/16 nat, mean."""
    weights = np.exp(-(own.astype(np.float64) + common.astype(np.float64)) / NAT)
    return np.asarray(weights / weights.sum())


def _name_type(p_value: float, evidence: tuple[float, float], days: tuple[int, ...]) -> PageType:
    if p_value >= LEVEL:
        return "poisson"
    if evidence[1] > evidence[0]:
        return "hourly"
    return "daily" if len(days) == 7 else "weekly" if len(days) == 1 else "other"


def _describe_gaps(schedule: Record, visits: int, changes: int) -> dict[str, Any]:
    """Return the fields of `Periodicity` about gaps between changes."""
    gaps = int(schedule["gaps"])
    if not gaps:
        return {}
    hours = (float(schedule["last_change_s"]) - float(schedule["first_change_s"])) / _HOUR_S
    samples = gaps * visits / max(changes, 1)  # sampling intervals in which the gaps were seen
    step = hours / samples
    modified = step * float(modified_interval(samples, gaps))
    return {
        "gaps": gaps,
        "mean_gap": hours / gaps,
        "modified_gap": modified,
        "near_hour": int(schedule["near_hour"]) / gaps,
        "near_hour_by_chance": _share_near(1.0, step, modified),
        "near_day": int(schedule["near_day"]) / gaps,
        "near_day_by_chance": _share_near(24.0, step, modified),
    }


def _share_near(hours: float, step: float, mean: float) -> float:
    """Return the share of exponential gaps of that mean within a `step` of `hours`; 0 if the step is too long to tell.

    >>> round(_share_near(24.0, 1.0, 24.0), 4)
    0.0307
    """
    if step > (1.0 if hours == 1.0 else hours / 2.0) or not mean > 0.0:
        return 0.0
    return math.exp(-max(hours - step, 0.0) / mean) - math.exp(-(hours + step) / mean)
