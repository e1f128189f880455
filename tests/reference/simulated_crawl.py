"""The slow, obvious reference for the evaluator: one object per page, page by page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.page_schedules import ScheduleView
from streamsched.estimation.seasonality.regions import local_hours
from streamsched.estimation.seasonality.schedule_update import update_schedule
from streamsched.estimation.seasonality.seasonal_terminals import (
    DUE,
    RHYTHM,
    TAU,
    SeasonalityView,
    changed_since,
    fill_seasonal_terminal,
)
from streamsched.estimation.surges import SHARES
from streamsched.evolution.data import shared_changes
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.simulation import simulated_events
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula import TERMINALS, Formula
from streamsched.formula.expected_gain import expected_gain
from streamsched.formula.objectives import find_aim
from streamsched.formula.terminal_table import PROVIDED, SEASONAL
from streamsched.formula.terminals import NO_CONTEXT, TerminalColumns
from streamsched.numerics.arrays import Bools, Floats, Records
from streamsched.numerics.jit import mix
from streamsched.numerics.vector_math import expm1
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import SCHEDULE, SEASONAL_LINK
from tests.reference import forgetting
from tests.reference.significance import in_steps

KNOWN = tuple(name for name in TERMINALS if name in PROVIDED)


@dataclass
class Page:
    """A scheduler's state of one page, updated visit by visit in the same way."""

    index: int
    prior_shape: float
    prior_exposure: float
    importance: float
    cost: float
    significance: float
    crawl_rate: float
    visited_in: int = -1  # cycle of the last visit
    flags: list[bool] = field(default_factory=list)  # results of the visits that could find a change
    own_shape: float = 0.0
    own_exposure: float = 0.0
    ranked_before: bool = False  # visited since the warm-up
    schedule: Records | None = None  # SCHEDULE[1], once it is earned

    def visit(self, cycle: int, changed: bool, around: tuple[Surges, Seasonality], half_life: float) -> None:
        if self.visited_in >= 0:
            around[1].update(self, cycle, changed)
            self.flags.append(changed)
            self.update_rate(float(cycle - self.visited_in), changed, around[0].own_part(self, cycle), half_life)
        self.visited_in = cycle

    def update_rate(self, interval: float, changed: bool, own: float, half_life: float) -> None:
        """As `streamsched.state.ingest` does with a constant prior."""
        counted = forgetting.count(interval, interval, half_life)
        faded = forgetting.fade((self.own_shape, self.own_exposure), interval, half_life)
        prior = self.prior_shape, self.prior_exposure
        self.own_shape, self.own_exposure = forgetting.learn(prior, faded, counted, changed, own)

    def write(self, pages: Records, traces: Records, place: int | None = None) -> None:
        """Write the state that formulas read to the page's records."""
        at = self.index if place is None else place
        page, trace = pages[at], traces[at]
        page["last_visit_s"] = self.visited_in + 1.0  # cycles of one second, visits at their end
        page["own_shape"], page["own_exposure"] = self.own_shape, self.own_exposure
        page["visits"], page["changes"] = len(self.flags), sum(self.flags)
        page["prior_shape"], page["prior_exposure"] = self.prior_shape, self.prior_exposure
        page["importance"], page["cost"] = self.importance, self.cost
        trace["history"] = int("0" + "".join("01"[flag] for flag in self.flags[-64:]), 2)
        trace["weighted_changes"] = sum(i for i, flag in enumerate(self.flags, 1) if flag)
        trace["crawl_rate"] = self.crawl_rate


@dataclass
class Figures:
    """Metrics per ranked cycle, and per cycle and cut for the first share of the ranked list."""

    counted: list[bool] = field(default_factory=list)
    change_rate: list[float] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    visits: list[int] = field(default_factory=list)
    new_pages: list[int] = field(default_factory=list)
    ranked: list[list[int]] = field(default_factory=list)
    stale: list[list[int]] = field(default_factory=list)
    cut_change_rate: list[list[float]] = field(default_factory=list)
    cut_ndcg: list[list[float]] = field(default_factory=list)
    cut_new_pages: list[list[int]] = field(default_factory=list)
    cut_visits: list[int] = field(default_factory=list)

    def mean(self, metric: str) -> float:
        """The fitness: the mean over cycles in which some page had changed; 0 if there are none."""
        values = [value for value, counts in zip(getattr(self, metric), self.counted, strict=True) if counts]
        return sum(values) / len(values) if values else 0.0


def crawl(trial: Trial, formula: Formula, cuts: Sequence[float] = ()) -> Figures:
    """Rank and visit cycle by cycle; visits are at the cycle's end and see what changed in it."""
    history = trial.history
    cycles = trial.cycles or history.cycles - trial.first
    shape = float(np.float32(history.prior_shape))
    exposure = (history.prior_shape / history.columns["prior_mean"]).astype(np.float32)  # as PAGE has priors
    read = ("importance", "cost", "significance", "crawl_rate")
    columns = zip(exposure.tolist(), *(history.columns[name].tolist() for name in read), strict=True)
    pages = [Page(i, shape, *known) for i, known in enumerate(columns)]
    places = places_of(history, trial.salt)
    figures = Figures()
    surges, seasonality = Surges(trial), Seasonality(trial)
    for cycle in range(cycles):
        changed = [reports_change(trial, page, cycle) for page in pages]
        if cycle < trial.warmup:
            chosen = list(range(len(pages)))
        else:
            scores = score(formula, pages, cycle, (surges, seasonality))
            offset = tie_offset(trial.salt, cycle, len(pages))
            ties = [(place - offset) % len(pages) for place in places]
            ranked = sorted(range(len(pages)), key=lambda page: (*descending(scores[page]), ties[page]))
            chosen = ranked[: share(trial.budget, len(pages))]
            measure(figures, pages, changed, chosen, cuts)
        for page in chosen:
            pages[page].visit(cycle, changed[page], (surges, seasonality), history.half_life)
    return figures


def fitness(trial: Trial, figures: Figures, metric: str) -> float:
    """The mean value of a cycle's hits over the cycles in which some page had changed, page by page."""
    history = trial.history
    aim = None if metric == "ndcg" else find_aim("changes" if metric == "change_rate" else metric)
    weights = history.columns["importance"].tolist()
    if aim is not None and aim.significant:
        weights = [weight * share for weight, share in zip(weights, history.columns["significance"], strict=True)]
    mean = math.fsum(weights) / len(weights)
    weights = [1.0] * len(weights) if len(set(weights)) == 1 else [weight / mean for weight in weights]
    end = trial.first + (trial.cycles or history.cycles - trial.first)
    values = []
    for at, (chosen, stale) in enumerate(zip(figures.ranked, figures.stale, strict=True)):
        if not stale:
            continue
        now = trial.first + trial.warmup + at
        discounts = [1 / max(1.0, math.log(rank)) for rank in range(1, len(chosen) + 1)]
        best = sorted((weights[page] for page in stale), reverse=True)
        ideal = math.fsum(weight * discount for weight, discount in zip(best, discounts, strict=False)) or 1.0
        value = 0.0
        for page, discount in zip(chosen, discounts, strict=True):
            if page not in stale:
                continue
            if aim is None:
                value += weights[page] * discount / ideal
                continue
            later = [cycle for cycle in range(now + 1, end) if history.changed[page, cycle]]
            value += weights[page] * (min(later, default=end) - now) ** aim.dial / len(chosen)
        values.append(value)
    return sum(values) / len(values) if values else 0.0


def reports_change(trial: Trial, page: Page, cycle: int) -> bool:
    """What a visit at the end of `cycle` would report."""
    since = page.visited_in + 1 if trial.reading == "since_visit" else cycle
    flags = trial.history.changed[page.index]
    return page.visited_in >= 0 and any(flags[trial.first + at] for at in range(since, cycle + 1))


def hit_share(own: Bools, at: int) -> float:
    """The share of a group, ``own``: bool[pages, cycles], that a surge has hit in cycle `at`, from all its pages."""
    rate = min(max(float(own.mean()), 1e-6), 1.0 - 1e-6)
    hits, misses = int(own[:, at].sum()), int((~own[:, at]).sum())
    logs = {s: hits * math.log1p(s * (1 - rate) / rate) + misses * math.log1p(-s) for s in (0.0, *SHARES)}
    odds = {s: math.exp(log - max(logs.values())) * (0.002 if s else 0.99) for s, log in logs.items()}
    expected = sum(s * odd for s, odd in odds.items()) / sum(odds.values())
    return expected if expected >= 1 / 32 else 0.0


class Surges:
    """The terminal `surge` of a trial: surges since a page's last visit, except in the last cycle."""

    def __init__(self, trial: Trial) -> None:
        cycles = trial.cycles or trial.history.cycles - trial.first
        self.numbers = shared_changes.number_large_groups(trial.history.groups)
        changed = trial.history.changed[:, trial.first : trial.first + cycles]
        self.surge_hazard, self.frequency = simulated_events.find_surges(  # its own reference is `hit_share`
            changed, self.numbers
        )

    def own_part(self, page: Page, cycle: int) -> float:
        """The probability that a change found in `cycle` was the page's own; frequent surges count as its own."""
        surge = self.of(page, cycle + 1)
        exposure, shape = page.prior_exposure + page.own_exposure, page.prior_shape + page.own_shape
        quiet = (exposure / (exposure + cycle - page.visited_in)) ** shape
        own = (1.0 - quiet) / (1.0 - quiet * (1.0 - surge))
        return float(own + (1.0 - own) * (1.0 - math.exp(-self.frequency[self.numbers[page.index]])))

    def of(self, page: Page, cycle: int) -> float:
        taken = self.surge_hazard[:, self.numbers[page.index]]
        return 0.0 - expm1(taken[page.visited_in] - taken[cycle - 1])


class Seasonality:
    """The terminals `tau`, `rhythm` and `due` of a trial: the scheduler's, over schedules learned as it does."""

    def __init__(self, trial: Trial) -> None:
        self.timing = trial.history.timing
        self.first = trial.first

    def end_of(self, cycle: int) -> float:
        assert self.timing is not None
        return self.timing.start_s + self.first * self.timing.cycle_s + (cycle + 1.0) * self.timing.cycle_s

    def quarters(self, page: Page) -> int:
        """The UTC offset of its region at the last visit."""
        assert self.timing is not None
        return int(self.timing.quarters[self.timing.profile[page.index], self.first + page.visited_in + 1])

    def update(self, page: Page, cycle: int, changed: bool) -> None:
        """Start a schedule after two earlier changes, at a rate of one in four weeks or more; update it later."""
        if self.timing is None:
            return
        rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
        often = sum(page.flags) >= 2 and rate * (86_400.0 / self.timing.cycle_s) >= 1 / 28
        if page.schedule is None and changed and often:
            page.schedule = np.zeros(1, SCHEDULE)
        if page.schedule is None:
            return
        number = int(self.timing.profile[page.index])
        start, end = (local_hours(self.end_of(at), self.quarters(page)) for at in (page.visited_in, cycle))
        record = np.zeros(1, PAGE)
        page.write(record, np.zeros(1, TRACE), 0)
        weighted = weighted_hours(self.timing.profiles[number], 0, start, end)
        predicted = changed_since(record[0], weighted, self.timing.cycle_s)
        view = ScheduleView(page.schedule, 0, self.timing.profiles, number, 0)
        update_schedule(view, start, end, changed, predicted, len(page.flags), sum(page.flags))

    def fill(self, pages: Sequence[Page], records: Records, columns: dict[str, Floats], cycle: int) -> None:
        if self.timing is None:  # all hours count alike
            columns |= {"tau": columns["t"], "rhythm": np.ones(len(pages)), "due": columns["posterior"]}
            return
        links, schedules, timed = (
            np.zeros(len(pages), SEASONAL_LINK),
            np.zeros(1 + len(pages), SCHEDULE),
            records.copy(),
        )
        for page in pages:
            links[page.index]["profile"] = self.timing.profile[page.index]
            links[page.index]["quarters"] = self.quarters(page)
            timed[page.index]["last_visit_s"] = self.end_of(page.visited_in)
            if page.schedule is not None:
                links[page.index]["schedule"] = page.index + 1
                schedules[page.index + 1] = page.schedule[0]
        view = SeasonalityView(links, schedules, self.timing.profiles)
        for name, code in (("tau", TAU), ("rhythm", RHYTHM), ("due", DUE)):
            columns[name] = np.empty(len(pages))
            fill_seasonal_terminal(code, view, timed, self.end_of(cycle), self.timing.cycle_s, columns[name])


def score(formula: Formula, pages: Sequence[Page], cycle: int, around: tuple[Surges, Seasonality]) -> list[float]:
    """Scores from the scheduler's own terminals over all pages, at the end of `cycle`."""
    surges, seasonality = around
    records, traces = np.zeros(len(pages), PAGE), np.zeros(len(pages), TRACE)
    for page in pages:
        page.write(records, traces)
    own = [name for name in KNOWN if name not in {*SEASONAL, "significance"}]
    columns: dict[str, Floats] = TerminalColumns(own, len(pages)).fill(records, traces, NO_CONTEXT, cycle + 1.0, 1.0)
    seasonality.fill(pages, records, columns, cycle)
    columns["significance"] = np.array([in_steps(page.significance) for page in pages])
    columns["surge"] = np.array([surges.of(page, cycle) for page in pages])
    columns["gain"] = np.array(  # its own reference is `Surges.gain` of tests.reference.surges
        [
            expected_gain(due, page.prior_shape + page.own_shape, 0.0, 1.0 - surge)
            for page, due, surge in zip(pages, columns["due"], columns["surge"], strict=True)
        ]
    )
    scores: list[float] = formula.evaluate(columns).tolist()
    return scores


def descending(score: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(score) else (False, -score)


def share(budget: float, pages: int) -> int:
    """max(1, that share of the pages rounded down), with a tolerance of 1e-9 pages."""
    return min(pages, max(1, math.floor(Fraction(budget) * pages + Fraction(1, 10**9))))


def places_of(history: ChangeHistory, salt: int) -> list[int]:
    """Each page's rank by its salted hash."""
    salted = [int(mix(page_hash ^ mix(np.uint64(salt)))) for page_hash in history.hashes]
    places = [0] * len(salted)
    for place, page in enumerate(sorted(range(len(salted)), key=lambda page: (salted[page], page))):
        places[page] = place
    return places


def tie_offset(salt: int, cycle: int, pages: int) -> int:
    """The rotation of the tie order in a cycle."""
    return int(mix(mix(np.uint64(salt)) ^ np.uint64(cycle + 1)) % np.uint64(pages))


def measure(
    figures: Figures, pages: Sequence[Page], changed: Sequence[bool], chosen: Sequence[int], cuts: Sequence[float]
) -> None:
    found = [changed[page] for page in chosen]
    new = [not pages[page].ranked_before for page in chosen]
    relevant = sum(changed)
    figures.counted.append(relevant > 0)
    figures.change_rate.append(sum(found) / len(found))
    figures.ndcg.append(ndcg(found, relevant))
    figures.visits.append(len(chosen))
    figures.new_pages.append(sum(new))
    figures.ranked.append(list(chosen))
    figures.stale.append([page for page, flag in enumerate(changed) if flag])
    figures.cut_visits = [share(cut, len(found)) for cut in cuts]
    figures.cut_change_rate.append([sum(found[:cut]) / cut for cut in figures.cut_visits])
    figures.cut_ndcg.append([ndcg(found[:cut], relevant) for cut in figures.cut_visits])
    figures.cut_new_pages.append([sum(new[:cut]) for cut in figures.cut_visits])
    for page in chosen:
        pages[page].ranked_before = True


def ndcg(found: Sequence[bool], relevant: int) -> float:
    """NDCG against the list that begins with all `relevant` pages, of equal length; 0 if there are none."""
    ideal = gain([True] * min(relevant, len(found)))
    return gain(found) / ideal if ideal else 0.0


def gain(found: Sequence[bool]) -> float:
    return math.fsum(1 / max(1.0, math.log(rank)) for rank, hit in enumerate(found, 1) if hit)
