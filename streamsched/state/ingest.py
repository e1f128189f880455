"""What an outcome does to a page: the one kernel that applies a batch, in stream order."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.change_detection import CHANGE, FAILURE, FIRST, is_gone, is_success, judge, shows_content
from streamsched.estimation.hierarchical_prior import advance_sweep, renew_prior, weigh_pattern
from streamsched.estimation.page_update import learn
from streamsched.estimation.seasonality.group_profiles import follow_profile, renew_link, set_clock
from streamsched.estimation.seasonality.seasonality_update import learn_rhythm, prefetch_rhythm
from streamsched.estimation.surges import weigh_surges
from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined, prefetch
from streamsched.outcomes import CHANGED, COST, FINGERPRINT, IMPORTANCE, RETRY_AFTER, STATUS
from streamsched.politeness.limits import Limits, hear_host, recall
from streamsched.records.dirty_tracking import mark_group, mark_row
from streamsched.records.schema import (
    FOR_PANEL,
    LEASED,
    SUCCEEDED,
    URGENT,
    VISITED,
    WITH_FINGERPRINT,
    Tables,
)
from streamsched.records.score_invalidation import Noted, note_row
from streamsched.records.url_index import ROWS_AT_ONCE, IndexArrays, resolve
from streamsched.records.url_patterns import renew_candidates, sort_page
from streamsched.records.visit_journal import SAW_CHANGE, WAS_FIRST, keep_visit, narrow_sample

__all__ = ["COUNTS", "Columns", "Rules", "Told", "apply_outcomes", "begin_pages"]

# Positions in the counts that `apply_outcomes` adds to; every outcome is APPLIED, DUPLICATES or LATE, and an applied
# one also one of the rest. Of those that were leased for their score and showed whether their page had changed, SERVED
# counts all, HITS those that had.
APPLIED, CHANGES, FIRST_VISITS, FAILURES, DUPLICATES, LATE, UNCHANGED, SERVED, HITS = range(9)
COUNTS: Final = 9

_AHEAD: Final = 12  # outcomes between asking the memory for a group and using it
_HOST_AHEAD: Final = 6  # ... for its host, which the group names


class Rules(NamedTuple):
    """How outcomes are read: the cycle in seconds, from how many bits on fingerprints differ, the limits, and whether
    they tell of surges.
    """

    cycle_s: float
    change_bits: int
    limits: Limits
    surges: bool


class Columns(NamedTuple):
    """The columns of a batch as the kernel takes them; an absent one has length 0."""

    blob: Bytes
    offsets: Ints
    fetched_at: Floats
    given: Bytes
    status: npt.NDArray[np.int32]
    fingerprint: Hashes
    changed: Bools
    importance: Floats
    cost: Floats
    retry_after: Floats


class Told(NamedTuple):
    """What a batch did: ``counts``: int64[COUNTS], and the rows whose scores it may have moved."""

    counts: Ints
    noted: Noted


@bare_kernel
def begin_pages(tables: Tables, known_since_s: float) -> None:
    """Sort into groups all pages entered since the last call, as known since `known_since_s`. O(URL) a page."""
    for row in range(tables.corpus[0].sorted, tables.corpus[0].pages):
        _begin_page(tables, row, known_since_s)


@bare_kernel
def _begin_page(tables: Tables, row: int, known_since_s: float) -> None:
    mark_row(tables, row)
    tables.pages[row].last_visit_s = known_since_s
    renew_candidates(tables, row + 1)
    tables.corpus[0].sorted = row + 1
    narrow_sample(tables, row + 1)
    known_groups = int(tables.corpus[0].groups)
    sort_page(tables, row)
    for group in range(known_groups, tables.corpus[0].groups):
        follow_profile(tables, group)
    renew_prior(tables, tables.pages[row])
    renew_link(tables, row)
    set_clock(tables.rhythm, row, known_since_s)


@bare_kernel
def apply_outcomes(
    tables: Tables, index: IndexArrays, columns: Columns, span: tuple[int, int], rules: Rules, told: Told
) -> None:
    """Apply the outcomes from ``span[0]`` up to ``span[1]``, in order, and add to what is told. O(1) each.

    A page that is new gets the next row: room must have been made. Rows are looked up `ROWS_AT_ONCE` outcomes at a
    time, so few that their records are still in the core's own cache when the outcomes are applied.
    """
    for start in range(span[0], span[1], ROWS_AT_ONCE):
        rows = index.rows[: min(ROWS_AT_ONCE, span[1] - start)]
        resolve(tables, index, columns.blob, columns.offsets[start : start + rows.size + 1], rows, True)
        _apply(tables, rows, start, columns, rules, told)


@bare_kernel
def _apply(tables: Tables, rows: Ints, start: int, columns: Columns, rules: Rules, told: Told) -> None:
    """Apply outcome ``start + i`` to ``rows[i]``, in order."""
    counts = told.counts
    for i in range(rows.size):
        if i + _AHEAD < rows.size:
            soon: Record = tables.pages[rows[i + _AHEAD]]
            prefetch(tables.groups, np.int64(soon.group))
            prefetch(tables.rhythm.links, rows[i + _AHEAD])
        if i + _HOST_AHEAD < rows.size:
            near: Record = tables.pages[rows[i + _HOST_AHEAD]]
            group: Record = tables.groups[near.group]
            prefetch(tables.groups, np.int64(group.host))
            prefetch_rhythm(tables.rhythm, rows[i + _HOST_AHEAD])
        at = start + i
        fetched_at = columns.fetched_at[at]
        for row in range(tables.corpus[0].sorted, rows[i] + 1):  # more than one only after an interrupt
            _begin_page(tables, row, fetched_at)
        page: Record = tables.pages[rows[i]]
        trace: Record = tables.traces[rows[i]]
        if fetched_at <= trace.last_outcome_s:
            counts[DUPLICATES if fetched_at == trace.last_outcome_s else LATE] += 1
            continue
        counts[APPLIED] += 1
        note_row(told.noted, rows[i])
        served = (page.flags & (LEASED | FOR_PANEL)) == LEASED
        became = _apply_one(tables, rows[i], at, columns, rules, told.noted)
        counts[became] += 1
        if served and became in (CHANGES, UNCHANGED):
            counts[SERVED] += 1
            counts[HITS] += became == CHANGES


@inlined
def _apply_one(tables: Tables, row: int, at: int, columns: Columns, rules: Rules, noted: Noted) -> int:
    """Apply one outcome that is newer than all of its page; return the count it belongs to besides APPLIED."""
    page = tables.pages[row]
    trace = tables.traces[row]
    given = columns.given[at]
    group: Record = tables.groups[page.group]
    mark_row(tables, row)
    mark_group(tables, np.int64(page.group))
    mark_group(tables, np.int64(group.host))
    trace.last_outcome_s = columns.fetched_at[at]
    recall(tables, row)
    page.flags &= ~np.uint8(LEASED | FOR_PANEL | URGENT)
    tables.corpus[0].applied += 1
    renew_prior(tables, page)  # whatever the outcome: the page's record is at hand, and its group's
    renew_link(tables, row)
    if given & IMPORTANCE:
        page.importance = columns.importance[at]
    if given & COST:
        page.cost = columns.cost[at]
    status = columns.status[at] if given & STATUS else np.int32(200)
    retry_after = columns.retry_after[at] if given & RETRY_AFTER else 0.0
    hear_host(tables.groups[group.host], rules.limits, given, status, retry_after, columns.fetched_at[at])
    fingerprint = columns.fingerprint[at] if given & FINGERPRINT else np.uint64(0)
    verdict = judge(
        given,
        status,
        fingerprint,
        columns.changed[at] if given & CHANGED else False,
        (page.flags & VISITED) != 0,
        (page.flags & SUCCEEDED) != 0,
        (page.flags & WITH_FINGERPRINT) != 0,
        trace.fingerprint,
        rules.change_bits,
    )
    if verdict == FAILURE:
        tables.corpus[0].failures += 1
        if page.failures < 0xFF:
            page.failures += 1
        return FAILURES
    if verdict != FIRST:
        due = learn_rhythm(tables, row, columns.fetched_at[at], verdict == CHANGE, rules.cycle_s)
        _learn(tables, row, columns.fetched_at[at], verdict == CHANGE, due, rules, noted)
    _remember(tables, row, status, verdict == CHANGE, shows_content(given, status), fingerprint)
    page.last_visit_s = columns.fetched_at[at]
    set_clock(tables.rhythm, row, columns.fetched_at[at])
    keep_visit(tables, row, columns.fetched_at[at], SAW_CHANGE * (verdict == CHANGE) + WAS_FIRST * (verdict == FIRST))
    if verdict == FIRST:
        return FIRST_VISITS
    advance_sweep(tables)
    return CHANGES if verdict == CHANGE else UNCHANGED


@inlined
def _learn(  # noqa: PLR0913, PLR0917  a kernel
    tables: Tables, row: int, at_s: float, changed: bool, due: float, rules: Rules, noted: Noted
) -> None:
    """Update the page's estimators, its group's counts and what is known of surges with one observed interval.

    `due`: how probable a change was by the page's schedule; NaN where it has none.
    """
    page: Record = tables.pages[row]
    group: Record = tables.groups[page.group]
    interval = (at_s - page.last_visit_s) / rules.cycle_s
    group.visits += 1
    group.changes += changed
    own = 1.0
    if rules.surges:
        own = weigh_surges(tables, noted, page, at_s, interval, changed, due, rules.cycle_s)
    weigh_pattern(tables, page, interval, changed, own)
    learn(page, tables.traces[row], interval, changed, own)


@inlined
def _remember(tables: Tables, row: int, status: int, changed: bool, shows: bool, fingerprint: int) -> None:
    """Keep what the next visit is to be compared with."""
    page = tables.pages[row]
    page.failures = 0
    page.gone = min(page.gone + 1, 255) if is_gone(status) else 0
    page.flags |= np.uint8(VISITED)
    if is_success(status):
        page.flags |= np.uint8(SUCCEEDED)
        if changed:
            page.flags &= ~np.uint8(WITH_FINGERPRINT)  # of a content that is gone, unless renewed below
    else:
        page.flags &= ~np.uint8(SUCCEEDED)
    if shows:
        page.flags |= np.uint8(WITH_FINGERPRINT)
        tables.traces[row].fingerprint = fingerprint
