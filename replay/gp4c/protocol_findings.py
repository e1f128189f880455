"""Findings of the experiment: the paper's claims on this log, the posterior, the top of the list, and new pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from streamsched.evolution.gp.evolution_settings import EvolutionSettings, Metric
from streamsched.replay.findings import Finding
from streamsched.replay.gp4c.comparison import compare_folds, compare_with_zero
from streamsched.replay.gp4c.protocol_results import NAMES, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, SPANS
from streamsched.replay.replay_settings import format_time

if TYPE_CHECKING:
    from streamsched.evolution.gp.symbols import TerminalSet
    from streamsched.replay.confidence_intervals import Estimate

Status: TypeAlias = Literal["confirmed", "smaller", "refuted", "undecided"]
OutcomeCode: TypeAlias = Literal["better", "tie", "worse"]

__all__ = [
    "Claim",
    "OutcomeCode",
    "Status",
    "describe_scope",
    "find_all",
    "find_new_pages",
    "find_top_of_list",
    "find_verdict",
    "judge_claims",
]

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


def find_all(result: ProtocolResult) -> list[Finding]:
    """Return all findings of the experiment. O(figures)."""
    return [*find_verdict(result), *find_top_of_list(result), *find_new_pages(result)]


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
            "span_cycles": result.span_cycles,
            "visits": result.visits,
            "budget": settings.budget,
            "warmup": settings.warmup,
            "changed": settings.evolution.reading,
        },
    )
