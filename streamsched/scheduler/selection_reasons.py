"""Why a page is in the next batch or not, in words."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Ints
from streamsched.numerics.topk_order import sort_keys
from streamsched.politeness.eligibility import read_waits
from streamsched.politeness.limits import host_capacity
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.records.page_schema import URGENT, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name

__all__ = ["ComposedBatch", "describe_membership"]

_SCORE, _BETTER, _SAME, _PANEL, _ASKED, _OVERDUE, _NEW, _LOT, _SURGE_PROBE = range(9)  # what gives a page its place
_WHY: Final = {
    _PANEL: "as a member of the panel",
    _ASKED: "because it was asked for",
    _OVERDUE: "because it is overdue",
    _NEW: "in the share of pages never visited",
    _LOT: "drawn by lot, in the share for exploration",
    _SURGE_PROBE: "as a surge probe, to see whether a surge has hit the other pages of its URL pattern",
}
_WHAT: Final = {  # of one page, and of more
    _SCORE: ("page by its score", "pages by their scores"),
    _BETTER: ("better page", "better pages"),
    _SAME: ("page of the same score", "pages of the same score"),
    _PANEL: ("member of the panel", "members of the panel"),
    _ASKED: ("page asked for", "pages asked for"),
    _OVERDUE: ("overdue page", "overdue pages"),
    _NEW: ("page never visited", "pages never visited"),
    _LOT: ("page drawn by lot", "pages drawn by lot"),
    _SURGE_PROBE: ("surge probe of a URL pattern", "surge_probes of URL patterns"),
}
_HASTE: Final = {_SCORE: "its score would do", _ASKED: "it was asked for", _OVERDUE: "it is overdue"}
_PUT_BEHIND: Final = "and this cycle's lot put it behind"


class ComposedBatch(NamedTuple):
    """A batch and how it came about."""

    query: Query
    best: Ranked  # the panel's pages and the best as far as hosts have room
    batch: Ranked  # these with the shares of pages never visited and of pages drawn by lot, and with surge_probes
    panel: int  # how many are the panel's
    new_share: float
    surge_probes: Ints  # rows: those there for what they tell of others


class _Subject(NamedTuple):
    """The page that is spoken of."""

    row: int
    score: float
    haste: int  # _ASKED, _OVERDUE, or _SCORE for none


def describe_membership(
    shard: ShardArrays, chosen: ComposedBatch, row: int, *, score: float, eligible: bool
) -> list[str]:
    """Return why the page of `row` is in the batch or not, if that is not plain from its not being eligible. O(k)."""
    batch = f"the next batch of {chosen.query.k:,}"
    place = np.flatnonzero(chosen.batch.rows == row)
    if place.size:
        kind = int(_tell_apart(shard, chosen)[place[0]])
        return [f"in {batch}: {_WHY.get(kind, f'by its score, at place {int(place[0]) + 1:,}')}"]
    if not eligible:
        return []
    subject = _Subject(row, score, int(_find_haste(shard, chosen.query, np.array([row]))[0]))
    return [f"not in {batch}: {_say_why_not(shard, chosen, subject)}"]


def _find_haste(shard: ShardArrays, query: Query, rows: Ints) -> Ints:
    """Return whether each of ``rows``: int64[m] is _ASKED for, _OVERDUE, or goes by its _SCORE: int64[m]. O(m)."""
    overdue = read_waits(shard, rows, query.limits).overdue_at <= query.now
    asked = (shard.pages.records["flags"][rows] & URGENT) != 0
    return np.where(overdue, np.where(asked, _ASKED, _OVERDUE), _SCORE)  # what is never visited is neither


def _tell_apart(shard: ShardArrays, chosen: ComposedBatch) -> Ints:
    """Return what gave each page of the batch its place: int64[m]. O(k)."""
    rows = chosen.batch.rows
    new = (shard.pages.records["flags"][rows] & VISITED) == 0
    shared = np.where(new & (chosen.new_share > 0.0), _NEW, _LOT)
    kinds = np.where(np.isin(rows, chosen.best.rows), _find_haste(shard, chosen.query, rows), shared)
    kinds[np.isin(rows, chosen.surge_probes)] = _SURGE_PROBE
    kinds[: chosen.panel] = _PANEL
    return kinds


def _compare(chosen: ComposedBatch, kinds: Ints, score: float) -> Ints:
    """Return ``kinds``: int64[m] with _BETTER or _SAME for pages that have their places by scores above or equal."""
    keys, own = sort_keys(chosen.batch.scores), sort_keys(np.array([score]))[0]
    kinds = np.where((kinds == _SCORE) & (keys > own), _BETTER, kinds)
    return np.where((kinds == _SCORE) & (keys == own), _SAME, kinds)


def _say_why_not(shard: ShardArrays, chosen: ComposedBatch, subject: _Subject) -> str:
    if chosen.query.k == 0:
        return "it has no places"
    others = (
        f"{'surge_probes or ' if chosen.surge_probes.size else ''}the shares of pages never visited or drawn by lot"
    )
    shares = f"{_HASTE[subject.haste]}, but its place goes to {others}"
    if np.isin(subject.row, chosen.best.rows):
        return shares
    kinds = _compare(chosen, _tell_apart(shard, chosen), subject.score)
    if full := _say_full_host(shard, chosen, subject, kinds):
        return full
    if subject.haste != _SCORE or not np.isin(kinds, (_BETTER, _SAME, _SCORE)).any():
        hasty = subject.haste != _SCORE and np.isin(kinds, (_ASKED, _OVERDUE)).any()
        return f"all its places go to {_count(kinds)}" + (f", {_PUT_BEHIND}" if hasty else "")
    if np.any(kinds == _SCORE):
        return shares  # a worse page never visited stays, for it counts in the share
    if np.any(kinds == _SAME):
        return f"it scores the same as the last page of it, {_PUT_BEHIND}"
    last = chosen.batch.scores[np.flatnonzero(kinds == _BETTER)[-1]]
    return f"it scores less than the last page of it, {last:.6g}"


def _say_full_host(shard: ShardArrays, chosen: ComposedBatch, subject: _Subject, kinds: Ints) -> str:
    """Return what has taken all places of the page's host, if that kept it out: nothing where others were better."""
    query, host = chosen.query, int(shard.groups.records["host"][shard.pages.records["group"][subject.row]])
    room = host_capacity(shard.groups.records[host], query.limits, query.now, query.lease_s)
    best, batch = (
        shard.groups.records["host"][shard.pages.records["group"][r.rows]] == host for r in (chosen.best, chosen.batch)
    )
    if np.count_nonzero(best) < room or np.count_nonzero(batch) < room:
        return ""
    name, taken = group_name(shard.groups, host), kinds[batch]
    if np.all(taken == _BETTER):
        return f"{name} gives no more than {_count(taken)} to it"
    pages = "1 page" if taken.size == 1 else f"{taken.size:,} pages"
    behind = np.any(taken == _SAME) or (subject.haste != _SCORE and np.isin(taken, (_ASKED, _OVERDUE)).any())
    return f"{name} gives no more than {pages} to it: {_count(taken)}" + (f", {_PUT_BEHIND}" if behind else "")


def _count(kinds: Ints) -> str:
    """Return how many of each of ``kinds``: int64[m] there are, such as "1 better page, 2 overdue pages"."""
    counts = sorted(Counter(kinds.tolist()).items())
    return ", ".join(f"{count:,} {_WHAT[kind][count > 1]}" for kind, count in counts)
