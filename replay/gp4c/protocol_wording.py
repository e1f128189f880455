"""What the tables and the report of the experiment say in the same words, first of all how the paper's claim fares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from streamsched.evolution.gp.evolution_settings import EvolutionSettings, Metric
from streamsched.evolution.gp.final_selection import Selection
from streamsched.evolution.gp.symbols import TerminalSet
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.comparison import compare_folds, is_apart
from streamsched.replay.gp4c.protocol_results import NAMES, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, SPANS
from streamsched.replay.replay_settings import spell_time
from streamsched.replay.simulation.simulator import DAY_S

Standing: TypeAlias = Literal["confirmed", "smaller", "refuted", "undecided"]

__all__ = [
    "HEADS",
    "LEFT_OUT",
    "SELECTION_HEADS",
    "UNDECIDED",
    "Claim",
    "Standing",
    "caution",
    "describe_protocol",
    "judge_claims",
    "spell_difference",
    "spell_estimate",
    "spell_name",
    "spell_new_pages",
    "spell_published",
    "spell_side",
    "spell_sweep",
    "spell_verdict",
]

HEADS: Final[dict[Metric, str]] = {"change_rate": "ChangeRate", "ndcg": "NDCG"}
SELECTION_HEADS: Final[dict[Selection, str]] = {"best": "Best", "avg": "Avg_σ", "sum": "Sum_σ"}
_READINGS: Final = {
    "since_visit": "since the page's last visit, as a live crawler sees it (the paper's letter: that-day)",
    "that_day": "within the cycle of the visit, the paper's letter",
}
UNDECIDED: Final = (
    "Relative differences over all cycles with their paired 95 % intervals. Smaller: a sure gain, surely below the "
    "paper's. Undecided: room for no gain and for the paper's, or, where the paper has a tie, for such a gain."
)
_PUBLISHED: Final[dict[tuple[TerminalSet, Metric], float | None]] = {  # over NAD, section 5.3; None: a tie
    ("paper", "change_rate"): 0.013,
    ("paper", "ndcg"): 0.018,
    ("basic", "change_rate"): None,
    ("basic", "ndcg"): None,
}
LEFT_OUT: Final = ("rand", "age")  # of figure 4 and table 3, as in the paper
_RIVAL: Final = "nad"  # the best of the paper's baselines
_NOTABLE: Final = 0.018  # the larger of the gains that the paper calls a win
_OURS: Final = "posterior"  # what the paper did not have


@dataclass(frozen=True, slots=True)
class Claim:
    """A comparison over all cycles: by which share `name` is above `baseline` here, and what the paper found.

    ``published``: the paper's share, 0 for a tie, None where it made no such comparison.
    """

    name: str
    metric: Metric
    baseline: str
    found: Estimate
    published: float | None

    @property
    def standing(self) -> Standing | None:
        """What is left of the paper's finding here; None where it has none, or nothing was found.

        A gain is smaller where it is sure, but surely below the paper's; refuted where it surely is, and not sure; and
        undecided where the interval has room for none and for the paper's. A tie is confirmed where the interval has no
        room for a gain such as the paper calls a win, sure or not; refuted by a sure difference; undecided otherwise.
        """
        low, high = self.found.low, self.found.high
        if self.published is None or low is None or high is None:
            return None
        side = is_apart(self.found)
        if self.published > 0:
            below = high < self.published
            return ("smaller" if below else "confirmed") if side > 0 else "refuted" if below else "undecided"
        return "confirmed" if max(-low, high) < _NOTABLE else "refuted" if side else "undecided"


def judge_claims(result: ProtocolResult) -> list[Claim]:
    """Return the paper's claims on GP4C against NAD as found here, then GP4C against the posterior. O(figures)."""
    claims = []
    for baseline in (_RIVAL, _OURS):
        for one in sorted(result.evolved, key=lambda one: one.terminals != "paper"):
            theirs = result.series(baseline, one.fitness)
            if theirs is None:
                continue
            found = compare_folds(one.outcomes["best"].of(one.fitness), theirs)
            pair = (one.terminals, one.fitness)
            published = (_PUBLISHED[pair] or 0.0) if baseline == _RIVAL and pair in _PUBLISHED else None
            claims.append(Claim(one.name, one.fitness, baseline, found, published))
    return claims


def spell_verdict(result: ProtocolResult) -> str:
    """Return in a few sentences what is left of the paper's claim on this log, whichever way it falls. O(figures)."""
    claims = judge_claims(result)
    said = []
    for terminals in ("paper", "basic"):
        told = [claim for claim in claims if claim.standing and claim.name == NAMES[terminals]]
        if told:
            said.append(_spell_standing(told, "beats NAD" if terminals == "paper" else "ties with NAD"))
    if not said:
        said.append(
            "The paper's claim was not put to the test: that takes GP4C evolved from basic or from paper terminals, "
            "and pages that NAD finds changed."
        )
    rivals = [claim for claim in claims if claim.baseline == _OURS and claim.found.low is not None]
    if rivals:
        fares = "; ".join(_spell_rivalry([claim for claim in rivals if claim.name == name]) for name in _names(rivals))
        said.append(f"Against the posterior, which the paper did not have: {fares}.")
    return " ".join([*said, caution(result)]).rstrip()


def spell_published(claim: Claim) -> str:
    """Return what the paper found.

    >>> spell_published(Claim("GP4C_All", "ndcg", "nad", Estimate(0.02), 0.018))
    '+1.8 %'
    """
    return "–" if claim.published is None else f"{100 * claim.published:+.1f} %" if claim.published else "a tie"


def spell_side(claim: Claim) -> str:
    """Return whether better, worse or a tie was found, nothing where there is no interval to tell by.

    >>> spell_side(Claim("GP4C_All", "ndcg", "nad", Estimate(0.02, -0.01, 0.05), 0.018))
    'a tie'
    """
    return "" if claim.found.low is None else {1: "better", 0: "a tie", -1: "worse"}[is_apart(claim.found)]


def spell_sweep(result: ProtocolResult) -> str:
    """Return how formulas evolved for NDCG fare against those for ChangeRate at the very top; nothing without both."""
    ndcg, change_rate = result.shown("ndcg"), result.shown("change_rate")
    if ndcg is None or change_rate is None:
        return ""
    parts = []
    for metric in METRICS:
        difference = compare_folds(ndcg.sweep[metric][:, :1], change_rate.sweep[metric][:, :1])
        parts.append(f"{HEADS[metric]} {spell_difference(difference)}")
    share = 100 * result.settings.cuts[0]
    return f"{ndcg.name} here, evolved for NDCG against evolved for ChangeRate, at {share:.3g} %: {', '.join(parts)}."


def spell_new_pages(result: ProtocolResult) -> str:
    """Return which share of the visits after the first cycle went to new pages. O(figures)."""
    shown = [one for metric in METRICS if (one := result.shown(metric)) and result.ranked > 1]
    parts = [
        f"{100 * float(one.outcomes['best'].new_share[:, 1:].mean()):.0f} % evolved for {HEADS[one.fitness]}"
        for one in shown
    ]
    name = f" of {shown[0].name}" if shown else ""
    return f"New pages here{name}, after the first ranked cycle: {', '.join(parts)}." if parts else ""


def caution(result: ProtocolResult) -> str:
    """Return what keeps the verdict from being the paper's own experiment, nothing where little does."""
    settings, paper = result.settings.evolution, EvolutionSettings()
    scale = [(settings.population, paper.population), (settings.generations, paper.generations)]
    scale.append((settings.seeds, paper.seeds))
    if all(found >= expected for found, expected in scale):
        return ""
    found, expected = (" × ".join(str(pair[side]) for pair in scale) for side in (0, 1))
    return f"Evolved at {found} (population × generations × seeds) where the paper has {expected}: a weaker search."


def describe_protocol(result: ProtocolResult) -> str:
    """Return one line on what was run: pages, window, folds, spans, budget and reading."""
    window, settings = result.window, result.settings
    cycle = "day" if window.cycle_s == DAY_S else f"cycle of {window.cycle_s:g} s"
    span = f"{spell_time(window.start_s)} to {spell_time(window.edge(window.cycles))}"
    return (
        f"{window.pages:,} pages, {result.flags:,} changes (one a page and {cycle} at most), {span}: {FOLDS} folds, "
        f"{SPANS} spans of {result.span_cycles}; {result.visits:,} visits a {cycle} of a test fold "
        f"({settings.budget:.3g} of its pages) after {settings.warmup} that visit all; "
        f"changed: {_READINGS[settings.evolution.reading]}"
    )


def spell_name(name: str) -> str:
    """Return a method's name as the paper prints it.

    >>> spell_name("nad"), spell_name("age"), spell_name("GP4C_All")
    ('NAD', 'Age', 'GP4C_All')
    """
    return name.upper() if name in ("cg", "nad", "sad", "aad", "gad") else name[0].upper() + name[1:]


def spell_estimate(estimate: Estimate) -> str:
    """Return a figure with half its interval's width, three decimals.

    >>> spell_estimate(Estimate(0.27, 0.25, 0.29)), spell_estimate(Estimate(None))
    ('0.270 ±0.020', '–')
    """
    if estimate.value is None:
        return "–"
    return f"{estimate.value:.3f}" + ("" if estimate.half_width is None else f" ±{estimate.half_width:.3f}")


def spell_difference(difference: Estimate) -> str:
    """Return a relative difference in per cent with its interval.

    >>> spell_difference(Estimate(0.013, 0.002, 0.024))
    '+1.3 % (+0.2 to +2.4)'
    """
    if difference.value is None:
        return "nothing to compare with"
    text = f"{100 * difference.value:+.1f} %"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"


def _spell_standing(claims: list[Claim], claimed: str) -> str:
    """Return a sentence on one of the paper's claims, in all metrics it was tested in."""
    words = [_STANDINGS[claim.standing] for claim in claims if claim.standing]
    shares = [f"{HEADS[claim.metric]} ({_spell_short(claim)})" for claim in claims]
    if len(set(words)) == 1:
        return f"The claim that {claims[0].name} {claimed} {words[0]} on this log: {', '.join(shares)}."
    parts = [f"{word} in {share}" for word, share in zip(words, shares, strict=True)]
    return f"The claim that {claims[0].name} {claimed} {', and '.join(parts)}."


def _spell_rivalry(claims: list[Claim]) -> str:
    """Return how one method fares against one baseline, in all metrics."""
    parts = [f"{HEADS[claim.metric]} ({_spell_short(claim)})" for claim in claims]
    return f"{claims[0].name} in {', '.join(parts)}"


def _spell_short(claim: Claim) -> str:
    return f"{100 * (claim.found.value or 0.0):+.1f} %, {spell_side(claim)}"


def _names(claims: list[Claim]) -> list[str]:
    return list(dict.fromkeys(claim.name for claim in claims))


_STANDINGS: Final[dict[Standing, str]] = {
    "confirmed": "holds",
    "smaller": "holds, by less than the paper's gain,",
    "refuted": "does not hold",
    "undecided": "cannot be decided",
}
