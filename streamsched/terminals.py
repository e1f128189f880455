"""Terminals: what a formula may read of a page, as a column for a block of rows at a time `now` (SPEC 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from streamsched.arrays import Floats, Record, Records
from streamsched.elementary import expm1, log1p
from streamsched.estimators import weigh_geometrically
from streamsched.formula.vocabulary import PLANNED, TERMINALS
from streamsched.jit import bare_kernel, inlined, widen_vectors
from streamsched.surges import spared_share
from streamsched.tables import LONGEST_INTERVAL

__all__ = [
    "GROUPED",
    "MOVING",
    "PROVIDED",
    "RANGES",
    "TERMINAL_CODES",
    "TerminalColumns",
    "fill_terminal",
    "fill_terminal_at",
    "loosen_terminal",
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

# What kernels call a terminal: its place in TERMINALS. Some of SPEC 4 are not told yet.
TERMINAL_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {name: code for code, name in enumerate(TERMINALS) if name not in PLANNED}
)
PROVIDED: Final = tuple(TERMINAL_CODES)  # the terminals that a page's record tells, with its group's
GROUPED: Final = frozenset({"surge"})  # those that read what the page's group shows
MOVING: Final = frozenset({"t", "posterior", "surge"})  # those that the clock moves, upwards alone
# Between which numbers terminals stay, where more is known than that they are finite and not negative.
RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    dict.fromkeys(("NAD", "SAD", "AAD", "GAD", "posterior", "surge"), (0.0, 1.0 + 1e-09))
    | {"t": (0.0, LONGEST_INTERVAL)}
)
_SLACK: Final = 2e-15  # of `posterior` and `surge`, which rise with time but for some units in the last place


class TerminalColumns:
    """Columns of the wanted terminals for blocks of up to `block` pages, in buffers that are reused; for one thread.

    Every value is finite and 0 or more. `buffers`: float64[wanted or more, block or more], where columns are to lie.
    """

    def __init__(self, wanted: Collection[str], block: int, buffers: Floats | None = None) -> None:
        self.wanted = tuple(wanted)
        rows = np.empty((len(self.wanted), block)) if buffers is None else buffers
        self._columns = dict(zip(self.wanted, rows, strict=False))

    def fill(self, pages: Records, traces: Records, groups: Records, now: float, cycle_s: float) -> dict[str, Floats]:
        """Return float64[m] for each wanted terminal of m pages, valid until the next call. O(m).

        `pages`: PAGE[m]; `traces`: TRACE[m]; `groups`: GROUP[all]; `now`: UTC epoch seconds. Runs without the
        interpreter lock.
        """
        columns = {name: column[: pages.size] for name, column in self._columns.items()}
        for name, column in columns.items():
            fill_terminal(TERMINAL_CODES[name], pages, traces, groups, now, cycle_s, column)
        return columns


@bare_kernel
def fill_terminal(  # noqa: C901, PLR0913, PLR0917  a case for each terminal
    code: int, pages: Records, traces: Records, groups: Records, now: float, cycle_s: float, out: Floats
) -> None:
    """Fill `out`: float64[m] with the terminal of `code` for m pages. O(m).

    `pages`: PAGE[m]; `traces`: TRACE[m]; `groups`: GROUP[all], which the pages name; `now` in seconds, as the pages'
    times; nothing is checked.
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
        _turn_elapsed(code, pages, groups, out)
    elif code == _RATE:
        for i in range(out.size):
            page = pages[i]
            out[i] = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    elif code == _IMPORTANCE:
        for i in range(out.size):
            out[i] = pages[i].importance
    elif code == _COST:
        for i in range(out.size):
            out[i] = pages[i].cost
    else:
        _fill_estimate(code, pages, traces, out)


@bare_kernel
def fill_terminal_at(code: int, pages: Records, groups: Records, times: Floats, cycle_s: float, out: Floats) -> None:
    """Fill `out`: float64[m] with the moving terminal of `code`, each page at its own of ``times``. O(m)."""
    for i in range(out.size):
        out[i] = _elapsed(pages[i], times[i], cycle_s)
    _turn_elapsed(code, pages, groups, out)


@bare_kernel
def loosen_terminal(code: int, upwards: bool, out: Floats) -> None:
    """Move a column outwards by as much as rounding may keep its terminal from rising with time. O(m)."""
    if code in (_POSTERIOR, _SURGE):
        factor = 1.0 + _SLACK if upwards else 1.0 - _SLACK
        for i in range(out.size):
            out[i] *= factor


@bare_kernel
def _turn_elapsed(code: int, pages: Records, groups: Records, out: Floats) -> None:
    """Turn the cycles since each page's last visit into the moving terminal of `code`, some on vectors."""
    if code == _POSTERIOR:
        _turn_to_posterior(pages, out)
    elif code == _SURGE:
        _turn_to_surge(pages, groups, out)


@bare_kernel
def _turn_to_posterior(pages: Records, out: Floats) -> None:
    """Turn the cycles since each page's last visit into the probability that it has changed since."""
    for i in range(out.size):
        out[i] = out[i] / (pages[i].prior_exposure + pages[i].own_exposure)
    _take_log1p(out)
    for i in range(out.size):
        out[i] = out[i] * (pages[i].prior_shape + pages[i].own_shape)
    _turn_to_probability(out)


@bare_kernel
def _turn_to_surge(pages: Records, groups: Records, out: Floats) -> None:
    """Turn the cycles since each page's last visit into the probability that a surge of its group has hit it since."""
    for i in range(out.size):
        group: Record = groups[pages[i].group]
        out[i] = out[i] * group.hazard
    _turn_to_probability(out)
    for i in range(out.size):
        spared = spared_share(groups[pages[i].group], pages[i].last_visit_s)
        out[i] = (1.0 - spared) + spared * out[i]


@bare_kernel
def _fill_estimate(code: int, pages: Records, traces: Records, out: Floats) -> None:
    """Fill an estimator's rate for each page, as `streamsched.estimators` has them; 0 for pages without visits."""
    if code == _CG:
        for i in range(out.size):
            visits, changes = float(pages[i].visits), float(pages[i].changes)
            out[i] = changes / (visits - changes + 0.5)
        _take_log1p(out)
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


@bare_kernel
def _take_log1p(out: Floats) -> None:
    widen_vectors()
    for i in range(out.size):
        out[i] = log1p(out[i])


@bare_kernel
def _turn_to_probability(out: Floats) -> None:
    """Turn the expected changes of each page into the probability of one."""
    widen_vectors()
    for i in range(out.size):
        out[i] = 0.0 - expm1(-out[i])


@inlined
def _elapsed(page: Record, now: float, cycle_s: float) -> float:
    """Return the cycles since the page's last visit, or since it became known."""
    cycles: float = (now - page.last_visit_s) / cycle_s
    return min(max(cycles, 0.0), LONGEST_INTERVAL)
