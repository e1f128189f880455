"""An analysis as JSON: findings, and every number behind its figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsched.replay.analysis.reporting.analysis_findings import find_all, find_limits
from streamsched.replay.analysis.statistics.page_types import UNTESTED
from streamsched.replay.analysis.statistics.rates import THRESHOLDS_S, share_within
from streamsched.replay.findings import findings_to_json
from streamsched.replay.replay_settings import format_time

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats
    from streamsched.replay.analysis.statistics.analysis import Analysis
    from streamsched.replay.analysis.statistics.frequencies import HeatMap, Histogram
    from streamsched.replay.analysis.statistics.page_types import PageTypes
    from streamsched.replay.analysis.statistics.week import WeekProfile

__all__ = ["to_json"]


def to_json(result: Analysis) -> str:
    """Return the numbers as JSON, a key on each line; the same analysis gives the same bytes. O(bins).

    ``step_s``, ``resolution_s`` and all ``…_s`` are seconds. ``findings`` and ``limits``, what the log cannot show, are
    lists of codes with their values. ``kinds``, for each page type: ``pages``, their ``share`` of the tested pages, and
    ``poisson_share`` of simulated Poisson pages. ``periods``: intervals near each, ``seen`` and ``poisson``. ``rates``,
    for each estimator: the shares of pages with a mean interval of at most each of ``marks_s``, and ``quantiles_s``
    (null: beyond, for pages without a change). ``heat_map``: the cells that hold an interval, by bin between
    ``edges_s``. ``near`` and ``week`` are null if the log cannot show them.
    """
    types = result.page_types
    content: dict[str, Any] = {
        "log": result.settings.log,
        "from": format_time(result.span[0]),
        "to": format_time(result.span[1]),
        "pages": result.pages,
        "changing_pages": result.changing,
        "changes": result.changes,
        "seen": result.seen,
        "exact": result.exact,
        "resolution_s": result.resolution_s,
        "step_s": result.step_s,
        "rejected": result.rejected,
        "note": result.note,
        "limits": findings_to_json(find_limits(result)),
        "findings": findings_to_json(find_all(result)),
        "level": types.level,
        "kinds": _page_types_to_json(types),
        "periods": _periods_to_json(types),
        "rates": _rates_to_json(result),
        "heat_map": _heat_map_to_json(result.heat),
        "near": None if result.near is None else _histogram_to_json(result.near),
        "week": None if result.week_detail == "none" or not result.week else _week_to_json(result.week),
        "week_detail": result.week_detail,
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _page_types_to_json(types: PageTypes) -> dict[str, Any]:
    tested = max(1, types.tested)
    return {
        name: {
            "pages": count,
            "share": None if name in UNTESTED else count / tested,
            "poisson_share": None if name in UNTESTED or not types.drawn else types.simulated[name],
        }
        for name, count in types.counts.items()
    }


def _periods_to_json(types: PageTypes) -> dict[str, Any]:
    return {
        name: {
            "intervals": types.intervals[name],
            "seen": types.near[name],
            "poisson": types.expected[name],
            "clear": name not in types.unclear and name not in types.untestable,
        }
        for name in types.near
    }


def _rates_to_json(result: Analysis) -> dict[str, Any]:
    thresholds_s = np.array(list(THRESHOLDS_S.values()))
    deciles = np.arange(1, 10) / 10
    return {
        "marks_s": thresholds_s.tolist(),
        "quantiles": deciles.tolist(),
        **{
            name: {
                "pages": intervals_s.size,
                "share_within": share_within(intervals_s, thresholds_s).tolist(),
                "quantiles_s": _finite(np.quantile(intervals_s, deciles, method="inverted_cdf")),
            }
            for name, intervals_s in result.rates.lines().items()
            if intervals_s.size
        },
    }


def _heat_map_to_json(heat: HeatMap) -> dict[str, Any]:
    mean, interval = np.nonzero(heat.counts)
    return {
        "edges_s": heat.edges_s.tolist(),
        "pages": heat.pages.tolist(),
        "mean_bin": mean.tolist(),
        "interval_bin": interval.tolist(),
        "count": heat.counts[mean, interval].tolist(),
    }


def _histogram_to_json(near: Histogram) -> dict[str, Any]:
    return {
        "near_s": near.near_s,
        "band_s": list(near.band_s),
        "pages": near.pages,
        "intervals": near.intervals,
        "edges_s": near.edges_s.tolist(),
        "observed": near.observed.tolist(),
        "expected": near.expected.tolist(),
        "longer": list(near.longer),
        "peak": list(near.peak),
    }


def _week_to_json(week: WeekProfile) -> dict[str, Any]:
    return {
        "zone": week.zone,
        "local": week.local,
        "regions": {
            region.region: {
                "pages": region.pages,
                "changes": region.changes,
                "arrivals": region.changes_by_hour.tolist(),
                "exposure_h": region.exposure_h.tolist(),
                "relative": _finite(region.relative()),
                "by_day": _finite(region.by_day()),
            }
            for region in week.regions
        },
    }


def _finite(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
