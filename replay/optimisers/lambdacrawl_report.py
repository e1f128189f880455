"""LambdaCrawl's experiments beside the authors' code: costs if change rates are known, and while they are learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from streamsched.replay.confidence_intervals import band_over_runs, over_seeds
from streamsched.replay.optimisers.experiment_report import Claim, report_experiment, section
from streamsched.replay.optimisers.lambdacrawl import CrawlExperiment, LearningRuns, PolicyCost
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.curves import Axis, Bar, Curve, draw_bars, draw_curves
from streamsched.replay.reporting.number_format import format_count, format_number, format_percent
from streamsched.replay.reporting.report import Cell, Column, Report, Section, Table, estimate_cell, pick, tabulate

# Harmonic and binary cost by the authors' code, on 100,000 pages generated with seed 0.
_AUTHORS: Final = {
    ("uniform", False): (334.5111, 212.2852),
    ("proportional", False): (434.2904, 290.2487),
    ("binary, floor 0.4", False): (311.1875, 191.9669),
    ("binary, floor 0", False): (np.inf, 188.6041),
    ("approximation", False): (306.9730, 194.8733),
    ("LambdaCrawl", True): (269.0481, 189.6505),
    ("LambdaCrawl", False): (279.6246, 197.0997),
}
_CHECKED: Final = (100_000, 0)  # pages and seed of those figures
_NEAR: Final = 1e-4  # how near costs come to those of the authors' code, which stops within 0.005 of the budget
_STYLES: Final = {
    "LambdaCrawl": LineStyle("vermilion", width=1.6),
    "approximation": LineStyle("blue", width=1.4),
    "binary, floor 0.4": LineStyle("green", width=1.4),
}
_KINDS: Final = ("harmonic", "binary")
_KNOWN: Final = (4.0, 2.0)  # dashes of what a policy costs if rates are known
_REMARKS: Final = (
    "The paper’s figures are charts without numbers, of data that is not part of this package; numbers in brackets "
    "are those of the authors’ code on the same generated pages. That code divides the budget between pages with and "
    "without signals by a search that stops within 0.5 % of the budget, hence the last digits. In experiment 3 it "
    "stores the costs of one algorithm as those of all three; here each has its own. Pages that are seldom visited "
    "keep learned rates that are several times too high. The binary policy takes such pages as hopeless and gives "
    "them its floor only, so that it learns little of them, and may cost more than on the first day."
)


def report_lambdacrawl(result: CrawlExperiment) -> Report:
    """Return the report of the experiments."""
    sections = [_known_rates(result, "Experiment 1: all pages", result.every_page, "every")]
    if result.announced:
        title = "Experiment 2: pages with complete observations"
        sections.append(_known_rates(result, title, result.announced, "announced"))
    sections.append(_learning(result))
    return report_experiment(
        "LambdaCrawl’s experiments", _scope(result), _claims(result), sections, _REMARKS, _content(result)
    )


def _scope(result: CrawlExperiment) -> str:
    settings, file = result.settings, result.file
    source = "generated at random" if file is None else "of Microsoft’s files"
    left_out = "" if file is None else f" Left out for want of an importance: {format_count(file.unknown)}."
    return (
        f"{format_count(result.pages, 'page')} {source}, {format_count(result.complete)} with complete observations; "
        f"0.2 visits a page and day; experiment 3: {format_count(settings.runs, 'run')} of {settings.epochs} days on "
        f"{format_count(min(settings.pages, result.pages), 'page')}.{left_out}"
    )


def _known_rates(result: CrawlExperiment, title: str, costs: Sequence[PolicyCost], name: str) -> Section:
    is_checked = result.file is None and (result.pages, result.settings.seed) == _CHECKED and name == "every"
    rows = [_row(one, costs, _AUTHORS.get((one.policy, one.signals)) if is_checked else None) for one in costs]
    columns = [Column("Policy", "text"), Column("Signals", "text")]
    numbers = [Column(f"{kind} cost", note="(authors’ code)" if is_checked else "") for kind in ("Harmonic", "Binary")]
    explanation = (
        "Mean costs of a page if change rates are known. Harmonic: the i-th change that a copy misses costs 1/i of the "
        "page’s importance. Binary: the stale share of the copies by importance. Bold: the least."
    )
    return section(
        title,
        Table([*columns, *numbers], rows, caption=explanation),
        [_bars(costs, name, kind) for kind in _KINDS],
        "Orange: complete observations are used; blue: they are ignored, and all pages visited at a rate.",
    )


def _row(one: PolicyCost, costs: Sequence[PolicyCost], theirs: tuple[float, float] | None) -> list[Cell]:
    cells = [Cell(one.policy), Cell("used" if one.signals else "ignored")]
    for place, kind in enumerate(_KINDS):
        least = min(getattr(other, kind) for other in costs)
        note = "" if theirs is None else f"({_cost_text(theirs[place], 4)})"
        value = getattr(one, kind)
        cells.append(Cell(_cost_text(value, 4), note, "best" if value == least else ""))
    return cells


def _cost_text(cost: float, digits: int) -> str:
    return format_number(cost, digits) if np.isfinite(cost) else "infinite"


def _bars(costs: Sequence[PolicyCost], name: str, kind: str) -> Callable[[], str]:
    bars = [
        Bar(
            f"{one.policy}, signals" if one.signals else one.policy,
            getattr(one, kind),
            "orange" if one.signals else "sky",
        )
        for one in costs
    ]
    return lambda: draw_bars(f"crawl-{name}-{kind}", f"{kind.capitalize()} cost", Axis("mean cost", ""), bars)


def _learning(result: CrawlExperiment) -> Section:
    explanation = (
        "Harmonic cost of each day’s visit rates at the true change rates; ± is half the 95 % interval over runs. On "
        "the first day all pages are taken to change once a day."
    )
    return section(
        "Experiment 3: rates are learned while crawling",
        tabulate(
            result.learning,
            (Column("Policy", "text"), lambda one: Cell(one.policy, line=_STYLES[one.policy])),
            ("First day", lambda one: format_number(float(one.costs[:, 0].mean()), 2)),
            ("Last day", lambda one: estimate_cell(over_seeds(one.costs[:, -1].tolist()), 2)),
            ("Known rates", lambda one: estimate_cell(over_seeds(one.known.tolist()), 2)),
            ("Last to known", lambda one: format_percent(_excess(one))),
            caption=explanation,
        ),
        [lambda: _draw_learning(result)],
        "Means over the runs with 95 % bands, some thinner than the lines; dashed: the cost if rates are known.",
    )


def _draw_learning(result: CrawlExperiment) -> str:
    days = np.arange(1.0, result.settings.epochs + 1.0)
    curves = []
    for one in result.learning:
        style = _STYLES[one.policy]
        curves.append(Curve(one.policy, style, days, *band_over_runs(one.costs)))
        known = np.full(days.size, one.known.mean())
        curves.append(Curve("", LineStyle(style.hue, _KNOWN, 0.9), days, known))
    return draw_curves("crawl-learning", "Learning while crawling", Axis("day", "harmonic cost"), curves)


def _excess(one: LearningRuns) -> float:
    """Return how far the last day's cost is above that of known rates, mean over the runs."""
    return float(np.mean(one.costs[:, -1] / one.known)) - 1.0


def _claims(result: CrawlExperiment) -> list[Claim]:
    claims = [_least_claim("experiment 1", result.every_page), _signal_claim("experiment 1", result.every_page)]
    if result.announced:
        claims += [_least_claim("experiment 2", result.announced), _signal_claim("experiment 2", result.announced)]
    start, end = (float(result.learning[0].costs[:, place].mean()) for place in (0, -1))
    excess = _excess(result.learning[0])
    text = f"{format_percent(end / start - 1.0)}, {format_percent(excess)} above known rates"
    claims.append(Claim("LambdaCrawl’s cost falls as it learns", "towards that of known rates", text, end < start))
    others = [float(one.costs[:, -1].mean()) for one in result.learning[1:]]
    text = f"{end:.2f}, the others {' and '.join(f'{one:.2f}' for one in others)}"
    claims.append(Claim("After learning, LambdaCrawl costs least", "the least of three", text, end < min(others)))
    return claims + _authors_claim(result)


def _least_claim(experiment: str, costs: Sequence[PolicyCost]) -> Claim:
    ours = [one.harmonic for one in costs if one.policy == "LambdaCrawl" and one.signals]
    others = min(one.harmonic for one in costs if one.policy != "LambdaCrawl")
    text = f"{ours[0]:.2f}, the next {others:.2f}"
    return Claim(f"LambdaCrawl has the least harmonic cost, {experiment}", "the least", text, ours[0] <= others)


def _signal_claim(experiment: str, costs: Sequence[PolicyCost]) -> Claim:
    used, ignored = (
        next(one.harmonic for one in costs if (one.policy, one.signals) == ("LambdaCrawl", kind))
        for kind in (True, False)
    )
    text = format_percent(used / ignored - 1.0)
    return Claim(f"Using complete observations lowers its cost, {experiment}", "lower", text, used < ignored)


def _authors_claim(result: CrawlExperiment) -> list[Claim]:
    """Return whether costs are those of the authors' code, if it was run on these pages."""
    if result.file is not None or (result.pages, result.settings.seed) != _CHECKED:
        return []
    found = {(one.policy, one.signals): (one.harmonic, one.binary) for one in result.every_page}
    pairs = [pair for key, theirs in _AUTHORS.items() for pair in zip(found[key], theirs, strict=True)]
    away = max(abs(ours / theirs - 1.0) for ours, theirs in pairs if np.isfinite(theirs))
    text = f"within {100 * away:.4f} %"
    return [Claim("Costs of experiment 1 are those of the authors’ code", "within 0.01 %", text, away < _NEAR)]


def _content(result: CrawlExperiment) -> dict[str, Any]:
    settings = result.settings
    costs = {"experiment_1": result.every_page, "experiment_2": result.announced}
    learning = []
    for one in result.learning:
        mean, half_width = band_over_runs(one.costs)
        series = {"harmonic": mean, "half_width": half_width, "known": one.known.mean()}
        learning.append({"policy": one.policy, **series})
    counts = pick(settings, "data", "runs", "epochs", "seed") | pick(result, "pages", "complete")
    learned_pages = min(settings.pages, result.pages)
    return {"experiment": "lambdacrawl", **counts, "learned_pages": learned_pages, **costs, "experiment_3": learning}
