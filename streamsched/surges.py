"""Surges: bulk edits and releases, which change many pages of one host or URL pattern at once (SPEC 4).

Time is cut into windows of a cycle, for each group from a visit on: a page that was last visited before a window began
and is visited in it tells whether the group was hit. The group keeps how probable it is that a surge has hit each of
`SHARES` of its pages; a visit multiplies each by its likelihood, which is exact for one surge alone: a change has the
probability 1 - q·(1 - s), where q is that of no change by the page itself or by another surge that it bears, and no
change has q·(1 - s). What is expected beyond the hazard, the share that surges hit unseen in an ordinary window, is
shown: every page not visited since bears it, at once. A window that showed a surge is kept after its end, with its
evidence still coming in; other windows only say how common surges are, which is learned for each group, shrunk towards
its host's, and that towards a guess. So levels at which pages do not change together come to show nothing.

A page reads its URL pattern and its host, no group in between. What is shown moves in steps, each told to rankings, and
costs them O(pages of the group); visits cost O(1).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.arrays import Floats, Record, Records
from streamsched.elementary import expm1, log1p
from streamsched.jit import bare_kernel, inlined
from streamsched.tables import LONGEST_INTERVAL, SHORTEST_INTERVAL, SURGE_SHARES, Tables
from streamsched.touched import Noted, note_group

__all__ = [
    "FIRST_CHANCE",
    "SHARES",
    "begin_surges",
    "hazard_of",
    "spared_share",
    "surge_chance",
    "weigh_surges",
]

SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)  # middles of equal parts: any share is as likely as another at first
FIRST_CHANCE: Final = 0.01  # of a surge in a window, before anything is learned: one in a hundred
CHANCE_STRENGTH: Final = 20.0  # windows that the level above counts for, or FIRST_CHANCE for a host's
WINDOW_MEMORY: Final = 1_000.0  # windows until what one said of surges' chance has faded to a third
STEP: Final = 1 / 16  # by so much must a share have moved to be shown anew: evidence comes in smaller pieces
LEAST_SHOWN: Final = 1 / 32  # share; a lower one is no surge, though the hazard counts it
HAZARD_STEP: Final = 2.0**0.25  # factor by which the hazard must have moved

_MEAN_SHARE: Final = math.fsum(SHARES) / len(SHARES)
_LEAST_DOUBT: Final = 1e-6  # probability that there was no surge, whatever visits say: numbers end somewhere
_UNLIKELIEST: Final = 1e-12  # own change of a page: it must not take a change for certain, nor for impossible

assert len(SHARES) == SURGE_SHARES


def begin_surges(groups: Records) -> None:
    """Let groups know of no surge yet: those that come from a state that did not hold what surges learn. O(groups)."""
    groups["open_s"] = groups["kept_s"] = -np.inf


@inlined
def weigh_surges(  # noqa: PLR0913, PLR0917  a kernel
    tables: Tables, noted: Noted, page: Record, at_s: float, interval: float, changed: bool, cycle_s: float
) -> float:
    """Take in a visit at `at_s` to a page, `interval` cycles after its last, whose record is as before. O(1).

    Returns how probable it is that the page itself changed, no surge alone: 1 where no change was seen.
    """
    group = np.int64(page.group)
    host = np.int64(tables.groups[group].host)
    _turn_window(tables, noted, host, at_s, cycle_s)
    if group != host:
        _turn_window(tables, noted, group, at_s, cycle_s)
    if changed:
        return _weigh_change(tables, noted, page, at_s, interval)
    _weigh_quiet(tables, noted, host, page.last_visit_s, at_s)
    if group != host:
        _weigh_quiet(tables, noted, group, page.last_visit_s, at_s)
    return 1.0


@inlined
def spared_share(groups: Records, page: Record) -> float:
    """Return the share of pages like this one that no surge shown since its last visit has hit. O(1)."""
    group: Record = groups[page.group]
    spared = _spare(group, page.last_visit_s)
    if group.host != page.group:
        spared *= _spare(groups[group.host], page.last_visit_s)
    return spared


@inlined
def hazard_of(groups: Records, page: Record) -> float:
    """Return the share of pages like this one that surges hit unseen, a cycle. O(1)."""
    group: Record = groups[page.group]
    hazard = float(group.hazard)
    if group.host != page.group:
        hazard += float(groups[group.host].hazard)
    return hazard


@inlined
def surge_chance(groups: Records, group: int) -> float:
    """Return the probability that a window of `group` has a surge, before it is seen. O(1)."""
    record: Record = groups[group]
    above = FIRST_CHANCE
    if record.depth > 0:
        host: Record = groups[record.host]
        above = (CHANCE_STRENGTH * FIRST_CHANCE + host.surge_sum) / (CHANCE_STRENGTH + host.window_count)
    return float((CHANCE_STRENGTH * above + record.surge_sum) / (CHANCE_STRENGTH + record.window_count))


@inlined
def _spare(group: Record, last_visit_s: float) -> float:
    spared = 1.0
    if last_visit_s < group.open_s:
        spared -= group.open_shown
    if last_visit_s < group.kept_s:
        spared *= 1.0 - group.kept_shown
    return spared


@inlined
def _turn_window(tables: Tables, noted: Noted, group: int, at_s: float, cycle_s: float) -> None:
    """Begin a window where the present one is over: a cycle is past, or a clock was set back by as much."""
    if abs(at_s - tables.groups[group].open_s) >= cycle_s:
        _begin_window(tables, noted, group, at_s, cycle_s)


@bare_kernel
def _begin_window(tables: Tables, noted: Noted, group: int, at_s: float, cycle_s: float) -> None:
    record: Record = tables.groups[group]
    if record.open_s > -np.inf:
        _end_window(tables, noted, group, cycle_s)
    chance = surge_chance(tables.groups, group)
    hazard = (CHANCE_STRENGTH * chance * _MEAN_SHARE + record.missed_sum) / (CHANCE_STRENGTH + record.window_count)
    if not record.hazard <= hazard * HAZARD_STEP or not hazard <= record.hazard * HAZARD_STEP:
        record.hazard = hazard
        note_group(noted, group, np.inf)
    for i in range(SURGE_SHARES):
        record.open_weights[i] = chance / SURGE_SHARES
    record.open_s = at_s
    record.open_shown = 0.0


@bare_kernel
def _end_window(tables: Tables, noted: Noted, group: int, cycle_s: float) -> None:
    """Learn from the present window how common surges are, and keep it if it shows more than the one kept does.

    That one's claim falls with its age, for its pages are visited meanwhile.
    """
    record: Record = tables.groups[group]
    record.surge_sum += 1.0 - _doubt(record.open_weights) - record.surge_sum / WINDOW_MEMORY
    record.missed_sum -= record.missed_sum / WINDOW_MEMORY
    record.window_count += 1.0 - record.window_count / WINDOW_MEMORY
    if record.open_shown == 0.0:
        record.missed_sum += _expect(record.open_weights)
        return
    age = abs(record.open_s - record.kept_s) / cycle_s
    if record.kept_shown > record.open_shown * age:
        note_group(noted, group, record.open_s)
        return
    if record.kept_shown > 0.0:
        note_group(noted, group, record.kept_s)
    record.kept_s, record.kept_shown = record.open_s, record.open_shown
    for i in range(SURGE_SHARES):
        record.kept_weights[i] = record.open_weights[i]


@inlined
def _weigh_quiet(tables: Tables, noted: Noted, group: int, last_visit_s: float, at_s: float) -> None:
    """Take in that a page of `group` did not change."""
    record: Record = tables.groups[group]
    if last_visit_s < record.open_s <= at_s:
        _hear_quiet(record.open_weights)
        _show_open(tables, noted, group)
    if last_visit_s < record.kept_s <= at_s and record.kept_shown > 0.0:
        _hear_quiet(record.kept_weights)
        _show_kept(tables, noted, group)


@bare_kernel
def _weigh_change(tables: Tables, noted: Noted, page: Record, at_s: float, interval: float) -> float:
    """Take in that a page changed; return how probable it is that it would have without a surge."""
    group = np.int64(page.group)
    host = np.int64(tables.groups[group].host)
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    own = min(max(0.0 - expm1(-shape * log1p(interval / exposure)), _UNLIKELIEST), 1.0 - _UNLIKELIEST)
    quiet = (1.0 - own) * _spare_expected(tables.groups[host], page.last_visit_s, at_s)
    if group != host:
        quiet *= _spare_expected(tables.groups[group], page.last_visit_s, at_s)
        _hear_changes(tables, noted, group, page.last_visit_s, at_s, quiet)
    _hear_changes(tables, noted, host, page.last_visit_s, at_s, quiet)
    return float(own / (1.0 - quiet))


@inlined
def _spare_expected(group: Record, last_visit_s: float, at_s: float) -> float:
    """Return the probability that a page visited now was hit by no surge of the group, as believed before."""
    spared = 1.0
    if last_visit_s < group.open_s <= at_s:
        spared -= _expect(group.open_weights)
    if last_visit_s < group.kept_s <= at_s and group.kept_shown > 0.0:
        spared *= 1.0 - _expect(group.kept_weights)
    return spared


@inlined
def _hear_changes(  # noqa: PLR0913, PLR0917  a kernel
    tables: Tables, noted: Noted, group: int, last_visit_s: float, at_s: float, quiet: float
) -> None:
    """Take in a change to a page of `group` that had the probability `quiet` not to come."""
    record: Record = tables.groups[group]
    if last_visit_s < record.open_s <= at_s:
        _hear_change(record.open_weights, quiet)
        _show_open(tables, noted, group)
    if last_visit_s < record.kept_s <= at_s and record.kept_shown > 0.0:
        _hear_change(record.kept_weights, quiet)
        _show_kept(tables, noted, group)


@inlined
def _hear_quiet(weights: Floats) -> None:
    total = _doubt(weights)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - SHARES[i])
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - SHARES[i]) / total


@inlined
def _hear_change(weights: Floats, quiet: float) -> None:
    others = quiet / (1.0 - _expect(weights))  # that nothing else changed the page
    total = _doubt(weights) * (1.0 - others)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - others * (1.0 - SHARES[i]))
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - others * (1.0 - SHARES[i])) / total


@inlined
def _doubt(weights: Floats) -> float:
    """Return the probability that there was no surge."""
    doubt = 1.0
    for i in range(SURGE_SHARES):
        doubt -= weights[i]
    return max(doubt, _LEAST_DOUBT)


@inlined
def _expect(weights: Floats) -> float:
    """Return the share of the group's pages that are expected to be hit."""
    expected = 0.0
    for i in range(SURGE_SHARES):
        expected += weights[i] * SHARES[i]
    return expected


@inlined
def _show_open(tables: Tables, noted: Noted, group: int) -> None:
    record: Record = tables.groups[group]
    shown = _choose_shown(_expect(record.open_weights), record.hazard, record.open_shown)
    if shown != record.open_shown:
        record.open_shown = shown
        note_group(noted, group, record.open_s)


@inlined
def _show_kept(tables: Tables, noted: Noted, group: int) -> None:
    record: Record = tables.groups[group]
    shown = _choose_shown(_expect(record.kept_weights), record.hazard, record.kept_shown)
    if shown != record.kept_shown:
        record.kept_shown = shown
        note_group(noted, group, record.kept_s)


@inlined
def _choose_shown(expected: float, hazard: float, shown: float) -> np.float32:
    """Return what to show of an expected share, now that `shown` is."""
    excess = (expected - hazard) / (1.0 - hazard)
    if abs(excess - shown) > STEP or (shown > 0.0 and excess < LEAST_SHOWN):
        return np.float32(excess if excess >= LEAST_SHOWN else 0.0)
    return np.float32(shown)
