"""One batch of the offers of many shards: the same pages that one scheduler with all pages would lease.

A shard offers its best pages in the order of its ranking, within the limits of its hosts, which no other shard has. So
the best of all offers are the best of all shards, as long as no shard's last offer is among them: such a shard may have
more, and is asked for a whole batch. The quotas of a batch are applied again, to the whole: an offer has pages of each
kind for all that the shard was asked, which is more than it will lease. Fractions of a page are owed to the next batch,
so that small batches reach the shares too. A domain's share of the day's visits is kept by each shard for its own
pages: over all shards it may be exceeded by as much as shards are asked for more than they lease, until the next batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from streamsched.api.answers import Offer, OfferedPage
from streamsched.reasons import ReasonCode

LEAST_PART: Final = 64  # pages that a shard is asked for: a share of 1 in 64 has a page among them
_SPREAD: Final = 4.0  # standard deviations by which a shard's part of a batch may exceed the mean
_MOST_PROBES: Final = 0.5  # of a batch, as of one scheduler's
_ROUNDING: Final = 1e-9  # of a page: 0.1 * 30 is 3.0000000000000004 and means 3
_DIGITS: Final = 9  # to which fractions of pages are rounded
_PANEL: Final = ReasonCode.IN_BATCH_PANEL.value
_NEW: Final = ReasonCode.IN_BATCH_NEW_SHARE.value
_EXPLORED: Final = ReasonCode.IN_BATCH_EXPLORATION.value
_PROBE: Final = ReasonCode.IN_BATCH_SURGE_PROBE.value
_TRIED: Final = ReasonCode.IN_BATCH_TRIAL.value
_BY_QUOTA: Final = (_PANEL, _EXPLORED, _PROBE, _TRIED)
_NOT_RANKED: Final = frozenset((*_BY_QUOTA, _NEW))


class Asked(NamedTuple):
    """How many pages a shard was asked for, and what it has offered."""

    k: int
    offer: Offer


class Chosen(NamedTuple):
    """A page of a merged batch, and the shard that has offered it. ``rank``: its key in the order of rankings."""

    rank: tuple[float, ...]
    shard: int
    page: OfferedPage

    @classmethod
    def of(cls, shard: int, page: OfferedPage) -> Chosen:
        """Return a page with its key, by which `politeness.priority.select_best` would order it."""
        if page.tier:
            since_s = -math.inf if page.overdue_since is None else page.overdue_since
            return cls((-page.tier, since_s, page.tie, shard), shard, page)
        return cls((0, math.inf if page.score is None else -page.score, page.tie, shard), shard, page)


class Owed(NamedTuple):
    """Fractions of a page that earlier batches were too small for, by kind; and random pages that none could draw."""

    new: float = 0.0
    panel: float = 0.0
    explored: float = 0.0
    probes: float = 0.0
    tried: float = 0.0


_KEPT: Final = Owed(explored=8)  # whole pages that later batches make up for, as `scheduler.batches.quotas` does


class Merged(NamedTuple):
    """A batch in the order in which to visit it; what it owes; the shards that may have better pages for it."""

    pages: list[Chosen]
    owed: Owed
    unsure: list[int]


def part_of(k: int, share: float) -> int:
    """Return how many pages to ask a shard for at first: its `share` of `k`, and as many more as chance may bring.

    >>> part_of(1000, 1 / 4), part_of(10, 1 / 4)
    (314, 64)
    """
    mean = k * share
    return min(whole(k), max(LEAST_PART, math.ceil(mean + _SPREAD * math.sqrt(mean))))


def whole(k: int) -> int:
    """Return how many pages to ask a shard for that may lease all `k`."""
    return max(k, LEAST_PART)


def merge_offers(k: int, asked: Mapping[int, Asked], owed: Owed = Owed()) -> Merged:  # noqa: B008  it is immutable
    """Return the batch of `k` pages, or of all that are offered, by shard. O(n log n) for n offered pages.

    It is final if no shard is unsure, or if those that are were asked for `whole` batches.
    """
    offered = {shard: [Chosen.of(shard, page) for page in offer.pages] for shard, (_, offer) in asked.items()}
    ranked: list[Chosen] = []
    kinds: dict[str, list[Chosen]] = {why: [] for why in _BY_QUOTA}
    for own in offered.values():
        for one in own:
            kinds.get(one.page.why, ranked).append(one)
    offers = [offer for _, offer in asked.values()]
    size = min(k, len(ranked) + sum(map(len, kinds.values())))
    # 1. How many pages each kind is due; probes and a challenger's pages as large a share as the offers have.
    pages_asked = max(sum(asked_for for asked_for, _ in asked.values()), 1)
    shares = Owed(
        new=max((offer.new_share for offer in offers), default=0.0),
        panel=max((offer.panel_share for offer in offers), default=0.0),
        explored=max((offer.explore_share for offer in offers), default=0.0),
        probes=min(len(kinds[_PROBE]) / pages_asked, _MOST_PROBES),
        tried=min(len(kinds[_TRIED]) / pages_asked, 1.0),
    )
    due = Owed(*(share * size + before for share, before in zip(shares, owed, strict=True)))
    due_new, due_panel, due_explored, due_probes, due_tried = (math.floor(pages + _ROUNDING) for pages in due)
    # 2. The panel's pages and the challenger's; what is too much of a kind has the place that its score gives it.
    panel = _take(kinds[_PANEL], due_panel, _take_turns(kinds[_PANEL]), ranked)
    explored = _take(kinds[_EXPLORED], due_explored, _by_chance, ranked)
    probes = _take(kinds[_PROBE], due_probes, _rank, ranked)
    tried = _take(kinds[_TRIED], min(due_tried, size - len(panel)), _rank, ranked)
    # 3. The best pages, then those of the quotas in place of the worst, as `scheduler.batches.quotas` does.
    ranked.sort(key=_rank)
    room = size - len(panel) - len(tried)
    best, rest = ranked[:room], ranked[room:]
    had = sum(one.page.new for one in (*panel, *tried, *best))
    missing = max(due_new - had, 0)
    fresh = [_as_new(one) for one in rest if one.page.new][:missing]
    best = _swap_in(best, fresh, room, lambda one: one.page.new)
    stay: Callable[[Chosen], bool] = lambda one: one.page.tier > 0 or (one.page.new and shares.new > 0.0)  # noqa: E731
    best = _swap_in(best, explored, room, stay)
    drawn = {id(one) for one in explored}
    best = _swap_in(best, probes, room, lambda one: stay(one) or id(one) in drawn)
    # 4. The order of handing out: the panel, what has priority, then the likeliest changes.
    others = sorted([*tried, *best], key=_rank)
    others.sort(key=lambda one: (one.page.tier == 0, 0.0 if one.page.tier else -one.page.probability))
    pages = [*panel, *others]
    counts = Owed(had + len(fresh), *(_count(pages, why) for why in _BY_QUOTA))
    left = (_left(int(count), one, int(kept)) for count, one, kept in zip(counts, due, _KEPT, strict=True))
    return Merged(pages, Owed(*left), _find_unsure(k, asked, offered, pages, missing and shares.new))


_rank: Final = attrgetter("rank")


def _by_chance(one: Chosen) -> tuple[int, int]:
    return one.page.tie, one.shard


def _take_turns(pages: Sequence[Chosen]) -> Callable[[Chosen], tuple[int, int, int]]:
    """Return a key by which each shard's first page comes first, then each one's second, and so on."""
    turns: dict[int, int] = {}
    places = {}
    for one in pages:
        places[id(one)] = turns[one.shard] = turns.get(one.shard, -1) + 1
    return lambda one: (places[id(one)], *_by_chance(one))


def _take(pages: list[Chosen], count: int, key: Callable[[Chosen], Any], others: list[Chosen]) -> list[Chosen]:
    """Return the first `count` of `pages` by `key`; add those that are left to `others`."""
    in_order = sorted(pages, key=key)
    others += in_order[count:]
    return in_order[:count]


def _as_new(one: Chosen) -> Chosen:
    return one._replace(page=msgspec.structs.replace(one.page, why=_NEW))


def _swap_in(batch: list[Chosen], added: list[Chosen], size: int, stays: Callable[[Chosen], bool]) -> list[Chosen]:
    """Return `batch`, of `size` pages at most, with `added` in place of its last pages that need not stay."""
    if not added:
        return batch
    places = [place for place, one in enumerate(batch) if not stays(one)]
    added = added[: size - len(batch) + len(places)]
    leave = set(places[len(places) - max(len(batch) + len(added) - size, 0) :])
    return sorted([*(one for place, one in enumerate(batch) if place not in leave), *added], key=_rank)


def _count(pages: Iterable[Chosen], why: str) -> int:
    return sum(one.page.why == why for one in pages)


def _left(pages: int, due: float, kept: int) -> float:
    """Return what is owed when `pages` were handed out of those `due`: a fraction, and `kept` whole pages at most."""
    return round(max(due - max(pages, math.floor(due + _ROUNDING) - kept), 0.0), _DIGITS)


def _find_unsure(
    k: int, asked: Mapping[int, Asked], offered: Mapping[int, list[Chosen]], pages: list[Chosen], new_share: float
) -> list[int]:
    """Return the shards that were asked for less than a whole batch and whose last page of a kind was chosen.

    `new_share`: of never-visited pages, 0 if the batch has enough of them.
    """
    chosen = {one.page.url for one in pages}
    unsure = []
    for shard, own in offered.items():
        count = asked[shard].k
        if count >= whole(k) or len(own) < count:
            continue  # it has offered all that it may lease
        has_more = _has_last([one for one in own if one.page.why not in _NOT_RANKED], chosen)
        if new_share:
            new = [one for one in own if one.page.new]
            # With fewer than its share it has no more of them.
            has_more |= len(new) >= math.floor(new_share * count + _ROUNDING) and _has_last(new, chosen)
        if has_more:
            unsure.append(shard)
    return unsure


def _has_last(pages: list[Chosen], chosen: Collection[str]) -> bool:
    """Return whether the last of `pages` was chosen, or there is none that could have lost."""
    return not pages or max(pages, key=_rank).page.url in chosen
