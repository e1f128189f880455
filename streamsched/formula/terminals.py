"""Terminals: what a formula can read of a page, as a column for a block of rows at a time `now`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from streamsched.api.views import Cause
from streamsched.estimation.content import fill_significance
from streamsched.estimation.gamma_posterior import convert_to_posterior, convert_to_probability, take_log1p
from streamsched.estimation.interval_update import cause_weight
from streamsched.estimation.published_estimators import weigh_geometrically
from streamsched.estimation.related_pages import join_claims, unclaimed
from streamsched.estimation.seasonality.seasonal_terminals import (
    DUE,
    RHYTHM,
    TAU,
    SeasonalityView,
    bound_seasonal_terminal,
    due_since,
    fill_cycles_by_profile,
    fill_seasonal_terminal,
    fill_seasonal_terminal_at,
    prefetch_schedule,
    seasonality_view,
)
from streamsched.estimation.signal_sources import (
    fill_signalled,
    join_signals,
    quieten_column,
    quieten_probability,
    unsignalled,
)
from streamsched.estimation.surges import share_not_hit
from streamsched.formula.expected_gain import convert_to_gain, expected_gain
from streamsched.formula.terminal_table import TERMINAL_CODES
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.numerics.compilation.machine_operations import COLUMN_ROWS, float_column
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import ALMOST_CERTAIN, log1p
from streamsched.records.group_schema import GROUP
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.schema import CAUSES, ShardArrays
from streamsched.records.seasonality_schema import PROFILE, SCHEDULE, SEASONAL_LINK
from streamsched.records.signal_schema import SIGNAL

_VISITS: Final = TERMINAL_CODES["n"]
_CHANGES: Final = TERMINAL_CODES["X"]
_ELAPSED: Final = TERMINAL_CODES["t"]
_CG: Final = TERMINAL_CODES["CG"]
_NAD: Final = TERMINAL_CODES["NAD"]
_SAD: Final = TERMINAL_CODES["SAD"]
_AAD: Final = TERMINAL_CODES["AAD"]
_RATE: Final = TERMINAL_CODES["rate"]
_POSTERIOR: Final = TERMINAL_CODES["posterior"]
_IMPORTANCE: Final = TERMINAL_CODES["importance"]
_COST: Final = TERMINAL_CODES["cost"]
_SURGE: Final = TERMINAL_CODES["surge"]
_CONFIDENCE: Final = TERMINAL_CODES["confidence"]
_WORTH: Final = TERMINAL_CODES["worth"]
_GAIN: Final = TERMINAL_CODES["gain"]
_SIGNALLED: Final = TERMINAL_CODES["signalled"]
_SIGNIFICANCE: Final = TERMINAL_CODES["significance"]
_CRAWL_RATE: Final = TERMINAL_CODES["crawl_rate"]
_SLACK: Final = 4e-15  # relative, of `posterior`, `surge` and `tau`, which rise with time except for some ulps
_DUE_SLACK: Final = 1e-12  # absolute, of `due`, which combines several such values and is 1 minus a remainder
_GAIN_SLACK: Final = 1e-10  # absolute, of `gain`, whose slope in `due` is below 40
_AHEAD: Final = 8  # pages between prefetching a schedule and reading it


class Context(NamedTuple):
    """What terminals read besides the pages: the groups that the pages belong to, their seasonality and signals."""

    groups: Records  # GROUP[all]
    seasonality: SeasonalityView
    signals: Records  # SIGNAL[m], or of length 0 if the shard has no signals


NO_CONTEXT: Final = Context(
    np.zeros(1, GROUP),
    SeasonalityView(np.empty(0, SEASONAL_LINK), np.empty(0, SCHEDULE), np.empty(0, PROFILE)),
    np.empty(0, SIGNAL),
)
"""The context of pages of group 0 without surges, seasonality or signals: for terminals not in `LINKED`."""


@inlined_kernel
def linked_context(shard: ShardArrays, links: Records, signals: Records) -> Context:
    """Return the context of pages with these ``links``: SEASONAL_LINK[m], and ``signals``: SIGNAL[m or 0]. O(1)."""
    seasonality = shard.seasonality
    return Context(shard.groups.records, SeasonalityView(links, seasonality.schedules, seasonality.profiles), signals)


def context_of(shard: ShardArrays, rows: slice | Ints) -> Context:
    """Return the context of the pages of `rows`. O(1), or O(m) for int64[m]."""
    signals = shard.pages.signals
    if signals.size:
        signals = signals[rows] if isinstance(rows, slice) else signals.take(rows)
    return Context(shard.groups.records, seasonality_view(shard.seasonality, rows), signals)


class TerminalColumns:
    """Columns of the wanted terminals for blocks of up to `block` pages, in reused buffers; for one thread.

    Every value is finite and 0 or more. `buffers`: float64[wanted or more, block or more], memory for the columns.
    """

    def __init__(self, wanted: Collection[str], block: int, buffers: Floats | None = None) -> None:
        self.wanted = tuple(wanted)
        rows = np.empty((len(self.wanted), block)) if buffers is None else buffers
        self._columns = dict(zip(self.wanted, rows, strict=False))

    def fill(self, pages: Records, traces: Records, context: Context, now: float, cycle_s: float) -> dict[str, Floats]:
        """Return float64[m] for each wanted terminal of m pages, valid until the next call. O(m).

        `pages`: PAGE[m]; `traces`: TRACE[m]; `context`: of the same pages; `now`: UTC epoch seconds. Releases the
        interpreter lock.
        """
        columns = {name: column[: pages.size] for name, column in self._columns.items()}
        for name, column in columns.items():
            fill_terminal(TERMINAL_CODES[name], pages, traces, context, now, cycle_s, column)
        return columns


def change_probabilities(shard: ShardArrays, now: float, cycle_s: float, rows: Ints) -> Floats:
    """Return the probabilities that the pages of ``rows``: int64[m] have changed since their last visit: float64[m].

    From 0 to 1. Batches are handed out in their order. O(m).
    """
    likely = np.empty(rows.size)
    _fill_probability(shard.corpus, shard.pages.records.take(rows), context_of(shard, rows), now, cycle_s, likely)
    return likely


def change_causes(shard: ShardArrays, now: float, cycle_s: float, row: int) -> dict[str, Cause]:
    """Return each of `CAUSES` of a change of the page of `row` since its last visit. O(1)."""
    rows = np.array([row])
    parts = np.empty((2, len(CAUSES)))
    _fill_causes(shard.corpus, shard.pages.records.take(rows), context_of(shard, rows), now, cycle_s, parts)
    return {
        name: Cause(expected=expected, weight=weight)
        for name, expected, weight in zip(CAUSES, *parts.tolist(), strict=True)
    }


@bare_kernel
def _fill_probability(
    corpus: Records, pages: Records, context: Context, now: float, cycle_s: float, out: Floats
) -> None:
    """Write the probability that each page has changed, by its weighed causes: see `interval_update`. O(m)."""
    known: Record = corpus[0]
    itself, shown, unseen = cause_weight(known, 0), cause_weight(known, 1), cause_weight(known, 2)
    related, signalled = cause_weight(known, 3), cause_weight(known, 4)
    _fill_own(pages, context, now, cycle_s, out)
    for i in range(out.size):
        others = _other_causes(pages[i], context, i, now, cycle_s)
        out[i] = itself * out[i] + shown * others[0] + unseen * others[1] + related * others[2] + signalled * others[3]
    convert_to_probability(out)


@bare_kernel
def _fill_causes(corpus: Records, pages: Records, context: Context, now: float, cycle_s: float, out: Floats) -> None:
    """Write the changes that each of `CAUSES` makes expect of the one page, then their weights: float64[2, 5]. O(1)."""
    _fill_own(pages, context, now, cycle_s, out[0, :1])
    others = _other_causes(pages[0], context, 0, now, cycle_s)
    for cause in range(out.shape[1]):
        out[1, cause] = cause_weight(corpus[0], cause)
        if cause:
            out[0, cause] = others[cause - 1]


@bare_kernel
def _fill_own(pages: Records, context: Context, now: float, cycle_s: float, out: Floats) -> None:
    """Write the changes that each page's own rate makes expect. O(m)."""
    out[:] = now
    _fill_due(pages, context, out, cycle_s, out)
    for i in range(out.size):
        out[i] = -min(out[i], ALMOST_CERTAIN)
    take_log1p(out)
    for i in range(out.size):
        out[i] = -out[i]


@inlined_kernel
def _other_causes(page: Record, context: Context, i: int, now: float, cycle_s: float) -> tuple[float, ...]:
    """Return the changes that a shown surge, an unseen one, related pages and signals make expect of page i. O(1)."""
    group: Record = context.groups[page.group]
    spared, missed = share_not_hit(group, page.last_visit_s), unclaimed(context.seasonality.links[i])
    silent = unsignalled(context.signals[i]) if context.signals.size else 1.0
    return (
        0.0 - log1p(spared - 1.0) if spared < 1.0 else 0.0,
        group.hazard * _elapsed(page, now, cycle_s),
        0.0 - log1p(missed - 1.0) if missed < 1.0 else 0.0,
        0.0 - log1p(silent - 1.0) if silent < 1.0 else 0.0,
    )


@bare_kernel
def fill_terminal(  # noqa: C901, PLR0913, PLR0917  a case for each terminal
    code: int, pages: Records, traces: Records, context: Context, now: float, cycle_s: float, out: Floats
) -> None:
    """Write the terminal of `code` for m pages to `out`: float64[m]. O(m).

    `pages`: PAGE[m]; `traces`: TRACE[m]; `context`: of these pages; `now`: UTC epoch seconds. Nothing is checked.
    """
    if code == _VISITS:
        for i in range(out.size):
            out[i] = pages[i].visits
    elif code == _CHANGES:
        for i in range(out.size):
            out[i] = pages[i].changes
    elif code in (_ELAPSED, _POSTERIOR, _SURGE):
        for i in range(out.size):
            out[i] = _elapsed(pages[i], now, cycle_s)
        _convert_elapsed(code, pages, context, cycle_s, out)
        if code == _SURGE:
            join_claims(context.seasonality.links, out)
    elif code in (_RATE, _CONFIDENCE):
        for i in range(out.size):
            page = pages[i]
            shape = page.prior_shape + page.own_shape
            out[i] = shape / (page.prior_exposure + page.own_exposure) if code == _RATE else shape
    elif code in (_IMPORTANCE, _COST, _WORTH):
        _fill_weight(code, pages, out)
    elif code in (TAU, RHYTHM):
        fill_seasonal_terminal(code, context.seasonality, pages, now, cycle_s, out)
    elif code in (DUE, _GAIN):
        out[:] = now
        _fill_expected(code, pages, context, out, cycle_s, out)
    elif code == _SIGNALLED:
        fill_signalled(context.signals, out)
    elif code == _SIGNIFICANCE:
        fill_significance(context.seasonality.links, out)
    else:
        _fill_estimate(code, pages, traces, out)


@bare_kernel
def fill_lowest(  # noqa: PLR0913, PLR0917  a kernel
    code: int,
    pages: Records,
    traces: Records,
    context: Context,
    since: float,
    ends: Floats,
    cycle_s: float,
    out: Floats,
) -> None:
    """Write the minimum of a terminal from `since` to each page's end to `out`: float64[m]. O(m)."""
    if code == RHYTHM:
        bound_seasonal_terminal(context.seasonality, since, ends, False, out)
        return
    if code == _SURGE:  # the slack is that of what rises with time: claims join it after
        for i in range(out.size):
            out[i] = _elapsed(pages[i], since, cycle_s)
        _convert_elapsed(code, pages, context, cycle_s, out)
    else:
        fill_terminal(code, pages, traces, context, since, cycle_s, out)
    if code in (_POSTERIOR, _SURGE, TAU):
        for i in range(out.size):
            out[i] *= 1.0 - _SLACK
    elif code == DUE:
        for i in range(out.size):
            out[i] = max(out[i] - _DUE_SLACK, 0.0)
    elif code == _GAIN:
        for i in range(out.size):
            out[i] = max(out[i] - _GAIN_SLACK, 0.0)
    if code == _SURGE:
        join_claims(context.seasonality.links, out)


@bare_kernel
def fill_highest(  # noqa: C901, PLR0913, PLR0917  a case for each terminal
    code: int, pages: Records, context: Context, since: float, ends: Floats, cycle_s: float, out: Floats
) -> None:
    """Write the maximum of a moving terminal from `since` to each page's end to `out`: float64[m]. O(m)."""
    if code == RHYTHM:
        bound_seasonal_terminal(context.seasonality, since, ends, True, out)
    elif code == DUE:
        _fill_expected(code, pages, context, ends, cycle_s, out)
        for i in range(out.size):
            out[i] = min(out[i] + _DUE_SLACK, 1.0)
    elif code == TAU:
        fill_seasonal_terminal_at(code, context.seasonality, pages, ends, cycle_s, out)
    elif code == _GAIN:
        _fill_expected(code, pages, context, ends, cycle_s, out)
        for i in range(out.size):
            out[i] = min(out[i] + _GAIN_SLACK, 1.0)
    else:
        for i in range(out.size):
            out[i] = _elapsed(pages[i], ends[i], cycle_s)
        _convert_elapsed(code, pages, context, cycle_s, out)
    if code in (_POSTERIOR, _SURGE):
        for i in range(out.size):
            out[i] = min(out[i] * (1.0 + _SLACK), 1.0)
    elif code == TAU:
        for i in range(out.size):
            out[i] *= 1.0 + _SLACK
    if code == _SURGE:
        join_claims(context.seasonality.links, out)


@bare_kernel
def _convert_elapsed(code: int, pages: Records, context: Context, cycle_s: float, out: Floats) -> None:
    """Replace the cycles since each page's last visit by the moving terminal of `code`, partly vectorised."""
    if code == _POSTERIOR:
        quieten_column(context.signals, cycle_s, out)
        convert_to_posterior(pages, out)
    elif code == _SURGE:
        _convert_to_surge(pages, context.groups, out)


@bare_kernel
def _convert_to_surge(pages: Records, groups: Records, out: Floats) -> None:
    """Replace the cycles since each page's last visit by the probability that a surge has hit it since."""
    for i in range(out.size):
        group: Record = groups[pages[i].group]
        out[i] = out[i] * group.hazard
    convert_to_probability(out)
    for i in range(out.size):
        spared = share_not_hit(groups[pages[i].group], pages[i].last_visit_s)
        out[i] = min((1.0 - spared) + spared * out[i], 1.0)


@inlined_kernel
def _fill_expected(code: int, pages: Records, context: Context, times: Floats, cycle_s: float, out: Floats) -> None:
    """Fill `out` with DUE or the expected gain of each page at its time; `out` may be `times`. O(m)."""
    if code == DUE:
        _fill_due(pages, context, times, cycle_s, out)
    else:
        _fill_gain(pages, context, times, cycle_s, out)


@bare_kernel
def _fill_due(pages: Records, context: Context, times: Floats, cycle_s: float, out: Floats) -> None:
    """Fill `out` with DUE of each page at its time, unless a signal had announced it; `out` may be `times`. O(m)."""
    view = context.seasonality
    at = float_column()
    for start in range(0, out.size, COLUMN_ROWS):
        stop = min(start + COLUMN_ROWS, out.size)
        column, signals = out[start:stop], context.signals[start:stop]
        for i in range(stop - start):
            at[i] = times[start + i]
        chunk = SeasonalityView(view.links[start:stop], view.schedules, view.profiles)
        fill_cycles_by_profile(chunk, pages[start:stop], at[: stop - start], cycle_s, column)
        quieten_column(signals, cycle_s, column)
        convert_to_posterior(pages[start:stop], column)
        for i in range(stop - start):
            prefetch_schedule(chunk, i + _AHEAD)
            if chunk.links[i].schedule:
                page: Record = pages[start + i]
                due = due_since(view, chunk.links[i], page, page.last_visit_s, at[i], cycle_s)
                column[i] = quieten_probability(signals[i], due) if signals.size else due


@bare_kernel
def _fill_gain(pages: Records, context: Context, times: Floats, cycle_s: float, out: Floats) -> None:
    """Fill `out` with the expected gain of a visit to each page at its time; `out` may be `times`. O(m)."""
    view = context.seasonality
    at, shapes, unseen, spared = float_column(), float_column(), float_column(), float_column()
    for start in range(0, out.size, COLUMN_ROWS):
        stop = min(start + COLUMN_ROWS, out.size)
        column, size = out[start:stop], stop - start
        for i in range(size):
            at[i] = times[start + i]
        chunk = SeasonalityView(view.links[start:stop], view.schedules, view.profiles)
        fill_cycles_by_profile(chunk, pages[start:stop], at[:size], cycle_s, column)
        signals = context.signals[start:stop]
        quieten_column(signals, cycle_s, column)
        for i in range(size):
            page: Record = pages[start + i]
            group: Record = context.groups[page.group]
            column[i] /= page.prior_exposure + page.own_exposure
            shapes[i] = page.prior_shape + page.own_shape
            unseen[i] = _elapsed(page, at[i], cycle_s) * group.hazard
            spared[i] = share_not_hit(group, page.last_visit_s) * unclaimed(chunk.links[i])
        join_signals(signals, unseen[:size], spared[:size])
        convert_to_gain(column, shapes[:size], unseen[:size], spared[:size])
        for i in range(size):
            prefetch_schedule(chunk, i + _AHEAD)
            link: Record = chunk.links[i]
            if link.schedule:
                page = pages[start + i]
                due = due_since(view, link, page, page.last_visit_s, at[i], cycle_s)
                if signals.size:
                    due = quieten_probability(signals[i], due)
                column[i] = expected_gain(due, shapes[i], unseen[i], spared[i])


@bare_kernel
def _fill_weight(code: int, pages: Records, out: Floats) -> None:
    """Write what the crawler reported of each page: its importance, its cost, or the one over the other."""
    if code == _IMPORTANCE:
        for i in range(out.size):
            out[i] = pages[i].importance
    else:
        for i in range(out.size):
            out[i] = pages[i].cost
    if code == _WORTH:
        for i in range(out.size):
            out[i] = pages[i].importance / out[i] if out[i] > 0.0 else 0.0


@bare_kernel
def _fill_estimate(code: int, pages: Records, traces: Records, out: Floats) -> None:
    """Write an estimator's rate for each page, see `published_estimators`, 0 without visits; or the crawl rate."""
    if code == _CG:
        for i in range(out.size):
            visits, changes = float(pages[i].visits), float(pages[i].changes)
            out[i] = changes / (visits - changes + 0.5)
        take_log1p(out)
    elif code == _NAD:
        for i in range(out.size):
            out[i] = pages[i].changes / max(float(pages[i].visits), 1.0)
    elif code == _SAD:
        for i in range(out.size):
            out[i] = float(traces[i].history & np.uint64(1)) if pages[i].visits else 0.0
    elif code == _AAD:
        for i in range(out.size):
            visits = max(float(pages[i].visits), 1.0)
            out[i] = traces[i].weighted_changes / (visits * (visits + 1.0)) * 2.0
    elif code == _CRAWL_RATE:
        for i in range(out.size):
            out[i] = traces[i].crawl_rate
    else:
        for i in range(out.size):
            out[i] = weigh_geometrically(pages[i].visits, traces[i].history)


@inlined_kernel
def _elapsed(page: Record, now: float, cycle_s: float) -> float:
    """Return the cycles since the page's last visit, or since it became known."""
    cycles: float = (now - page.last_visit_s) / cycle_s
    return min(max(cycles, 0.0), LONGEST_INTERVAL)
