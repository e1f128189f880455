"""Figures of a replay's report. Lines of policy number i have the class ``p{i}``, so that the page can hide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.patches import Rectangle

from streamsched.numerics.arrays import Bools, Floats
from streamsched.replay.replay_results import PolicyResult, ReplayResult
from streamsched.replay.reporting.curves import Axis, begin_figure
from streamsched.replay.reporting.number_format import format_distinct
from streamsched.replay.reporting.replay_tables import FEWEST_VISITS, SMOOTHED_CYCLES
from streamsched.replay.reporting.svg import HEAT, INK, RC_PARAMS, line_properties, to_svg
from streamsched.replay.simulation.metrics import DECILES, WAITS_DAYS, Calibration, moving_mean
from streamsched.replay.simulation.policies import choose_line_styles
from streamsched.replay.simulation.simulator import DAY_S, Trace
from streamsched.scheduler.monitoring import Reliability

Line: TypeAlias = tuple[npt.NDArray[Any], Floats]  # x and y, of equal length

_PROBABILITY_TICKS: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_WAIT_TICKS: Final = {1 / 24: "1 h", 0.25: "6 h", 1.0: "1 d", 7.0: "1 wk", 30.0: "1 mo", 365.0: "1 yr"}


def _draw_metrics(result: ReplayResult) -> list[str]:
    counted = result.measured.counted
    every = np.ones_like(counted)
    return [
        _draw_series(result, "ChangeRate", lambda trace: trace.change_rate, every),
        _draw_series(result, "NDCG", lambda trace: trace.ndcg, counted),
        _draw_series(result, "Freshness", lambda trace: trace.freshness, every),
    ]


def _draw_series(result: ReplayResult, title: str, series: Callable[[Trace], Floats], counted: Bools) -> str:
    """Return a panel with a metric over time, a line per policy: the mean over the last 7 cycles and all seeds.

    ``series``: float64[cycles] of a trace; ``counted``: bool[cycles], the cycles that are averaged.
    """
    window = result.window
    ends = window.start_s + window.cycle_s * np.arange(result.settings.schedule.unmeasured + 1, window.cycles + 1)
    times = (ends * 1e6).astype("datetime64[us]")

    def trace_line(policy: PolicyResult) -> Line | None:
        if title == "NDCG" and policy.name == "oracle":
            return None  # 1 by definition, which would compress the other lines
        mean = np.mean([series(trace) for trace in policy.traces], 0)
        return times, moving_mean(mean, counted, SMOOTHED_CYCLES)

    def finish(axes: Axes) -> None:
        locator = AutoDateLocator(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.set_xlim(times[0], times[-1])

    return _draw_lines(result, title, trace_line, finish)


def _draw_waits(result: ReplayResult) -> str:
    """Return a panel with the share of all changes that were seen within a time, a line per policy.

    The total includes changes unseen at the end, so a line ends below 1 if a policy did not revisit every page.
    """
    longest = max(result.window.cycles * result.window.cycle_s / DAY_S, WAITS_DAYS[1])
    shown = np.searchsorted(WAITS_DAYS, longest, "right")

    def trace_line(policy: PolicyResult) -> Line:
        total = sum(trace.changes for trace in policy.traces)
        return WAITS_DAYS[:shown], np.sum([trace.seen for trace in policy.traces], 0)[:shown] / max(1, total)

    def finish(axes: Axes) -> None:
        axes.set_xscale("log")
        ticks = {days: label for days, label in _WAIT_TICKS.items() if days <= longest}
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xticks([], minor=True)
        axes.set_xlim(WAITS_DAYS[0], longest)
        axes.set_ylim(0.0, 1.02)

    return _draw_lines(result, "Share of all changes seen within …", trace_line, finish)


def share_by_decile(policy: PolicyResult) -> Floats:
    """Return the share of a policy's visits to each decile of pages by change rate: float64[10]."""
    visits = np.sum([trace.decile_visits for trace in policy.traces], 0)
    return np.asarray(visits / max(1, visits.sum()))


def _draw_deciles(result: ReplayResult) -> str:
    """Return a heat map: a row per policy, a column per decile of pages, the share of visits in per cent."""
    rows = len(result.policies)
    with mpl.rc_context(RC_PARAMS):
        label = "mean changes of a page, by decile of the pages"
        figure, axes = begin_figure("Share of visits, %", Axis(label), 0.95 + 0.235 * rows)
        highest = max(float(share_by_decile(policy).max()) for policy in result.policies)
        for row, policy in enumerate(result.policies):
            for decile, share in enumerate(share_by_decile(policy)):
                alpha = 0.05 + 0.7 * share / highest if highest else 0.0
                axes.add_patch(Rectangle((decile, row), 1, 1, facecolor=HEAT, alpha=alpha, linewidth=0))
                axes.text(decile + 0.5, row + 0.5, f"{100 * share:.0f}", ha="center", va="center", color=INK)
        axes.set_xlim(0, DECILES)
        axes.set_ylim(rows, 0)
        axes.set_yticks(np.arange(rows) + 0.5, [_shorten(policy.name) for policy in result.policies])
        rates = [result.changes[result.deciles == decile] for decile in range(DECILES)]
        means = [float(changes.mean()) if changes.size else None for changes in rates]
        axes.set_xticks(np.arange(DECILES) + 0.5, format_distinct(means))
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
        return to_svg(figure, "deciles")


def _draw_calibration(result: ReplayResult) -> list[str]:
    """Return the reliability diagrams: all visits, and those without and with a surge shown if there are both."""
    found = [policy.calibration for policy in result.policies if policy.calibration is not None]
    diagrams = [_draw_reliability(result, "All visits", lambda one: one.all_visits)]
    if any(one.with_surge.total for one in found):
        diagrams.append(_draw_reliability(result, "No surge shown", lambda one: one.without_surge))
        diagrams.append(_draw_reliability(result, "Surge shown", lambda one: one.with_surge))
    return diagrams


def _draw_reliability(result: ReplayResult, title: str, part: Callable[[Calibration], Reliability]) -> str:
    """Return a reliability diagram, a line per policy: the observed share by the mean probability of each bin.

    Both axes are square roots, which spread small probabilities. Bins of fewer than 20 visits are left out.
    """

    def trace_line(policy: PolicyResult) -> Line | None:
        if policy.calibration is None:
            return None
        counts = part(policy.calibration)
        drawn = counts.visits >= FEWEST_VISITS
        predicted, observed = (column[drawn] / counts.visits[drawn] for column in (counts.predicted, counts.observed))
        return (np.sqrt(predicted), np.sqrt(observed)) if drawn.any() else None

    def finish(axes: Axes) -> None:
        axes.plot([0.0, 1.0], [0.0, 1.0], color=INK, linewidth=0.5)
        labels = [f"{share:g}" for share in _PROBABILITY_TICKS]
        for axis, limit in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            axis.set_ticks(np.sqrt(_PROBABILITY_TICKS), labels)
            limit(-0.02, 1.02)
        axes.set_xlabel("predicted probability", color=INK)
        axes.set_ylabel("share that had changed", color=INK)

    return _draw_lines(result, title, trace_line, finish, marker="o", markersize=3)


def _draw_lines(
    result: ReplayResult,
    title: str,
    trace_line: Callable[[PolicyResult], Line | None],
    finish: Callable[[Axes], None],
    **marks: Any,
) -> str:
    """Return a panel with the line that `trace_line` returns for each policy, in its style; `marks`: of matplotlib."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(title, Axis())
        for index, style in enumerate(choose_line_styles([policy.name for policy in result.policies])):
            line = trace_line(result.policies[index])
            if line is not None:
                axes.plot(*line, **line_properties(style), **marks, gid=f"policy-{index}")
        finish(axes)
        axes.xaxis.get_offset_text().set_color(INK)
        return to_svg(figure, title)


def _shorten(name: str, limit: int = 18) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


DRAWINGS: Final[dict[str, Callable[[ReplayResult], list[str]]]] = {
    "metrics": _draw_metrics,
    "waits": lambda result: [_draw_waits(result)],
    "deciles": lambda result: [_draw_deciles(result)],
    "calibration": _draw_calibration,
}
"""The figures of each part of the report."""
