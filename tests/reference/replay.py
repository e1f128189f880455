"""The slow, obvious twin of the replay: one page, one change, one moment at a time, straight from SPEC 6."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from tests.reference import estimators

Record = tuple[float, str, str]  # when, A M or D, URL
Choice = Callable[[int, int, int], Sequence[int]]  # cycle, known pages, k -> pages, best first


@dataclass
class Page:
    url: str
    appears: float
    changes: list[float]
    visited_at: float | None = None

    def changed_within(self, begin: float, end: float) -> bool:
        return any(begin <= change < end for change in self.changes)

    def unseen(self, now: float) -> list[float]:
        """Changes before `now` that the copy lacks; without a copy there is nothing that it lacks."""
        if self.visited_at is None:
            return []
        return [change for change in self.changes if self.visited_at <= change < now]

    def current_share(self, begin: float, end: float) -> float:
        """For which share of [begin, end) the copy was current: the moments between cuts are all alike."""
        if self.visited_at is None:
            return 0.0
        cuts = sorted({begin, end, *(change for change in self.changes if begin < change < end)})
        current = 0.0
        for left, right in pairwise(cuts):
            if not any(self.visited_at <= change <= left for change in self.changes):
                current += right - left
        return current / (end - begin)


@dataclass
class Figures:
    counted: list[bool] = field(default_factory=list)
    change_rate: list[float] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    freshness: list[float] = field(default_factory=list)
    visits: list[int] = field(default_factory=list)
    delays_days: list[float] = field(default_factory=list)
    delay_cycles: list[int] = field(default_factory=list)
    waits_days: list[float] = field(default_factory=list)
    reports: list[list[tuple[str, bool]]] = field(default_factory=list)  # of all cycles: the outcomes of visits
    undetected: int = 0
    stale_pages: int = 0


def pages_of(records: Sequence[Record], start: float, end: float, *, later: bool) -> list[Page]:
    """Those alive at the start in the log's order, then those that appear within the window as they appear."""
    alive, late = [], []
    for url in dict.fromkeys(url for _, _, url in records):
        events = sorted(((when, op) for when, op, name in records if name == url), key=lambda event: event[0])
        past = [op for when, op in events if when <= start]
        future = [when for when, _ in events if start < when < end]
        if past and past[-1] != "D":
            alive.append(Page(url, -math.inf, future))
        elif later and future:
            late.append(Page(url, future[0], future[1:]))
    return alive + sorted(late, key=lambda page: page.appears)


def replay(
    pages: list[Page], start: float, cycle_s: float, cycles: int, rules: tuple[str, int, str], choose: Choice
) -> Figures:
    """`rules`: the budget as a decimal, the warm-up cycles, the reading."""
    budget, warmup, reading = rules
    figures = Figures()
    for cycle in range(cycles):
        begin, end = start + cycle * cycle_s, start + (cycle + 1) * cycle_s
        known = [page for page in pages if page.appears < begin]
        changed = [
            page.visited_at is not None
            and (bool(page.unseen(end)) if reading == "since_visit" else page.changed_within(begin, end))
            for page in known
        ]
        chosen: Sequence[int] = range(len(known))
        if cycle >= warmup:
            k = min(len(known), max(1, math.floor(Fraction(budget) * len(known))))
            chosen = choose(cycle, len(known), k)
            _measure(figures, known, changed, chosen, (cycle - warmup, begin, end))
        figures.reports.append([(known[row].url, changed[row]) for row in chosen])
        for row in chosen:
            known[row].visited_at = end
    last = start + cycles * cycle_s
    figures.undetected = sum(len(page.unseen(last)) for page in pages)
    figures.stale_pages = sum(bool(page.unseen(last)) for page in pages)
    return figures


def _measure(
    figures: Figures, known: list[Page], changed: list[bool], chosen: Sequence[int], when: tuple[int, float, float]
) -> None:
    at, begin, end = when
    figures.counted.append(any(changed))
    found = [changed[row] for row in chosen]
    figures.change_rate.append(sum(found) / len(chosen) if any(changed) else 0.0)
    ideal = [True] * min(sum(changed), len(chosen))
    figures.ndcg.append(_gain(found) / _gain(ideal) if any(changed) else 0.0)
    figures.freshness.append(sum(page.current_share(begin, end) for page in known) / len(known))
    figures.visits.append(len(chosen))
    for row in chosen:
        unseen = known[row].unseen(end)
        figures.waits_days += [(end - change) / 86400 for change in unseen]
        if unseen:
            figures.delays_days.append((end - unseen[0]) / 86400)
            figures.delay_cycles.append(at)


def _gain(relevant: Sequence[bool]) -> float:
    return sum(1 / max(1.0, math.log(rank)) for rank, hit in enumerate(relevant, 1) if hit)


def sift(outcomes: Sequence[dict[str, object]], threshold: int) -> list[bool]:
    """Which outcomes, maps with url, fetched_at and the optional fields, saw a change, late ones seeing none."""
    pages: dict[object, dict[str, object]] = {}
    kept = []
    for outcome in outcomes:
        page = pages.get(outcome["url"])
        late = page is not None and outcome["fetched_at"] <= page["last"]  # type: ignore[operator]
        code = "late" if late else estimators.judge(outcome, page, threshold)
        kept.append(code == "change")
        if code in ("late", "failure"):
            continue
        page = pages.setdefault(outcome["url"], {})
        status = outcome.get("status", 200)
        page |= {"last": outcome["fetched_at"], "success": status < 400}  # type: ignore[operator]
        if "fingerprint" in outcome and status < 400 and status != 304:  # type: ignore[operator]
            page["fingerprint"] = outcome["fingerprint"]
    return kept
