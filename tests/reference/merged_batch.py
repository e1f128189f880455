"""The slow, obvious twin of `cluster.merged_batch`: two pages are compared at a time, and one is taken."""

from __future__ import annotations

import math
from collections.abc import Mapping

from streamsched.api.answers import OfferedPage
from streamsched.cluster.merged_batch import Asked, Owed

KINDS: tuple[str, ...] = tuple(
    f"in_batch_{kind}" for kind in ("panel", "new_share", "exploration", "surge_probe", "trial")
)
PANEL, NEW, EXPLORED, PROBE, TRIED = KINDS


def precedes(one: OfferedPage, other: OfferedPage) -> bool:
    """Whether a page is ranked before another."""
    if one.tier != other.tier:
        return one.tier > other.tier
    if one.tier == 1 and one.overdue_since != other.overdue_since:
        assert one.overdue_since is not None
        assert other.overdue_since is not None
        return one.overdue_since < other.overdue_since
    if one.tier == 0 and one.score != other.score:
        return other.score is None or (one.score is not None and one.score > other.score)
    return one.tie < other.tie


def best_of(pages: list[OfferedPage]) -> OfferedPage:
    best = pages[0]
    for page in pages[1:]:
        if precedes(page, best):
            best = page
    return best


def worst_of(pages: list[OfferedPage]) -> OfferedPage:
    worst = pages[0]
    for page in pages[1:]:
        if precedes(worst, page):
            worst = page
    return worst


def merge(k: int, asked: Mapping[int, Asked], owed: Owed) -> tuple[list[str], list[int]]:
    """The URLs of the merged batch in order, and the shards that may have better pages. Ties are all different."""
    offers = {shard: list(one.offer.pages) for shard, one in asked.items()}
    left = [page for pages in offers.values() for page in pages]
    size, total = min(k, len(left)), sum(one.k for one in asked.values())
    shares = {
        NEW: max([one.offer.new_share for one in asked.values()], default=0.0),
        PANEL: max([one.offer.panel_share for one in asked.values()], default=0.0),
        EXPLORED: max([one.offer.explore_share for one in asked.values()], default=0.0),
        PROBE: min(sum(page.why == PROBE for page in left) / max(total, 1), 0.5),
        TRIED: sum(page.why == TRIED for page in left) / max(total, 1),
    }
    before = dict(zip((NEW, PANEL, EXPLORED, PROBE, TRIED), owed, strict=True))
    wanted = {why: math.floor(share * size + before[why] + 1e-9) for why, share in shares.items()}

    panel: list[OfferedPage] = []
    turn = 0
    while len(panel) < wanted[PANEL] and turn < len(left):
        of_turn = []
        for pages in offers.values():
            members = [page for page in pages if page.why == PANEL]
            of_turn += members[turn : turn + 1]
        for page in sorted(of_turn, key=lambda page: page.tie):
            if len(panel) < wanted[PANEL]:
                panel.append(page)
        turn += 1
    drawn = sorted([page for page in left if page.why == EXPLORED], key=lambda page: page.tie)[: wanted[EXPLORED]]
    probes = _take_best([page for page in left if page.why == PROBE], wanted[PROBE])
    tried = _take_best([page for page in left if page.why == TRIED], min(wanted[TRIED], size - len(panel)))
    taken = [page.url for page in [*panel, *drawn, *probes, *tried]]
    left = [page for page in left if page.url not in taken]

    room = size - len(panel) - len(tried)
    batch: list[OfferedPage] = []
    while left and len(batch) < room:
        batch.append(best_of(left))
        left.remove(batch[-1])
    missing = wanted[NEW] - sum(page.new for page in [*panel, *tried, *batch])
    for page in _take_best([page for page in left if page.new], max(missing, 0)):
        _add(batch, page, room, [one for one in batch if not one.new])
    free = [page for page in batch if page.tier == 0 and not (page.new and shares[NEW])]
    for page in [*drawn, *probes]:
        _add(batch, page, room, free)

    rest = [*batch, *tried]
    first = _take_best([page for page in rest if page.tier], len(rest))
    others = _take_best([page for page in rest if not page.tier], len(rest))
    batch = [*panel, *first, *sorted(others, key=lambda page: page.probability, reverse=True)]

    urls, unsure = [page.url for page in batch], []
    for shard, (count, offer) in asked.items():
        ranked = [page for page in offer.pages if page.why not in (PANEL, NEW, EXPLORED, PROBE, TRIED)]
        new = [page for page in offer.pages if page.new]
        may = not ranked or worst_of(ranked).url in urls
        if missing > 0 and len(new) >= math.floor(shares[NEW] * count + 1e-9):
            may = may or not new or worst_of(new).url in urls
        if may and count < max(k, 64) and len(offer.pages) == count:
            unsure.append(shard)
    return urls, unsure


def _take_best(pages: list[OfferedPage], count: int) -> list[OfferedPage]:
    """The best `count` of `pages`, best first."""
    taken: list[OfferedPage] = []
    pages = list(pages)
    while pages and len(taken) < count:
        taken.append(best_of(pages))
        pages.remove(taken[-1])
    return taken


def _add(batch: list[OfferedPage], page: OfferedPage, room: int, may_leave: list[OfferedPage]) -> None:
    """Add a page, in place of the worst that may leave if the batch is full; nothing if none may."""
    if len(batch) >= room:
        if not may_leave:
            return
        worst = worst_of(may_leave)
        may_leave.remove(worst)
        batch.remove(worst)
    batch.append(page)
