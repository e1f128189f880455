"""The slow, obvious twin of the replay: one page, one change, one moment at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from scipy import stats

from tests.reference import estimators

Record = tuple[float, str, str]  # when, A M or D, URL
Choice = Callable[[int, int, int], Sequence[int]]  # cycle, known pages, k -> pages, best first


@dataclass
class Page:
    url: str
    appears: float
    changes: list[float]
    visited_at: float | None = None
    weighed: bool = False  # by how much of the page each change concerns

    def changed_within(self, begin: float, end: float) -> bool:
        return any(begin <= change < end for change in self.changes)

    def unseen(self, now: float) -> list[float]:
        """Changes before `now` that the copy lacks; without a copy there is nothing that it lacks."""
        if self.visited_at is None:
            return []
        return [change for change in self.changes if self.visited_at <= change < now]

    def significance(self, begin: float, end: float) -> float:
        """The probability that something at random is hit by one of the changes in [begin, end), each hits a share."""
        if not self.weighed:
            return 1.0
        return 1.0 - math.prod(1.0 - significance_at(change) for change in self.changes if begin <= change < end)

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


def significance_at(when: float) -> float:
    """How much of its page a change at this time concerns: nothing, all, or a share between."""
    return when % 5 / 4


def pages_of(
    records: Sequence[Record], start: float, end: float, *, measured: float | None = None, later: bool
) -> list[Page]:
    """Those alive at `measured`, by default the start, and with `later` those that appear after it.

    Those alive from the start on come first, in the log's order, the others as they appear.
    """
    measured = start if measured is None else measured
    alive, late = [], []
    for url in dict.fromkeys(url for _, _, url in records):
        events = sorted(((when, op) for when, op, name in records if name == url), key=lambda event: event[0])
        past = {moment: [op for when, op in events if when <= moment] for moment in (start, measured)}
        lives = {moment: bool(ops) and ops[-1] != "D" for moment, ops in past.items()}
        future = [when for when, _ in events if start < when < end]
        after = [when for when in future if when > measured]
        if lives[start] and lives[measured]:
            alive.append(Page(url, -math.inf, future))
        elif lives[measured]:
            late.append(Page(url, future[0], future[1:]))
        elif later and after:
            late.append(Page(url, after[0], after[1:]))
    return alive + sorted(late, key=lambda page: page.appears)


def replay(
    pages: list[Page], start: float, cycle_s: float, cycles: int, rules: tuple[str, int, str, int], choose: Choice
) -> Figures:
    """`rules`: the budget (above 1: pages), the warm-up cycles, the reading, the cycles that are learned from only."""
    budget, warmup, reading, learned = rules
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
            wanted = Fraction(budget) if Fraction(budget) > 1 else Fraction(budget) * len(known)
            k = min(len(known), max(1, math.floor(wanted)))
            chosen = choose(cycle, len(known), k)
            first = max(warmup, learned)
            if cycle >= first:
                since = [page.visited_at or 0.0 if reading == "since_visit" else begin for page in known]
                found = [page.significance(at, end) for page, at in zip(known, since, strict=True)]
                weights = [weight * hit for weight, hit in zip(found, changed, strict=True)]
                _measure(figures, known, (changed, weights), chosen, (cycle - first, begin, end))
        figures.reports.append([(known[row].url, changed[row]) for row in chosen])
        for row in chosen:
            known[row].visited_at = end
    last = start + cycles * cycle_s
    figures.undetected = sum(len(page.unseen(last)) for page in pages)
    figures.stale_pages = sum(bool(page.unseen(last)) for page in pages)
    return figures


def _measure(
    figures: Figures,
    known: list[Page],
    truth: tuple[list[bool], list[float]],
    chosen: Sequence[int],
    when: tuple[int, float, float],
) -> None:
    (changed, weights), (at, begin, end) = truth, when
    if not any(weights):  # then all changes count alike
        weights = [float(hit) for hit in changed]
    figures.counted.append(any(changed))
    found = [changed[row] for row in chosen]
    figures.change_rate.append(sum(found) / len(chosen) if any(changed) else 0.0)
    ideal = sorted(weights, reverse=True)[: len(chosen)]
    figures.ndcg.append(_gain([weights[row] for row in chosen]) / _gain(ideal) if any(changed) else 0.0)
    figures.freshness.append(sum(page.current_share(begin, end) for page in known) / len(known))
    figures.visits.append(len(chosen))
    for row in chosen:
        unseen = known[row].unseen(end)
        figures.waits_days += [(end - change) / 86400 for change in unseen]
        if unseen:
            figures.delays_days.append((end - unseen[0]) / 86400)
            figures.delay_cycles.append(at)


Run = Sequence[tuple[int, int, float | None, float, Sequence[float]]]  # by cycle: visits, hits, NDCG, freshness, delays


def figure_of(metric: str, run: Run, cycles: Sequence[int], counted: Sequence[int]) -> float | None:
    """A figure of one run over some cycles; NDCG over those of `counted` only."""
    part = [run[cycle] for cycle in cycles]
    if metric == "change_rate":
        return sum(hits for _, hits, *_ in part) / sum(visits for visits, *_ in part) if part else None
    if metric == "ndcg":
        gains = [run[cycle][2] or 0.0 for cycle in cycles if cycle in counted]
        return sum(gains) / len(gains) if gains else None
    if metric == "stale":
        return 1 - sum(cycle[3] for cycle in part) / len(part) if part else None
    delays = [delay for cycle in part for delay in cycle[4]]
    return sum(delays) / len(delays) if delays else None


def compare_runs(
    metric: str, ours: Sequence[Run], theirs: Sequence[Run], edges: Sequence[int]
) -> tuple[float | None, float | None]:
    """The relative difference of two policies' runs, one a seed, and half its interval, batch after batch left out."""
    cycles = range(len(ours[0]))
    counted = [cycle for cycle in cycles if all(run[cycle][2] is not None for run in (*ours, *theirs))]

    def relative(part: Sequence[int]) -> float | None:
        means = []
        for runs in (ours, theirs):
            whole = [run for run in runs if figure_of(metric, run, cycles, counted) is not None]
            figures = [figure_of(metric, run, part, counted) for run in whole]
            if not figures or None in figures:
                return None
            means.append(math.fsum(figure or 0.0 for figure in figures) / len(figures))
        return means[0] / means[1] - 1 if means[1] else None

    value = relative(cycles)
    without = [relative([cycle for cycle in cycles if not low <= cycle < high]) for low, high in pairwise(edges)]
    known = [figure for figure in without if figure is not None]
    if value is None or len(known) < len(without) or len(known) < 5:
        return value, None
    mean = math.fsum(known) / len(known)
    variance = (len(known) - 1) / len(known) * math.fsum((figure - mean) ** 2 for figure in known)
    return value, float(stats.t.ppf(0.975, len(known) - 1)) * math.sqrt(variance)


def judge_forecasts(forecasts: Sequence[tuple[float, bool]], bins: int) -> tuple[list[int], float | None]:
    """How many visits each bin has, equal steps of the square root, and the calibration error of all."""
    counts, error = [], 0.0
    for step in range(bins):
        low, high = (step / bins) ** 2, ((step + 1) / bins) ** 2
        inside = [(p, observed) for p, observed in forecasts if low <= p < high or (p == 1 and step == bins - 1)]
        counts.append(len(inside))
        if inside:
            predicted = math.fsum(p for p, _ in inside) / len(inside)
            observed = sum(found for _, found in inside) / len(inside)
            error += len(inside) / len(forecasts) * abs(predicted - observed)
    return counts, error if forecasts else None


def _gain(weights: Sequence[float]) -> float:
    return sum(weight / max(1.0, math.log(rank)) for rank, weight in enumerate(weights, 1))


def sift(outcomes: Sequence[dict[str, object]], threshold: int, changes: str = "exact") -> list[str]:
    """What each outcome, a map with url, fetched_at and the optional fields, says: late, or a verdict."""
    pages: dict[object, dict[str, object]] = {}
    codes = []
    for outcome in outcomes:
        page = pages.get(outcome["url"])
        late = page is not None and outcome["fetched_at"] <= page["last"]  # type: ignore[operator]
        code = "late" if late else estimators.judge(outcome, page, threshold, changes)
        codes.append(code)
        if code in ("late", "failure"):
            continue
        page = pages.setdefault(outcome["url"], {})
        status = outcome.get("status", 200)
        page |= {"last": outcome["fetched_at"], "success": status < 400}  # type: ignore[operator]
        if code in ("change", "no_evidence") and status < 400:  # type: ignore[operator]
            page.pop("fingerprint", None)
            page.pop("content", None)
        if "fingerprint" in outcome and status < 400 and status != 304 and "fingerprint" not in page:  # type: ignore[operator]
            page["fingerprint"] = outcome["fingerprint"]
        if "content" in outcome and status < 400 and status != 304:  # type: ignore[operator]
            page["content"] = outcome["content"]
    return codes
