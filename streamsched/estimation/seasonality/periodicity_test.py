"""Whether a page is updated by a clock: its type, with a p-value, and what its gaps between changes say (SPEC 4).

The test is of likelihoods as they were foretold: before each visit, schedules and the page's rate say how likely a
change is, and the product of their ratios, averaged over schedules by the day and by the hour, is an e-value E of the
hypothesis that the page is Poisson at its rate. The p-value is min(1, 1/E). By Ville's inequality it is a or less with
a chance of a at the most for such a page, however often one looks and whatever decided when it was visited; in exchange
it is larger than that of a test made for one sample. Grünwald, de Heide & Koolen (2024), "Safe testing".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from streamsched.estimation.published_estimators import modified_interval
from streamsched.estimation.seasonality.page_schedules import NAT
from streamsched.numerics.arrays import Floats, Record
from streamsched.records.schema import DAY_SETS, ShardArrays

__all__ = ["LEVEL", "PageType", "Periodicity", "test_periodicity"]

PageType: TypeAlias = Literal["poisson", "hourly", "daily", "weekly", "other"]

LEVEL: Final = 0.05  # p-values from here on leave a page Poisson
_HOUR_S: Final = 3_600.0
_LIKELY: Final = 0.5  # a day is one of a page's where the sets that have it are more likely than not
_TOLD: Final = 2 / 24  # an hour is told apart that is twice as likely as by chance: visits a day apart tell none


@dataclass(frozen=True, slots=True)
class Periodicity:
    """Result of the test of one page.

    ``kind``: ``poisson`` if nothing contradicts that, ``hourly``, ``daily``, ``weekly`` (on one day of the week), or
    ``other`` (on several); ``p_value``: of the hypothesis that the page is Poisson; ``days``, ``hour``: the likeliest
    days of the week (0 is Monday) and hour of the day of its updates, by the local time of its region, ``quarters`` of
    an hour ahead of UTC, meaningful only if the page is not Poisson, empty or None if visits do not determine them;
    ``gaps``: number of times between changes seen; ``mean_gap``, ``modified_gap``: hours between changes, by the simple
    and the modified estimator (Grimes & O'Brien, eq. 1), NaN if there is no gap; ``near_hour``, ``near_day``: the share
    of gaps within one visit's interval of 1 h and of 24 h; ``..._by_chance``: what an exponential distribution with the
    modified mean gives.
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


def test_periodicity(shard: ShardArrays, row: int) -> Periodicity:
    """Return the type of the page of `row`, and what it rests on. O(1).

    A page that changes too seldom to have a schedule of its own is taken for Poisson, with a p-value of 1.
    """
    link = shard.seasonality.links[row]
    if not link["schedule"]:
        return Periodicity("poisson", 1.0)
    schedule: Record = shard.seasonality.schedules[link["schedule"]]
    told: Record = shard.seasonality.profiles[link["profile"]]
    age = int(link["age"])
    proofs = float(schedule["proof"]), float(schedule["hourly_proof"])
    p_value = min(1.0, 2.0 / sum(math.exp(min(max(proof, -700.0), 700.0)) for proof in proofs))
    sets = _weigh(schedule["sets"], told["sets_told"][age * DAY_SETS : (age + 1) * DAY_SETS])
    hours = _weigh(schedule["hours"], told["hours_told"][age * 24 : (age + 1) * 24])
    days = tuple(day for day in range(7) if sets[np.arange(DAY_SETS) >> day & 1 != 0].sum() > _LIKELY)
    page = shard.pages.records[row]
    return Periodicity(
        _name(p_value, proofs, days),
        p_value,
        days,
        int(np.argmax(hours)) if hours.max() > _TOLD else None,
        int(link["quarters"]),
        **_describe_gaps(schedule, int(page["visits"]), int(page["changes"])),
    )


def _weigh(own: Floats, common: Floats) -> Floats:
    """Return the probabilities that misfits give, in 1/16 nat."""
    weights = np.exp(-(own.astype(np.float64) + common.astype(np.float64)) / NAT)
    return np.asarray(weights / weights.sum())


def _name(p_value: float, proofs: tuple[float, float], days: tuple[int, ...]) -> PageType:
    if p_value >= LEVEL:
        return "poisson"
    if proofs[1] > proofs[0]:
        return "hourly"
    return "daily" if len(days) == 7 else "weekly" if len(days) == 1 else "other"


def _describe_gaps(schedule: Record, visits: int, changes: int) -> dict[str, Any]:
    """Return the fields of `Periodicity` that gaps between changes give."""
    gaps = int(schedule["gaps"])
    if not gaps:
        return {}
    hours = (float(schedule["changed_s"]) - float(schedule["begun_s"])) / _HOUR_S
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
    """Return which share of exponential gaps of that mean is within a `step` of `hours`; 0 for steps too long to tell.

    >>> round(_share_near(24.0, 1.0, 24.0), 4)
    0.0307
    """
    if step > (1.0 if hours == 1.0 else hours / 2.0) or not mean > 0.0:
        return 0.0
    return math.exp(-max(hours - step, 0.0) / mean) - math.exp(-(hours + step) / mean)
