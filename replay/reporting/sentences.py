"""English sentences for findings: the only place where codes and numbers become prose.

`describe` returns one sentence, or a few, for a finding of any report. Nothing is computed here: numbers are formatted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.replay.reporting.number_format import (
    capitalize,
    format_count,
    format_cycle,
    format_expected,
    format_gain,
    format_interval,
    format_length,
    format_number,
    format_percent,
    format_share,
    join_names,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A result in machine-readable form: ``code`` says which kind it is, ``values`` are plain JSON values.

    Times are seconds, shares lie between 0 and 1, and None marks a value that does not exist.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


Values = Mapping[str, Any]

METRIC_TITLES: Final = {
    "change_rate": "ChangeRate",
    "ndcg": "NDCG",
    "freshness": "Freshness",
    "stale": "Stale pages",
    "delay_mean": "Delay, mean",
    "delay_p95": "Delay, p95",
}
OUTCOMES: Final = {"better": "better", "tie": "a tie", "worse": "worse"}
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEKDAY_PLURALS: Final = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
_STATUSES: Final = {
    "confirmed": "holds",
    "smaller": "holds with a smaller gain than in the paper",
    "refuted": "does not hold",
    "undecided": "cannot be decided",
}
_HOUR_S: Final = 3_600.0


def describe(finding: Finding) -> str:
    """Return the finding in English. O(values). Raises KeyError for an unknown code."""
    return _SENTENCES[finding.code](finding.values)


def describe_all(findings: Iterable[Finding]) -> str:
    """Return the findings as one paragraph. O(values)."""
    return " ".join(map(describe, findings))


def method_title(name: str) -> str:
    """Return a method's name as the paper prints it.

    >>> method_title("nad"), method_title("age"), method_title("GP4C_All")
    ('NAD', 'Age', 'GP4C_All')
    """
    return name.upper() if name in ("cg", "nad", "sad", "aad", "gad") else capitalize(name)


def name_option(near_s: float) -> str:
    """Return the option of ``analyze`` that selects pages with a mean interval of `near_s`.

    >>> name_option(86400.0), name_option(604800.0)
    ('--near 24h', '--near 7d')
    """
    hours = near_s / _HOUR_S
    return f"--near {hours:g}h" if hours < 48 else f"--near {hours / 24:g}d"


# Replays.


def _scope(values: Values) -> str:
    cycle = format_cycle(values["cycle_s"])
    reading = {"since_visit": "since the page's last visit", "that_day": "within the cycle of the visit"}
    learned = "" if values["learn_from"] is None else f", learning from {values['learn_from']}"
    return (
        f"{format_count(values['pages'], 'page')}, {format_count(values['changes'], 'change')}, "
        f"{values['from']} to {values['to']}{learned}; {format_count(values['visits'], 'visit')} per {cycle} "
        f"({values['budget']:.3g} of the pages) after {format_count(values['warmup'], 'warm-up cycle')} that visit all "
        f"pages; changed: {reading[values['changed']]}."
    )


def _simulated_source(values: Values) -> str:
    pages = "all pages" if values["share"] == 1.0 else f"{format_share(values['share'])} of the pages"
    begin = f", from {format_length(values['start_s'])} after the start on" if values["start_s"] else ""
    if "flood_s" in values:
        return f"Signals of {values['kind']}: {pages} every {format_length(values['flood_s'])}, changed or not{begin}."
    late = f"{format_length(values['late_s'])} late" if values["late_s"] else "at once"
    return (
        f"Signals of {values['kind']}: on {pages}, recall {values['recall']:g}, precision {values['precision']:g}, "
        f"{late}{begin}."
    )


def _best(values: Values, claim: str) -> str:
    baseline = "" if values["baseline"] is None else f" ({values['baseline']}: {values['baseline_value']:.3f})"
    return f"{join_names(values['policies'])} {claim.format(value=format_number(values['value']))}{baseline}."


def _promoted(values: Values) -> str:
    seed = "" if values["seed"] is None else f", seed {values['seed']}"
    gain = format_gain(values["gain"], values["noise"], values["metric"])
    return f"{values['policy']}{seed}, {values['date']}: {values['formula']}  ({gain})"


def _interval_method(values: Values) -> str:
    seeds = values["seeds"]
    ties = f" The columns of seeds: over {seeds} seeds, which covers the luck of breaking ties only." * (seeds > 1)
    return (
        "± is half the width of the 95 % confidence interval over time, by the jackknife over "
        f"{values['batches']} batches of {values['days']:.3g} days or more.{ties}"
    )


def _no_interval(values: Values) -> str:
    seeds = values["seeds"]
    ties = f" The columns of seeds cover the luck of breaking ties only, over {seeds} seeds." * (seeds > 1)
    return (
        f"There is no confidence interval: it needs two batches of {values['batch_days']} days, and the measured "
        f"cycles cover {values['days']:.3g} days.{ties}"
    )


def _ndcg_cycles(values: Values) -> str:
    return (
        f"NDCG is the mean over the cycles in which some page had changed under every policy: "
        f"{format_count(values['counted'])} of {format_count(values['cycles'], 'cycle')}, "
        f"{100 * values['share']:.1f} %."
    )


def _no_probabilities(values: Values) -> str:
    names = values["policies"]
    return (
        f"No calibration for {join_names(names)}: {'its' if len(names) == 1 else 'their'} scores are not probabilities."
    )


# Analyses.


def _analysis_scope(values: Values) -> str:
    length = format_length(values["step_s"] if values["exact"] else values["resolution_s"])
    seen = f"a crawl every {length} would see {values['seen']:,}"
    how = seen if values["exact"] else f"seen by visits about {length} apart"
    return (
        f"{format_count(values['pages'], 'page')}, {values['changing_pages']:,} of them changed; "
        f"{format_count(values['changes'], 'change')} ({how}); {values['from']} to {values['to']}."
    )


def _page_types(values: Values) -> str:
    counts = [f"{count:,} {page_type}" for page_type, count in values["other_types"].items()]
    return (
        f"Of {values['tested']:,} pages with {values['min_changes']} changes or more, "
        f"{format_share(values['poisson_share'])} are consistent with a Poisson process; {', '.join(counts)}. "
        f"If all were Poisson pages, about {format_expected(values['expected_false'])} would be classified otherwise "
        f"(at most {format_expected(values['max_false'])} at the tests' level of {100 * values['level']:g} %)."
    )


def _median(seconds: float | None) -> str:
    return "more than the time observed" if seconds is None else format_length(seconds)


def _median_interval(values: Values) -> str:
    simple, modified = _median(values["simple_s"]), _median(values["modified_s"])
    counted = f"; with all changes counted it is {_median(values['counted_s'])}" if values["counted"] else ""
    if simple == modified:
        return f"The median page changes every {simple} by either estimator{counted}."
    return f"The median page changes every {simple} by the simple estimator, {modified} by the modified one{counted}."


def _change_frequency(values: Values) -> str:
    (first, share), *more = values["shares"].items()
    parts = [f"{format_share(share)} of the pages change {first}"]
    parts += [f"{format_share(other)} {name}" for name, other in more]
    return f"By the modified estimator, {join_names(parts)} or more often."


def _alternative(values: Values) -> str:
    """Return which other mean interval has more data, after a space; nothing if there is none."""
    other = values["alternative"]
    if other is None:
        return ""
    intervals = format_count(other["intervals"], "interval")
    return f" More data: {intervals} near {format_length(other['near_s'])} ({name_option(other['near_s'])})."


def _near_interval(values: Values) -> str:
    near = format_length(values["near_s"])
    asked_s = values["asked_s"]
    missing = "" if asked_s is None else f"No page has a mean interval of about {format_length(asked_s)}. "
    small = " The sample is small, so chance dominates." if values["small_sample"] else ""
    return (
        f"{missing}{format_count(values['pages'], 'page')} with a mean interval of about {near} had "
        f"{format_count(values['intervals'], 'interval')}: {format_share(values['share'])} of them within "
        f"{format_length(values['within_s'])} of {near}, against {format_share(values['poisson_share'])} for "
        f"exponential intervals.{small}{_alternative(values)}"
    )


def _weekend(values: Values) -> str:
    share = values["weekend"]
    return "" if share is None else f"; a weekend day has {share:.2f} times the changes of a weekday"


def _hour(hour: int) -> str:
    return f"{WEEKDAYS[hour // 24]} {hour % 24:02}:30"


def _busiest_hour(values: Values) -> str:
    return (
        f"{capitalize(values['region'])}: changes peak in the hour around {_hour(values['busiest_hour'])} "
        f"({values['busiest']:.1f} times the average hour) and are fewest around {_hour(values['quietest_hour'])} "
        f"({values['quietest']:.1f} times){_weekend(values)}."
    )


def _busiest_day(values: Values) -> str:
    day = _WEEKDAY_PLURALS[values["busiest_day"]]
    return f"{capitalize(values['region'])}: changes peak on {day}{_weekend(values)}."


def _time_zone(values: Values) -> str:
    if values["local"]:
        return f"Times are local to each region, {values['zone']} for pages without one."
    return f"Times are {values['zone']}."


def _hidden_by_steps(values: Values) -> str:
    shown_s = values["shown_s"]
    instead = "" if shown_s is None else f" Those near {format_length(shown_s)} are."
    return (
        f"Intervals near {format_length(values['asked_s'])} are not compared with exponential ones: with steps of "
        f"{format_length(values['step_s'])} a histogram would show the steps.{instead}{_alternative(values)}"
    )


# GP4C's experiment.


def _protocol_scope(values: Values) -> str:
    cycle = format_cycle(values["cycle_s"])
    reading = {
        "since_visit": "since the page's last visit, as a live crawler sees it (the paper: within the cycle)",
        "that_day": "within the cycle of the visit, as in the paper",
    }
    return (
        f"{values['pages']:,} pages, {values['changes']:,} changes (at most one per page and {cycle}), "
        f"{values['from']} to {values['to']}: {values['folds']} folds, {values['spans']} spans of "
        f"{values['span_cycles']} cycles; {format_count(values['visits'], 'visit')} per {cycle} and test fold "
        f"({values['budget']:.3g} of its pages) after {format_count(values['warmup'], 'warm-up cycle')} that visit all "
        f"pages; changed: {reading[values['changed']]}."
    )


def _metric_outcomes(metrics: Mapping[str, Values]) -> list[str]:
    return [
        f"{METRIC_TITLES[metric]} ({format_percent(one['difference'])}, {OUTCOMES[one['outcome']]})"
        for metric, one in metrics.items()
    ]


def _paper_claim(values: Values) -> str:
    verb = {"gain": "beats", "tie": "ties with"}[values["claim"]]
    claim = f"The paper's claim that {values['method']} {verb} {method_title(values['baseline'])}"
    statuses = [one["status"] for one in values["metrics"].values()]
    outcomes = _metric_outcomes(values["metrics"])
    if len(set(statuses)) == 1:
        return f"{claim} {_STATUSES[statuses[0]]} on this log: {', '.join(outcomes)}."
    parts = [f"{_STATUSES[status]} in {one}" for status, one in zip(statuses, outcomes, strict=True)]
    return f"{claim} {' and '.join(parts)} on this log."


def _posterior_comparison(values: Values) -> str:
    methods = [f"{name} in {', '.join(_metric_outcomes(metrics))}" for name, metrics in values["methods"].items()]
    return f"Against the posterior, which the paper does not have: {'; '.join(methods)}."


def _reduced_search(values: Values) -> str:
    found, paper = (" × ".join(str(number) for number in values[side]) for side in ("found", "paper"))
    return (
        f"The search is smaller than the paper's: {found} instead of {paper} (population × generations × seeds), so "
        "its formulas may be worse."
    )


def _format_difference(one: Values) -> str:
    return f"{format_percent(one['difference'])} {format_interval(one['low'], one['high'])}".rstrip()


def _top_of_list(values: Values) -> str:
    parts = [f"{METRIC_TITLES[metric]} {_format_difference(one)}" for metric, one in values["metrics"].items()]
    return (
        f"On this log, {values['method']} evolved for NDCG compares with {values['method']} evolved for ChangeRate in "
        f"the first {100 * values['share']:.3g} % of the pages as follows: {', '.join(parts)}."
    )


def _new_pages(values: Values) -> str:
    parts = [
        f"{100 * share:.0f} % if evolved for {METRIC_TITLES[fitness]}" for fitness, share in values["shares"].items()
    ]
    return f"On this log the share of new pages after the first ranked cycle is {' and '.join(parts)}."


_SENTENCES: Final[dict[str, Callable[[Values], str]]] = {
    "replay_scope": _scope,
    "simulated_source": _simulated_source,
    "recorded_signals": lambda values: f"Signals recorded in {values['file']}.",
    "learned_sources": lambda values: (
        "Precision: of the signals, those that announce a change. Recall: of the changes of the source's pages, those "
        "announced. Lateness: mean time from a change to its announcement. Learned from all visits of the replay."
    ),
    "no_change_ranked": lambda values: "No page changed in the ranked cycles, so there was nothing to find.",
    "best_change_rate": lambda values: _best(
        values, "found the most changes: {value} of the visits met a changed page"
    ),
    "best_freshness": lambda values: _best(values, "kept copies freshest: {value} of them are current on average"),
    "identical_policies": lambda values: (
        f"{join_names(values['policies'])} visited the same pages, so their lines coincide."
    ),
    "promoted": _promoted,
    "interval_method": _interval_method,
    "no_interval": _no_interval,
    "ndcg_cycles": _ndcg_cycles,
    "compared_with": lambda values: (
        f"Differences from {values['policy']}, in per cent of its figures, ± half the width of the 95 % confidence "
        "interval of the paired differences. Stale pages: the share of copies that are not current, 1 - freshness."
    ),
    "no_probabilities": _no_probabilities,
    "rejected_records": lambda values: f"The log's malformed records were left out: {format_count(values['count'])}.",
    "analysis_scope": _analysis_scope,
    "page_types": _page_types,
    "no_page_tested": lambda values: (
        f"No page changed {values['min_changes']} times or more, so none can be tested against a Poisson process."
    ),
    "changed_at_every_visit": lambda values: (
        f"{format_count(values['pages'], 'page')} changed at nearly every visit, too often for a test."
    ),
    "no_change": lambda values: "No page changed.",
    "share_changed": lambda values: f"{format_share(values['share'])} of the pages changed.",
    "median_interval": _median_interval,
    "change_frequency": _change_frequency,
    "rare_changes": lambda values: "No page changes monthly or more often.",
    "no_page_near": lambda values: (
        f"No page has a mean interval of about {format_length(values['near_s'])}.{_alternative(values)}"
    ),
    "near_interval": _near_interval,
    "busiest_hour": _busiest_hour,
    "busiest_day": _busiest_day,
    "too_few_for_week": lambda values: (
        f"{capitalize(values['region'])}: {format_count(values['changes'], 'change')}, too few to show a weekly shape."
    ),
    "time_zone": _time_zone,
    "coarse_times": lambda values: (
        f"The log's times are multiples of {format_length(values['resolution_s'])}: shorter intervals cannot be seen, "
        "and every interval is a multiple of that."
    ),
    "known_from_visits": lambda values: (
        f"Changes are known only from visits, about {format_length(values['resolution_s'])} apart: several changes "
        "between two visits count as one, and no interval is shorter."
    ),
    "near_hidden_by_steps": _hidden_by_steps,
    "unknown_date": lambda values: (
        "The first day of this collection is not published: hours and days of the week have no meaning."
    ),
    "no_week": lambda values: (
        "These times resolve neither hours nor days of the week, so the figure of the week is left out."
    ),
    "no_hours": lambda values: "These times do not resolve hours of the day, so the week is shown by days.",
    "shorter_than_week": lambda values: "The span is shorter than a week: the other days of the week are unknown.",
    "shorter_than_four_weeks": lambda values: (
        "The span is shorter than four weeks: a single unusual day affects the shape of the week."
    ),
    "untestable_periods": lambda values: f"The steps are too long to detect {join_names(values['periods'])} pages.",
    "unclear_periods": lambda values: (
        f"With these steps, {join_names(values['periods'])} pages cannot be distinguished from pages that change more "
        "often."
    ),
    "protocol_scope": _protocol_scope,
    "paper_claim": _paper_claim,
    "claims_not_tested": lambda values: (
        "The paper's claims are not tested: that needs GP4C evolved from basic or paper terminals, and changes found "
        "by NAD."
    ),
    "posterior_comparison": _posterior_comparison,
    "reduced_search": _reduced_search,
    "top_of_list": _top_of_list,
    "new_pages": _new_pages,
}
