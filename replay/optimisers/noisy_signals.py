"""GREEDY-NCIS's synthetic experiments: how many requests find a current copy, by the budget, if all rates are known.

Busa-Fekete et al. (2025), "A scalable crawling algorithm utilizing noisy change-indicating signals", WWW. Pages change,
are asked for and are announced at random rates of their own; one page is visited at each tick, the one of the greatest
value. In the first experiment signals may be missing, in the second they may be false too. In the third half of the
pages announce every change, without false signals, and the others none: the mixed case of LambdaCrawl.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.jit import kernel
from streamsched.optimal import NoisyPages, lambda_crawl
from streamsched.optimal.crawl_value import MOST_TERMS, find_moments, value_page
from streamsched.replay.experiment import Progress

BUDGETS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)  # visits per page and unit of time
_RECALL: Final = (0.25, 0.25)  # Beta: most pages announce nearly all changes, or nearly none
_NOISE: Final = (0.1, 0.6)  # false signals per unit of time, uniform
_WARM: Final = 0.25  # of the time, which is not measured: all copies are current at the start
_SILENT, _ANNOUNCED, _FALSE = 0, 1, 2  # changes without a signal and with one, signals without a change
_STEEPEST: Final = float(np.exp(-1.0))  # of a value, for importance 1: α s e^(-αs) at most
_CLOSE: Final = 1e-6  # where a bisection ends, relative
_PRICES: Final = (1e-9, 1e6)  # of a visit
_THRESHOLDS: Final = (1e-6, 1e14)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySettings:
    """Settings: ``pages`` and ``runs`` of each experiment, ``time`` that a run simulates; pages change up to once in 1.

    Raises SettingsError for numbers that are too small.
    """

    pages: int = 200
    runs: int = 10
    time: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("pages", self.pages, 20, "a whole number of pages, 20 or more: a visit in each unit of time")
        for name in ("runs", "time"):
            check_whole(name, getattr(self, name), 1, f"a whole number of {name}, 1 or more")
        check_whole("seed", self.seed, 0, "a whole number, 0 or more")


@dataclass(frozen=True, slots=True, eq=False)
class PolicyAccuracy:
    """Shares of the requests that find a current copy, float64[runs, budgets]."""

    policy: str
    accuracy: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SignalExperiment:
    """An experiment: its policies on the same pages, changes and signals; the last is the best in continuous time."""

    number: str
    title: str
    policies: Sequence[PolicyAccuracy]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyExperiments:
    """All experiments, and their settings."""

    settings: NoisySettings
    experiments: Sequence[SignalExperiment]


class _Belief(NamedTuple):
    """What a policy takes the pages for, and the terms of its sums."""

    name: str
    take: Callable[[NoisyPages], NoisyPages]
    terms: int = MOST_TERMS


class _Events(NamedTuple):
    """In time order: ``at``: float64[m], ``row``: int64[m], ``kind``: int64[m]."""

    at: Floats
    row: Ints
    kind: Ints


class _Spec(NamedTuple):
    number: str
    title: str
    draw: Callable[[np.random.Generator, int], tuple[Floats, Floats]]  # recall and false rate
    beliefs: Sequence[_Belief]
    is_mixed: bool = False


def _without_signals(pages: NoisyPages) -> NoisyPages:
    silent = np.zeros_like(pages.recall)
    return pages._replace(recall=silent, false_rate=silent)


def _without_noise(pages: NoisyPages) -> NoisyPages:
    return pages._replace(false_rate=np.zeros_like(pages.recall))


def _as_they_are(pages: NoisyPages) -> NoisyPages:
    return pages


def _draw_mixed(_: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    return (np.arange(count) < count // 2).astype(np.float64), np.zeros(count)


_GREEDY: Final = _Belief("GREEDY", _without_signals)
_CIS: Final = _Belief("GREEDY-CIS", _without_noise)
_NCIS: Final = _Belief("GREEDY-NCIS", _as_they_are)
_SPECS: Final = (
    _Spec("1", "signals are missing", lambda rng, n: (rng.beta(*_RECALL, n), np.zeros(n)), (_GREEDY, _NCIS)),
    _Spec(
        "2",
        "signals are missing and false",
        lambda rng, n: (rng.beta(*_RECALL, n), rng.uniform(*_NOISE, n)),
        (
            _GREEDY,
            _CIS,
            _NCIS,
            _Belief("GREEDY-NCIS, 1 term", _as_they_are, 1),
            _Belief("GREEDY-NCIS, 2 terms", _as_they_are, 2),
        ),
    ),
    _Spec("3", "half of the pages announce all changes", _draw_mixed, (_GREEDY, _NCIS), is_mixed=True),
)


def run_noisy_signals(settings: NoisySettings, progress: Progress | None = None) -> NoisyExperiments:
    """Run experiments 1 to 3; the same settings give the same result to the last bit.

    `progress` is called after each run of an experiment. O(runs * visits * pages) at worst, a tenth of it in practice.
    """
    found = []
    for place, spec in enumerate(_SPECS):
        runs = []
        for run in range(settings.runs):
            runs.append(_run(spec, settings, (settings.seed, place, run)))
            if progress is not None:
                progress(place * settings.runs + run + 1, len(_SPECS) * settings.runs, f"experiment {spec.number}")
        policies = tuple(PolicyAccuracy(name, np.array([one[name] for one in runs])) for name in runs[0])
        found.append(SignalExperiment(spec.number, spec.title, policies))
    return NoisyExperiments(settings, tuple(found))


def _run(spec: _Spec, settings: NoisySettings, seed: Sequence[int]) -> dict[str, Floats]:
    """Return the accuracy of each policy by budget."""
    rng = np.random.default_rng(seed)
    importance, change_rate = rng.random((2, settings.pages))
    pages = NoisyPages(importance, change_rate, *spec.draw(rng, settings.pages))
    events = _draw_events(pages, float(settings.time), rng)
    visits = [budget * settings.pages for budget in BUDGETS]
    found = {
        one.name: np.array(
            [_simulate(pages, one.take(pages), events, one.terms, rate, settings.time) for rate in visits]
        )
        for one in spec.beliefs
    }
    if spec.is_mixed:
        found["LambdaCrawl"] = np.array([_mixed_accuracy(pages, rate) for rate in visits])
    best = np.array([_best_accuracy(pages, rate) for rate in visits])
    return {**found, "optimum": best}


def _draw_events(pages: NoisyPages, until: float, rng: np.random.Generator) -> _Events:
    rates = (
        pages.change_rate * (1.0 - pages.recall),
        pages.change_rate * pages.recall,
        pages.false_rate,
    )
    counts = rng.poisson(np.array(rates) * until)
    rows = np.concatenate([np.repeat(np.arange(pages.recall.size), count) for count in counts])
    kinds = np.repeat([_SILENT, _ANNOUNCED, _FALSE], counts.sum(axis=1))
    at = rng.random(rows.size) * until
    order = np.argsort(at, kind="stable")
    return _Events(at[order], rows[order], kinds[order])


def _mixed_accuracy(pages: NoisyPages, visits: float) -> float:
    """Return the accuracy of LambdaCrawl: visits at equal distances, and right after changes that are announced."""
    importance, rate = pages.importance, pages.change_rate
    crawl = lambda_crawl(importance, rate, budget=visits, complete=pages.recall == 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = crawl.visit_rate / rate
        current = np.where(ratio > 0.0, ratio * -np.expm1(-1.0 / ratio), 0.0)
    shares = np.where(pages.recall == 1.0, crawl.visit_probability, current)
    return float((importance * shares).sum() / importance.sum())


@kernel
def _simulate(
    pages: NoisyPages, believed: NoisyPages, events: _Events, terms: int, visits: float, until: float
) -> float:
    """Return the share of the requests that find a current copy, with `visits` per unit of time at a constant rate.

    A value rises by importance/e per unit of time at most, so a page is valued again only when it could be the best.
    """
    count, begin, event, stale = pages.recall.size, _WARM * until, 0, 0.0
    last, valued, values = np.zeros(count), np.zeros(count), np.zeros(count)
    signals, changed = np.zeros(count, np.int64), np.full(count, np.inf)
    for tick in range(1, int(visits * until) + 1):
        now = tick / visits
        while event < events.at.size and events.at[event] <= now:
            row = events.row[event]
            if events.kind[event] != _FALSE:
                changed[row] = min(changed[row], events.at[event])
            if events.kind[event] != _SILENT:
                signals[row] += 1
                values[row] = value_page(believed, row, now - last[row], signals[row], terms)
                valued[row] = now
            event += 1
        best = int(np.argmax(values))
        for row in range(count):
            if values[row] + (now - valued[row]) * pages.importance[row] * _STEEPEST >= values[best]:
                values[row] = value_page(believed, row, now - last[row], signals[row], terms)
                valued[row] = now
                if values[row] > values[best]:
                    best = row
        stale += pages.importance[best] * max(now - max(changed[best], begin), 0.0)
        changed[best], last[best], signals[best], values[best], valued[best] = np.inf, now, 0, 0.0, now
    for row in range(count):
        stale += pages.importance[row] * max(until - max(changed[row], begin), 0.0)
    return float(1.0 - stale / (pages.importance.sum() * (until - begin)))


@kernel
def _best_accuracy(pages: NoisyPages, visits: float) -> float:
    """Return the accuracy of the best policy in continuous time: thresholds at which visits have one price.

    Between two prices with fewer and more visits than there are, it mixes both policies.
    """
    count = pages.recall.size
    low, high = _PRICES
    least, most, thresholds = np.full(count, _THRESHOLDS[0]), np.full(count, _THRESHOLDS[1]), np.empty(count)
    fewer, more = (0.0, 0.0), _spend(pages, low, least, most, thresholds)
    while high > low * (1.0 + _CLOSE):
        price = np.sqrt(low * high)
        found = _spend(pages, price, least, most, thresholds)
        if found[0] > visits:
            low, more = price, found
            least[:] = thresholds
        else:
            high, fewer = price, found
            most[:] = thresholds
    share = (visits - fewer[0]) / (more[0] - fewer[0]) if more[0] > visits else 1.0
    return float(((1.0 - share) * fewer[1] + share * more[1]) / pages.importance.sum())


@kernel
def _spend(pages: NoisyPages, price: float, least: Floats, most: Floats, thresholds: Floats) -> tuple[float, float]:
    """Return the visits per unit of time at a price, and the importance of current copies, on average.

    Fill `thresholds`, float64[pages], which lie between `least` and `most`: those at a lower and a higher price.
    """
    used, current = 0.0, 0.0
    for row in range(pages.recall.size):
        thresholds[row] = _threshold(pages, row, price, least[row], most[row])
        if thresholds[row] < _THRESHOLDS[1]:
            moments = find_moments(pages, row, thresholds[row], 0, MOST_TERMS)
            used += 1.0 / moments.time
            current += pages.importance[row] * moments.current / moments.time
    return used, current


@kernel
def _threshold(pages: NoisyPages, row: int, price: float, low: float, high: float) -> float:
    """Return the effective time from `low` to `high` after which a visit is worth a price, `high` if it never is."""
    if value_page(pages, row, high, 0, MOST_TERMS) < price:
        return float(high)
    while high > low * (1.0 + _CLOSE):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if value_page(pages, row, middle, 0, MOST_TERMS) < price else (low, middle)
    return float(low)
