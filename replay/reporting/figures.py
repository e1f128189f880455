"""The report's figures; a policy's lines carry the class ``p0``, ``p1``, … of its place in the replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import BATCH_CYCLES
from streamsched.replay.replay_results import PolicyResult, ReplayResult
from streamsched.replay.reporting.palette import choose_strokes
from streamsched.replay.reporting.svg import HEAT, INK, STYLE, dress, dress_axes, finish_svg
from streamsched.replay.simulation.metrics import DECILES, WAITS_DAYS, moving_mean
from streamsched.replay.simulation.simulator import DAY_S, Trace

__all__ = ["draw_deciles", "draw_series", "draw_waits", "share_by_decile"]

Line: TypeAlias = tuple[npt.NDArray[Any], Floats]  # across and up, of one length

_MOST_DIGITS: Final = 4  # beyond the usual: ten of them are as wide as the figure
_WAIT_TICKS: Final = {1 / 24: "1 h", 0.25: "6 h", 1.0: "1 d", 7.0: "1 wk", 30.0: "1 mo", 365.0: "1 yr"}


def draw_series(result: ReplayResult, title: str, series: Callable[[Trace], Floats], *, everywhere: bool) -> str:
    """Return a panel with a metric over time, a line for each policy: the mean of the last 7 cycles, over all seeds.

    ``series``: of a trace, float64[cycles]; counts where some page had changed, or `everywhere`.
    """
    window = result.window
    ends = window.start_s + window.cycle_s * np.arange(result.settings.warmup + 1, window.cycles + 1)
    moments = (ends * 1e6).astype("datetime64[us]")

    def trace_line(policy: PolicyResult) -> Line | None:
        if title == "NDCG" and policy.name == "oracle":
            return None  # 1 by definition: it would only flatten the others
        counts = [np.ones_like(trace.counted) if everywhere else trace.counted for trace in policy.traces]
        total = np.sum([np.where(counted, series(t), 0.0) for t, counted in zip(policy.traces, counts, strict=True)], 0)
        seeds = np.sum(counts, 0)
        smooth = moving_mean(total / np.maximum(1, seeds), seeds > 0, BATCH_CYCLES)
        return moments, smooth

    def finish(axes: Axes) -> None:
        locator = AutoDateLocator(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.set_xlim(moments[0], moments[-1])

    return _draw_lines(result, title, trace_line, finish)


def draw_waits(result: ReplayResult) -> str:
    """Return a panel with the share of all changes that were seen within a time, a line for each policy.

    Changes still unseen at the end are in the total, so that a line ends below 1 where a policy did not come back.
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
    """Return which share of a policy's visits went to each decile of pages by change rate: float64[10]."""
    visits = np.sum([trace.decile_visits for trace in policy.traces], 0)
    return np.asarray(visits / max(1, visits.sum()))


def draw_deciles(result: ReplayResult) -> str:
    """Return a heat map: a row for each policy, a column for each decile of pages, the visits' share in per cent."""
    rows = len(result.policies)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6, 0.95 + 0.235 * rows), layout="constrained")
        axes = figure.add_subplot()
        top = max(float(share_by_decile(policy).max()) for policy in result.policies)
        for row, policy in enumerate(result.policies):
            for tenth, share in enumerate(share_by_decile(policy)):
                strength = 0.05 + 0.7 * share / top if top else 0.0
                axes.add_patch(Rectangle((tenth, row), 1, 1, facecolor=HEAT, alpha=strength, linewidth=0))
                axes.text(tenth + 0.5, row + 0.5, f"{100 * share:.0f}", ha="center", va="center", color=INK)
        axes.set_xlim(0, DECILES)
        axes.set_ylim(rows, 0)
        axes.set_yticks(np.arange(rows) + 0.5, [_shorten(policy.name) for policy in result.policies])
        rates = [result.changes[result.tenths == tenth] for tenth in range(DECILES)]
        means = [float(changes.mean()) if changes.size else None for changes in rates]
        axes.set_xticks(np.arange(DECILES) + 0.5, _spell_apart(means))
        axes.set_xlabel("changes of a page, in each tenth of the pages", color=INK)
        axes.set_title("Share of visits, %", color=INK)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
        return finish_svg(figure, "deciles")


def _draw_lines(
    result: ReplayResult,
    title: str,
    trace_line: Callable[[PolicyResult], Line | None],
    finish: Callable[[Axes], None],
) -> str:
    """Return a panel with the line that `trace_line` gives each policy, in the policy's stroke."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6, 3.1), layout="constrained")
        axes = figure.add_subplot()
        for place, stroke in enumerate(choose_strokes([policy.name for policy in result.policies])):
            line = trace_line(result.policies[place])
            if line is not None:
                axes.plot(*line, **dress(stroke), gid=f"policy-{place}")
        dress_axes(axes, title)
        finish(axes)
        axes.xaxis.get_offset_text().set_color(INK)
        return finish_svg(figure, title)


def _shorten(name: str, limit: int = 18) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def _spell_apart(numbers: Sequence[float | None]) -> list[str]:
    """Return numbers of 0 or more in two digits, or in as many as tell different ones apart; a dash for None.

    >>> _spell_apart([0.0, 0.021, 2.23, 44.2, None]), _spell_apart([0.0, 0.0213, 0.0241, 2.2])
    (['0', '0.02', '2.2', '44', '–'], ['0', '0.021', '0.024', '2.20'])
    """
    texts: list[str] = []
    for more in range(_MOST_DIGITS):
        texts = ["–" if number is None else _spell_short(number, more) for number in numbers]
        if len(set(texts)) == len(set(numbers)):
            break
    return texts


def _spell_short(number: float, more: int) -> str:
    if number == 0:
        return "0"
    return f"{number:.{more + (0 if number >= 10 else 1 if number >= 1 else 2)}f}"
