"""Slow reference implementation of change signals: a dict of sources, one of pages, every rule applied literally."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from streamsched.estimation import signal_sources as rules

DAY = 86_400.0
UNIT = 1 << 16
NAMES = ("resolved", "true", "days", "announced", "changes", "lateness", "late", "noted", "page_days")


def single(value: float) -> float:
    """`value` in single precision."""
    return float(np.float32(value))


@dataclass
class Source:
    """What is known of a kind on one host."""

    seen_s: float
    pages: set[str] = field(default_factory=set)
    signals: int = 0
    evidence: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NAMES, 0.0))


@dataclass
class PageSignals:
    """What sources say of one page."""

    covered: set[str] = field(default_factory=set)  # kinds that had announced a change by the last visit
    kinds: set[str] = field(default_factory=set)  # ... and since
    lead: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    latest: set[str] = field(default_factory=set)  # kinds whose signals are as new as the latest one
    signalled: int = 0
    echoes: float = 0.0  # expected of each kind before its first signal
    first_s: float = 0.0  # after the last visit
    last_s: float = 0.0
    quiet: int = 0
    lateness: int = 0

    @property
    def spared(self) -> float:
        """The probability that no signal is true."""
        return 1.0 - self.signalled / UNIT

    @property
    def count(self) -> int:
        """The signals of the kind that says most."""
        return self.counts.get(self.lead, 0) if self.lead is not None else 0

    @property
    def again(self) -> float:
        """The evidence of a change that will come again while the page waits: that of signals rarely true."""
        if not self.signalled:
            return 0.0
        each = 1.0 - self.spared ** (1.0 / max(self.count, 1))
        return float(-math.log(self.spared) * (1.0 - each) ** 2)

    def quieten(self, cycles: float, cycle_s: float) -> float:
        """The time in which the changes are expected that are unannounced after some cycles of silence."""
        if not self.quiet:
            return cycles
        part, delay = self.quiet / 255.0, math.exp2(self.lateness / 8.0) / cycle_s
        return min(part * cycles + (1.0 - part) * delay * -math.expm1(-min(cycles / delay, 700.0)), cycles)

    def quieten_due(self, due: float) -> float:
        """The probability of one change that was not announced."""
        part = self.quiet / 255.0 if self.quiet else 1.0
        return due * part / (1.0 - due * (1.0 - part)) if due < 1.0 else 1.0


@dataclass(frozen=True)
class Host:
    """A host: its pages, and the mean rates of all pages and of its own, in changes per day."""

    name: str
    pages: int
    mean: float
    own_mean: float


@dataclass(frozen=True)
class Reliability:
    """Of a source."""

    recall: float
    false: float
    late: float


@dataclass(frozen=True)
class Interval:
    """An interval between two visits of a page that changes `rate` times a day, as the first one left its record."""

    rate: float
    days: float
    changed: bool
    effective: float
    whole_days: float  # its length; `days` has a limit
    by_any_cause: float  # P(a change)


class Signals:
    """The sources of a shard."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.sources: dict[tuple[str, str], Source] = {}
        self.pages: dict[str, PageSignals] = {}

    def of_page(self, url: str) -> PageSignals:
        """What sources say of a page."""
        return self.pages.setdefault(url, PageSignals())

    def pooled(self, kind: str, name: str) -> float:
        """The evidence of all sources of a kind."""
        return max(math.fsum(one.evidence[name] for (_, own), one in self.sources.items() if own == kind), 0.0)

    def reliability(self, host: Host, kind: str) -> Reliability:
        """How far a source is believed."""
        own, both = self.sources[host.name, kind].evidence, {name: self.pooled(kind, name) for name in NAMES}
        recall = (rules.FIRST_CHANGES * rules.FIRST_RECALL + both["announced"]) / (
            rules.FIRST_CHANGES + both["changes"]
        )
        recall = (rules.KIND_CHANGES * recall + own["announced"]) / (rules.KIND_CHANGES + own["changes"])
        days = rules.FIRST_FALSE / (rules.FIRST_ODDS * rules.FIRST_RECALL * host.mean) + both["days"]
        false = (rules.FIRST_FALSE + max(both["resolved"] - both["true"], 0.0)) / days
        every = (rules.FIRST_FALSE * (1.0 + 1.0 / rules.FIRST_ODDS) + both["resolved"]) / days
        days = rules.KIND_SIGNALS / every
        false = (days * false + max(own["resolved"] - own["true"], 0.0)) / (days + own["days"])
        allowed = rules.ALLOWED_CHANGES / host.mean
        noted = both["noted"] / (allowed + both["page_days"])
        noted = (allowed * noted + own["noted"]) / (allowed + own["page_days"])
        late = (rules.FIRST_LATE * rules.FIRST_LATENESS_DAYS + both["lateness"]) / (rules.FIRST_LATE + both["late"])
        late = (rules.KIND_LATE * late + own["lateness"]) / (rules.KIND_LATE + own["late"])
        return Reliability(min(recall, 1.0), max(false, noted - rules.BEYOND * host.own_mean), late)

    def arrive(self, host: Host, kind: str, at_s: float, count: int) -> None:
        """Count signals as they arrive, and the days of pages in which they could."""
        source = self.sources[host.name, kind]
        days = max(at_s - source.seen_s, 0.0) / DAY
        source.seen_s = max(source.seen_s, at_s)
        fade = 1.0 - min(days / rules.MEMORY_DAYS, 1.0)
        source.evidence["noted"] = source.evidence["noted"] * fade + count
        source.evidence["page_days"] = source.evidence["page_days"] * fade + days * host.pages

    def notice(self, url: str, host: Host, kind: str, after_s: float, at_s: float, rate: float) -> str:
        """Apply a signal about a known page of that rate a day, `after_s` after its last visit; return its fate."""
        announced = self.of_page(url)
        if after_s <= 0.0:
            return "late"
        if kind in announced.kinds and single(after_s) < announced.last_s:
            return "repeated"
        if kind in announced.latest and single(after_s) == announced.last_s:
            return "repeated"
        source = self.sources.setdefault((host.name, kind), Source(at_s))
        source.signals += 1
        source.pages.add(url)
        self.arrive(host, kind, at_s, 1)
        found = self.reliability(host, kind)
        after = after_s / DAY
        still = math.exp(-min(after / found.late, 700.0))
        echoes = 0.0 if kind in announced.kinds else announced.echoes * still / found.late
        rates = {"true": rate * found.recall * (1.0 - still), "false": found.false, "echo": echoes}
        true, echo = rates["true"] / sum(rates.values()), echoes / sum(rates.values())
        for name, amount in (("true", 1.0), ("announced", 1.0), ("lateness", after + found.late), ("late", 1.0)):
            source.evidence[name] += echo * amount
        announced.counts[kind] = min(announced.counts.get(kind, 0) + 1, 255)
        alone = code_of(1.0 - (1.0 - true) ** announced.counts[kind])
        if announced.lead == kind:
            announced.signalled = code_of(1.0 - announced.spared * (1.0 - true))
        elif announced.lead is None or alone > announced.signalled:
            announced.lead, announced.signalled = kind, alone
        if single(after_s) > announced.last_s:
            announced.latest = set()
        if single(after_s) >= announced.last_s:
            announced.latest.add(kind)
        announced.first_s = min(announced.first_s, single(after_s)) if announced.kinds else single(after_s)
        announced.last_s = max(announced.last_s, single(after_s))
        announced.kinds.add(kind)
        return "applied"

    def settle(self, url: str, host: Host, at_s: float, seen: Interval) -> None:
        """Learn from a visit of a page with sources, and begin the silence after it."""
        announced = self.of_page(url)
        chance = max(seen.by_any_cause, 1e-12)
        lead_true = announced.count * (1.0 - announced.spared ** (1.0 / max(announced.count, 1))) / chance
        changes = lead_true + seen.rate * seen.days * seen.effective / chance
        for kind in (one for one in self.kinds if one in announced.covered | announced.kinds):
            self.arrive(host, kind, at_s, 0)
            found = self.reliability(host, kind)
            signals = announced.counts.get(kind, 0)
            each = 1.0 - announced.spared ** (1.0 / max(signals, 1))
            if announced.lead != kind:
                each = min(each, seen.rate * found.recall / (seen.rate * found.recall + found.false))
            true = signals * each / chance
            shown = self.yielded(announced, kind, found, seen, (signals, true if signals else 0.0), changes)
            fade = 0.5 * (signals + (seen.rate * found.recall + found.false) * shown["days"]) / rules.MEMORY_SIGNALS
            evidence = self.sources[host.name, kind].evidence
            for name in NAMES[:7]:
                evidence[name] = evidence[name] * (1.0 - min(fade, 1.0)) + shown[name]
        echoes = 0.0
        if seen.changed and announced.quiet:
            delay = 2.0 ** (announced.lateness / 8.0) / DAY
            pending = delay * -math.expm1(-min(seen.whole_days / delay, 700.0))
            echoes = seen.rate * (1.0 - announced.quiet / 255.0) * pending / chance
        self.begin(url, host, at_s, echoes)

    @staticmethod
    def yielded(
        announced: PageSignals, kind: str, found: Reliability, seen: Interval, right: tuple[int, float], changes: float
    ) -> dict[str, float]:
        """What a visit shows of one source; `right`: its signals, and how many of them were true."""
        signals, true = right
        after = announced.first_s / DAY if signals else 0.0
        covered = kind in announced.covered
        waited = min(1.0 / (seen.rate * found.recall + found.false), seen.days) + max(seen.days - after, 0.0)
        shown = dict.fromkeys(NAMES, 0.0) | {"resolved": signals, "days": seen.days if covered else waited}
        if not seen.changed:
            return shown
        ratio = min(after / found.late, 700.0)
        weight = ratio / math.expm1(ratio) if ratio > 1e-4 else 1.0
        shown |= {"true": true, "late": true / signals * weight if signals else 0.0}
        return shown | ({"announced": true, "changes": max(changes, true)} if covered else {})

    def begin(self, url: str, host: Host, at_s: float, echoes: float) -> None:
        """Begin the silence after a visit."""
        announced = self.of_page(url)
        announced.covered |= announced.kinds
        announced.kinds, announced.lead, announced.counts, announced.signalled = set(), None, {}, 0
        announced.latest = set()
        announced.echoes, announced.first_s, announced.last_s = single(echoes), 0.0, 0.0
        best = Reliability(-1.0, 0.0, 0.0)
        for kind in (one for one in self.kinds if one in announced.covered):
            self.arrive(host, kind, at_s, 0)
            found = self.reliability(host, kind)
            best = found if found.recall > best.recall else best
        announced.quiet = min(max(math.floor(255 * (1.0 - best.recall) + 0.5), 1), 255)
        announced.lateness = min(max(math.floor(8.0 * math.log2(max(best.late * DAY, 1.0)) + 0.5), 0), 255)


def code_of(probability: float) -> int:
    """A probability as the shard stores it."""
    return min(math.floor(probability * UNIT + 0.5), UNIT - 1)
