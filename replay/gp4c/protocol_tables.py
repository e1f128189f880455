"""The paper's claims on this log, its tables 2, 3 and 4, and its Figure 5 as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from streamsched.evolution.evolution_settings import EvolutionSettings, Metric
from streamsched.formula.terminal_table import TerminalSet
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.protocol_results import (
    NAMES,
    Evolved,
    ProtocolResult,
    compare_folds,
    compare_with_zero,
    estimate,
)
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, SPANS
from streamsched.replay.palette import LineStyle
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.number_format import format_interval, format_number, format_percent
from streamsched.replay.reporting.report import Cell, Column, Mark, Table, estimate_cell, pick, tabulate
from streamsched.replay.reporting.sentences import METRIC_TITLES, OUTCOMES, Finding, method_title
from streamsched.replay.simulation.policies import choose_line_styles

Status: TypeAlias = Literal["confirmed", "smaller", "refuted", "undecided"]
OutcomeCode: TypeAlias = Literal["better", "tie", "worse"]


_PUBLISHED_GAINS: Final[dict[tuple[TerminalSet, Metric], float]] = {  # over NAD, section 5.3; 0: a tie
    ("paper", "change_rate"): 0.013,
    ("paper", "ndcg"): 0.018,
    ("basic", "change_rate"): 0.0,
    ("basic", "ndcg"): 0.0,
}
_BEST_BASELINE: Final = "nad"  # the best of the paper's baselines
_POSTERIOR: Final = "posterior"  # a baseline that the paper does not have
_NOTABLE: Final = 0.018  # the larger of the gains that the paper calls a win
_OUTCOMES: Final[dict[int, OutcomeCode]] = {1: "better", 0: "tie", -1: "worse"}


@dataclass(frozen=True, slots=True)
class Claim:
    """A comparison over all cycles: the relative difference of ``name`` to ``baseline`` here and in the paper.

    ``published``: the paper's gain, 0 for a tie, None if the paper does not make the comparison.
    """

    name: str
    metric: Metric
    baseline: str
    found: Estimate
    published: float | None

    @property
    def status(self) -> Status | None:
        """Whether the paper's finding holds here; None if it has none, or there is no interval.

        A published gain is *confirmed* if the interval lies above 0 and reaches the paper's gain, *smaller* if it lies
        above 0 and below the paper's gain, *refuted* if it holds 0 or lies below it and does not reach the paper's
        gain, and *undecided* if it holds both. A published tie is *confirmed* if the interval excludes gains and losses
        of the size that the paper calls a win, *refuted* if it does not and excludes 0, and *undecided* otherwise.
        """
        low, high = self.found.low, self.found.high
        if self.published is None or low is None or high is None:
            return None
        side = compare_with_zero(self.found)
        if self.published > 0:
            below = high < self.published
            return ("smaller" if below else "confirmed") if side > 0 else "refuted" if below else "undecided"
        return "confirmed" if max(-low, high) < _NOTABLE else "refuted" if side else "undecided"

    @property
    def outcome(self) -> OutcomeCode | None:
        """Whether the method is better, worse or tied here; None without an interval.

        >>> from streamsched.replay.confidence_intervals import Estimate
        >>> Claim("GP4C_All", "ndcg", "nad", Estimate(0.02, -0.01, 0.05), 0.018).outcome
        'tie'
        """
        return None if self.found.low is None else _OUTCOMES[compare_with_zero(self.found)]


def judge_claims(result: ProtocolResult) -> list[Claim]:
    """Return the paper's claims on GP4C against NAD as found here, then GP4C against the posterior. O(figures)."""
    claims = []
    for baseline in (_BEST_BASELINE, _POSTERIOR):
        for one in sorted(result.evolved, key=lambda one: one.terminals != "paper"):
            theirs = result.series(baseline, one.fitness)
            if theirs is None:
                continue
            found = compare_folds(one.outcomes["best"].of(one.fitness), theirs)
            published = _PUBLISHED_GAINS.get((one.terminals, one.fitness)) if baseline == _BEST_BASELINE else None
            claims.append(Claim(one.name, one.fitness, baseline, found, published))
    return claims


def find_verdict(result: ProtocolResult) -> list[Finding]:
    """Return whether the paper's claims hold on this log, the comparison with the posterior, and the search's size."""
    claims = judge_claims(result)
    findings = []
    for terminals in ("paper", "basic"):
        tested = {claim.metric: claim for claim in claims if claim.status and claim.name == NAMES[terminals]}
        if tested:
            values = {
                "method": NAMES[terminals],
                "claim": "gain" if terminals == "paper" else "tie",
                "baseline": _BEST_BASELINE,
                "metrics": {metric: {"status": claim.status, **_outcome(claim)} for metric, claim in tested.items()},
            }
            findings.append(Finding("paper_claim", values))
    if not findings:
        findings.append(Finding("claims_not_tested"))
    methods: dict[str, dict[str, Any]] = {}
    for claim in claims:
        if claim.baseline == _POSTERIOR and claim.outcome is not None:
            methods.setdefault(claim.name, {})[claim.metric] = _outcome(claim)
    if methods:
        findings.append(Finding("posterior_comparison", {"methods": methods}))
    return [*findings, *_find_reduced_search(result)]


def _outcome(claim: Claim) -> dict[str, Any]:
    return {**_difference(claim.found), "outcome": claim.outcome}


def _difference(found: Estimate) -> dict[str, Any]:
    return {"difference": found.value, "low": found.low, "high": found.high}


def _find_reduced_search(result: ProtocolResult) -> list[Finding]:
    """Return the size of the search if it is smaller than the paper's, which makes the verdict weaker."""
    found, paper = (
        [settings.population, settings.generations, settings.seeds]
        for settings in (result.settings.evolution, EvolutionSettings())
    )
    if all(ours >= theirs for ours, theirs in zip(found, paper, strict=True)):
        return []
    return [Finding("reduced_search", {"found": found, "paper": paper})]


def find_top_of_list(result: ProtocolResult) -> list[Finding]:
    """Return how evolving for NDCG differs from evolving for ChangeRate at the first cut; nothing without both."""
    ndcg, change_rate = result.shown("ndcg"), result.shown("change_rate")
    if ndcg is None or change_rate is None:
        return []
    metrics = {
        metric: _difference(compare_folds(ndcg.sweep[metric][:, :1], change_rate.sweep[metric][:, :1]))
        for metric in METRICS
    }
    return [Finding("top_of_list", {"method": ndcg.name, "share": result.settings.cuts[0], "metrics": metrics})]


def find_new_pages(result: ProtocolResult) -> list[Finding]:
    """Return the share of visits to new pages after the first ranked cycle, by fitness. O(figures)."""
    shown = [one for metric in METRICS if (one := result.shown(metric)) and result.ranked > 1]
    if not shown:
        return []
    shares = {one.fitness: float(one.outcomes["best"].new_share[:, 1:].mean()) for one in shown}
    return [Finding("new_pages", {"method": shown[0].name, "shares": shares})]


def describe_scope(result: ProtocolResult) -> Finding:
    """Return what was run: pages, window, folds, spans, budget and reading."""
    window, settings = result.window, result.settings
    return Finding(
        "protocol_scope",
        {
            "pages": window.pages,
            "changes": result.changed_cycles,
            "from": format_time(window.start_s),
            "to": format_time(window.edge(window.cycles)),
            "cycle_s": window.cycle_s,
            "folds": FOLDS,
            "spans": SPANS,
            **pick(result, "span_cycles", "visits"),
            **pick(settings, "budget", "warmup"),
            "changed": settings.evolution.reading,
        },
    )


OMITTED: Final = ("rand", "age")  # in Figure 4 and Table 3, as in the paper
EVOLVED_STYLES: Final = {
    "GP4C_Basic": LineStyle("sky", width=1.8),
    "GP4C_All": LineStyle("vermilion", width=1.8),
    "GP4C_Full": LineStyle("green", width=1.8),
}
_METHODS: Final = (
    "± is half the 95 % interval across the test folds (Student's t). GP4C is evolved for the metric of the column. "
    "The posterior starts from one Gamma prior fitted to the training pages."
)
_CONTESTS: Final = "Overall: mean relative difference over all cycles and its paired 95 % interval."
_CLAIMS: Final = (
    "Here: relative difference over all cycles with its paired 95 % interval. A claim of a gain is smaller if the gain "
    "is significant and below the paper's, undecided if the interval holds both 0 and the paper's gain. A claim of a "
    "tie is undecided if the interval holds 0 and a difference that the paper calls a win."
)
_MARKS: Final[dict[int, Mark]] = {1: "best", 0: "", -1: "worse"}


def choose_method_styles(result: ProtocolResult) -> list[LineStyle]:
    """Return each method's line style, in the order of `ProtocolResult.methods`. O(methods)."""
    return [EVOLVED_STYLES.get(name) or choose_line_styles([name])[0] for name in result.methods()]


def method_table(result: ProtocolResult) -> Table:
    """Return Table 2: each method's ChangeRate and NDCG over the test folds, the best of each column marked."""
    styles = dict(zip(result.methods(), choose_method_styles(result), strict=True))

    def figures_in(metric: Metric) -> Callable[[str], str | Cell]:
        figures = result.table(metric)
        best = max((one.value for one in figures.values() if one.value is not None), default=None)

        def show(name: str) -> str | Cell:
            figure = figures.get(name)
            return "" if figure is None else estimate_cell(figure, mark="best" if figure.value == best else "")

        return show

    return tabulate(
        styles,
        (Column("Method", "text"), lambda name: Cell(method_title(name), line=styles[name])),
        *((METRIC_TITLES[metric], figures_in(metric)) for metric in METRICS),
        caption=f"{_METHODS} {result.note}".rstrip(),
    )


def contest_table(result: ProtocolResult) -> Table:
    """Return Table 3: cycles won and lost at 95 %, and the difference over all cycles, by fitness."""
    rows = [row for row in result.contests() if row[1] not in OMITTED]
    return tabulate(
        rows,
        (Column("Method", "text"), lambda row: row[0].name),
        (Column("Metric", "text"), lambda row: METRIC_TITLES[row[0].fitness]),
        (Column("Baseline", "text"), lambda row: method_title(row[1])),
        ("Victories", lambda row: _count_cell(row[2].victories, row[2].gain)),
        ("Losses", lambda row: _count_cell(row[2].losses, row[2].drop)),
        ("Overall", lambda row: _difference_cell(row[3], _MARKS[compare_with_zero(row[3])])),
        compact=True,
        caption=_CONTESTS,
    )


def _count_cell(count: int, difference: float | None) -> Cell:
    return Cell(str(count), "" if difference is None else f"({format_percent(difference)})")


def _difference_cell(difference: Estimate, mark: Mark = "") -> Cell:
    return Cell(format_percent(difference.value), format_interval(difference.low, difference.high), mark)


def formula_table(result: ProtocolResult) -> Table:
    """Return Table 4: the formula that each rotation selected, and its fitness on each of the three spans."""
    rows = [(one, number, choice) for one in result.evolved for number, choice in enumerate(one.choices["best"], 1)]
    return tabulate(
        rows,
        (Column("Method", "text"), lambda row: row[0].name),
        (Column("Evolved for", "text"), lambda row: METRIC_TITLES[row[0].fitness]),
        ("Fold", lambda row: str(row[1])),
        ("Train", lambda row: format_number(row[2].train)),
        ("Valid.", lambda row: format_number(row[2].validation)),
        ("Test", lambda row: format_number(row[2].test)),
        (Column("Formula", "formula"), lambda row: row[2].formula),
        caption="Train, Valid., Test: fitness on the three spans.",
    )


def sweep_table(result: ProtocolResult, caption: str = "") -> Table:
    """Return Figure 5 as numbers, for a terminal: each metric over the first part of every ranked list, by fitness."""

    def figures_at(cut: int) -> Callable[[tuple[Evolved, Metric]], str | Cell]:
        return lambda row: estimate_cell(estimate(row[0].sweep[row[1]][:, cut]))

    shares: list[tuple[str | Column, Callable[[tuple[Evolved, Metric]], str | Cell]]] = [
        (f"{100 * share:.3g} %", figures_at(cut)) for cut, share in enumerate(result.settings.cuts)
    ]
    rows: list[tuple[Evolved, Metric]] = [(one, metric) for one in result.evolved for metric in one.sweep]
    return tabulate(
        rows,
        (Column("Method", "text"), lambda row: row[0].name),
        (Column("Evolved for", "text"), lambda row: METRIC_TITLES[row[0].fitness]),
        (Column("Metric", "text"), lambda row: METRIC_TITLES[row[1]]),
        *shares,
        caption=caption.strip(),
        medium="terminal",
    )


def claim_table(result: ProtocolResult) -> Table:
    """Return the paper's claims on GP4C and NAD as found here, then GP4C against the posterior."""
    return tabulate(
        judge_claims(result),
        (Column("Method", "text"), lambda claim: claim.name),
        (Column("Baseline", "text"), lambda claim: method_title(claim.baseline)),
        (Column("Metric", "text"), lambda claim: METRIC_TITLES[claim.metric]),
        ("Here", lambda claim: _difference_cell(claim.found)),
        (Column("Outcome", "text"), lambda claim: "" if claim.outcome is None else OUTCOMES[claim.outcome]),
        ("Paper", lambda claim: "a tie" if claim.published == 0 else format_percent(claim.published)),
        (Column("Claim", "text"), lambda claim: claim.status or ""),
        caption=_CLAIMS,
    )
