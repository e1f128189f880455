"""Terminals: what a formula can read of a page, as a column for a block of rows at a time `now` (SPEC 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.estimation.probability_columns import convert_to_posterior, convert_to_probability, take_log1p
from streamsched.estimation.published_estimators import weigh_geometrically
from streamsched.estimation.related.claims import join_claims, unclaimed
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
from streamsched.estimation.surges import share_not_hit
from streamsched.formula.expected_gain import convert_to_gain, expected_gain
from streamsched.formula.syntax.vocabulary import PLANNED, TERMINALS
from streamsched.numerics.compilation.machine_operations import COLUMN_ROWS, float_column
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.group_schema import GROUP
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.seasonality_schema import PROFILE, SCHEDULE, SEASONAL_LINK, SeasonalityArrays

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints, Record, Records

__all__ = [
    "LINKED",
    "MOVING",
    "NO_CONTEXT",
    "PROVIDED",
    "RANGES",
    "SEASONAL",
    "TERMINAL_CODES",
    "Context",
    "TerminalColumns",
    "context_of",
    "fill_highest",
    "fill_lowest",
    "fill_terminal",
    "linked_context",
]

_VISITS: Final = 0
_CHANGES: Final = 1
_ELAPSED: Final = 2
_CG: Final = 3
_NAD: Final = 4
_SAD: Final = 5
_AAD: Final = 6
_GAD: Final = 7
_RATE: Final = 8
_POSTERIOR: Final = 9
_IMPORTANCE: Final = 10
_COST: Final = 11
_SURGE: Final = 15
_CONFIDENCE: Final = 16
_WORTH: Final = 17
_GAIN: Final = 18

# Codes of terminals in kernels: their positions in TERMINALS.
TERMINAL_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {name: code for code, name in enumerate(TERMINALS) if name not in PLANNED}
)
PROVIDED: Final = tuple(TERMINAL_CODES)  # the terminals that a shard provides
MOVING: Final = frozenset(
    {"t", "posterior", "tau", "rhythm", "due", "surge", "gain"}
)  # with the clock; all but rhythm only rise
SEASONAL: Final = frozenset({"tau", "rhythm", "due", "gain"})  # those that read what the page's seasonal link refers to
LINKED: Final = SEASONAL | {"surge"}  # those that read the page's seasonal link
# Ranges of terminals that are narrower than all finite numbers from 0 on.
RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    dict.fromkeys(("NAD", "SAD", "AAD", "GAD"), (0.0, 1.0 + 1e-09))
    | dict.fromkeys(("posterior", "due", "surge", "gain"), (0.0, 1.0))  # exactly, so that 1 - due is never negative
    | {"t": (0.0, LONGEST_INTERVAL), "tau": (0.0, 1.1 * LONGEST_INTERVAL)}
)
_SLACK: Final = 2e-15  # relative, of `posterior`, `surge` and `tau`, which rise with time except for some ulps
_DUE_SLACK: Final = 1e-12  # absolute, of `due`, which combines several such values and is 1 minus a remainder
_GAIN_SLACK: Final = 1e-10  # absolute, of `gain`, whose slope in `due` is below 40
_AHEAD: Final = 8  # pages between prefetching a schedule and reading it


class Context(NamedTuple):
    """What terminals read besides the pages: the groups that the pages belong to, and their seasonality."""

    groups: Records  # GROUP[all]
    seasonality: SeasonalityView


NO_CONTEXT: Final = Context(
    np.zeros(1, GROUP), SeasonalityView(np.empty(0, SEASONAL_LINK), np.empty(0, SCHEDULE), np.empty(0, PROFILE))
)
"""The context of pages that are all of group 0, without surges or seasonality: for terminals not in `LINKED`."""


@inlined_kernel
def linked_context(groups: Records, seasonality: SeasonalityArrays, links: Records) -> Context:
    """Return the context of pages with these ``links``: SEASONAL_LINK[m]. O(1)."""
    return Context(groups, SeasonalityView(links, seasonality.schedules, seasonality.profiles))


def context_of(groups: Records, seasonality: SeasonalityArrays, rows: slice | Ints) -> Context:
    """Return the context of the pages of `rows`. O(1), or O(m) for int64[m]."""
    return Context(groups, seasonality_view(seasonality, rows))


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
        _convert_elapsed(code, pages, context.groups, out)
        if code == _SURGE:
            join_claims(context.seasonality.links, out)
    elif code in (_RATE, _CONFIDENCE):
        for i in range(out.size):
            page = pages[i]
            shape = page.prior_shape + page.own_shape
            out[i] = shape / (page.prior_exposure + page.own_exposure) if code == _RATE else shape
    elif code in (_IMPORTANCE, _COST, _WORTH):
        _fill_weight(code, pages, out)
    elif code in (TAU, RHYTHM, DUE):
        fill_seasonal_terminal(code, context.seasonality, pages, now, cycle_s, out)
    elif code == _GAIN:
        for i in range(out.size):
            out[i] = now
        _fill_gain(pages, context, out, cycle_s, out)
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
        _convert_elapsed(code, pages, context.groups, out)
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
        fill_seasonal_terminal_at(code, context.seasonality, pages, ends, cycle_s, out)
        for i in range(out.size):
            out[i] = min(out[i] + _DUE_SLACK, 1.0)
    elif code == TAU:
        fill_seasonal_terminal_at(code, context.seasonality, pages, ends, cycle_s, out)
    elif code == _GAIN:
        _fill_gain(pages, context, ends, cycle_s, out)
        for i in range(out.size):
            out[i] = min(out[i] + _GAIN_SLACK, 1.0)
    else:
        for i in range(out.size):
            out[i] = _elapsed(pages[i], ends[i], cycle_s)
        _convert_elapsed(code, pages, context.groups, out)
    if code in (_POSTERIOR, _SURGE):
        for i in range(out.size):
            out[i] = min(out[i] * (1.0 + _SLACK), 1.0)
    elif code == TAU:
        for i in range(out.size):
            out[i] *= 1.0 + _SLACK
    if code == _SURGE:
        join_claims(context.seasonality.links, out)


@bare_kernel
def _convert_elapsed(code: int, pages: Records, groups: Records, out: Floats) -> None:
    """Replace the cycles since each page's last visit by the moving terminal of `code`, partly vectorised."""
    if code == _POSTERIOR:
        convert_to_posterior(pages, out)
    elif code == _SURGE:
        _convert_to_surge(pages, groups, out)


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
        for i in range(size):
            page: Record = pages[start + i]
            group: Record = context.groups[page.group]
            column[i] /= page.prior_exposure + page.own_exposure
            shapes[i] = page.prior_shape + page.own_shape
            unseen[i] = _elapsed(page, at[i], cycle_s) * group.hazard
            spared[i] = share_not_hit(group, page.last_visit_s) * unclaimed(chunk.links[i])
        convert_to_gain(column, shapes[:size], unseen[:size], spared[:size])
        for i in range(size):
            prefetch_schedule(chunk, i + _AHEAD)
            link: Record = chunk.links[i]
            if link.schedule:
                page = pages[start + i]
                due = due_since(view, link, page, page.last_visit_s, at[i], cycle_s)
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
    """Write an estimator's rate for each page, see `published_estimators`; 0 for pages without visits."""
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
    else:
        for i in range(out.size):
            out[i] = weigh_geometrically(pages[i].visits, traces[i].history)


@inlined_kernel
def _elapsed(page: Record, now: float, cycle_s: float) -> float:
    """Return the cycles since the page's last visit, or since it became known."""
    cycles: float = (now - page.last_visit_s) / cycle_s
    return min(max(cycles, 0.0), LONGEST_INTERVAL)
