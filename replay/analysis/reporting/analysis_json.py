"""An analysis as JSON: every number behind its figures."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from streamsched.numerics.arrays import Floats
from streamsched.replay.analysis.reporting.axis_limits import spell_limits
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.frequencies import HeatMap, Histogram
from streamsched.replay.analysis.statistics.page_types import UNTESTED
from streamsched.replay.analysis.statistics.rates import MARKS_S, share_within
from streamsched.replay.analysis.statistics.week import Arrivals
from streamsched.replay.replay_settings import spell_time

__all__ = ["to_json"]


def to_json(result: Analysis) -> str:
    """Return the numbers as JSON, a key on each line; the same analysis gives the same bytes. O(bins).

    ``step_s``, ``resolution_s`` and all ``…_s``: seconds. ``kinds``: for each, ``pages``, their ``share`` of the tested
    and ``poisson_share``, that of simulated Poisson pages so named. ``periods``: intervals near each, ``seen`` and
    ``poisson``. ``rates``: for each estimator the shares of pages with a mean interval of at most each of ``marks_s``,
    and ``quantiles_s`` (null: beyond, for pages without a change). ``heat_map``: the cells that hold an interval, by
    bin between ``edges_s``. ``near`` and ``week`` are null where the log cannot show them; ``limits`` say why.
    """
    kinds = result.kinds
    tested = max(1, kinds.tested)
    content: dict[str, Any] = {
        "log": result.settings.log,
        "from": spell_time(result.span[0]),
        "to": spell_time(result.span[1]),
        "pages": result.pages,
        "changing_pages": result.changing,
        "changes": result.changes,
        "seen": result.seen,
        "exact": result.exact,
        "resolution_s": result.resolution_s,
        "step_s": result.step_s,
        "rejected": result.rejected,
        "note": result.note,
        "limits": spell_limits(result),
        "level": kinds.level,
        "kinds": {
            kind: {
                "pages": count,
                "share": None if kind in UNTESTED else count / tested,
                "poisson_share": None if kind in UNTESTED or not kinds.drawn else kinds.simulated[kind],
            }
            for kind, count in kinds.counts.items()
        },
        "periods": {
            name: {
                "intervals": kinds.intervals[name],
                "seen": kinds.near[name],
                "poisson": kinds.expected[name],
                "clear": name not in kinds.unclear and name not in kinds.untestable,
            }
            for name in kinds.near
        },
        "rates": _spell_rates(result),
        "heat_map": _spell_heat(result.heat),
        "near": None if result.near is None else _spell_near(result.near),
        "week": None if result.week_detail == "none" or not result.arrivals else _spell_week(result.arrivals),
        "week_detail": result.week_detail,
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _spell_rates(result: Analysis) -> dict[str, Any]:
    marks_s = np.array(list(MARKS_S.values()))
    tenths = np.arange(1, 10) / 10
    return {
        "marks_s": marks_s.tolist(),
        "quantiles": tenths.tolist(),
        **{
            name: {
                "pages": intervals_s.size,
                "share_within": share_within(intervals_s, marks_s).tolist(),
                "quantiles_s": _finite(np.quantile(intervals_s, tenths, method="inverted_cdf")),
            }
            for name, intervals_s in result.rates.lines().items()
            if intervals_s.size
        },
    }


def _spell_heat(heat: HeatMap) -> dict[str, Any]:
    mean, interval = np.nonzero(heat.counts)
    return {
        "edges_s": heat.edges_s.tolist(),
        "pages": heat.pages.tolist(),
        "mean_bin": mean.tolist(),
        "interval_bin": interval.tolist(),
        "count": heat.counts[mean, interval].tolist(),
    }


def _spell_near(near: Histogram) -> dict[str, Any]:
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


def _spell_week(arrivals: Arrivals) -> dict[str, Any]:
    return {
        "zone": arrivals.zone,
        "local": arrivals.local,
        "regions": {
            part.region: {
                "pages": part.pages,
                "changes": part.changes,
                "arrivals": part.arrivals.tolist(),
                "exposure_h": part.exposure_h.tolist(),
                "relative": _finite(part.relative()),
                "by_day": _finite(part.by_day()),
            }
            for part in arrivals.parts
        },
    }


def _finite(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
