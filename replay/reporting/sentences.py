"""English sentences for findings: the only place where codes and numbers become prose.

`describe` returns one sentence, or a few, for a finding of any report. Nothing is computed here: numbers are formatted,
as the field of a sentence says: ``{pages:count page}`` is "2,180 pages", ``{near_s:length}`` "24 h".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from string import Formatter
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
_STATUSES: Final = {
    "confirmed": "holds",
    "smaller": "holds with a smaller gain than in the paper",
    "refuted": "does not hold",
    "undecided": "cannot be decided",
}
_HOUR_S: Final = 3_600.0
_SPAN: Final = "{from} to {to}"


_FORMATS: Final[Mapping[str, Callable[..., str]]] = {
    "capitalized": capitalize,
    "count": format_count,
    "cycle": format_cycle,
    "expected": format_expected,
    "hour": lambda hour: f"{WEEKDAYS[hour // 24]} {hour % 24:02}:30",
    "length": format_length,
    "median": lambda seconds: "more than the time observed" if seconds is None else format_length(seconds),
    "names": join_names,
    "number": format_number,
    "percent": lambda share, digits="3g": f"{100 * share:.{digits}} %",
    "share": format_share,
    "weekday": lambda day: ("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun")[day] + "days",
}


class _Sentence(Formatter):
    """Fills the fields of a sentence: each has the name of one of _FORMATS, or a format specification of Python."""

    def format_field(self, value: Any, format_spec: str) -> str:
        name, _, noun = format_spec.partition(" ")
        if name not in _FORMATS:
            return format(value, format_spec)
        return _FORMATS[name](value, noun) if noun else _FORMATS[name](value)


_FILL: Final = _Sentence().vformat


def describe(finding: Finding) -> str:
    """Return the finding in English. O(values). Raises KeyError for an unknown code."""
    sentence = _SENTENCES[finding.code]
    if callable(sentence):
        sentence = sentence(finding.values)
    return _FILL(sentence, (), finding.values)


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


# Each function returns a sentence whose fields `describe` fills in: what depends on the values is chosen here.


def _scope(values: Values) -> str:
    reading = {"since_visit": "since the page's last visit", "that_day": "within the cycle of the visit"}
    learned = "" if values["learn_from"] is None else ", learning from {learn_from}"
    share = " ({budget:.3g} of the pages)" if values["budget"] <= 1 else ""
    return (
        f"{{pages:count page}}, {{changes:count change}}, {_SPAN}{learned}; {{visits:count visit}} per "
        f"{{cycle_s:cycle}}{share} after {{warmup:count warm-up cycle}} that visit all pages; "
        f"changed: {reading[values['changed']]}."
    )


def _simulated_source(values: Values) -> str:
    pages = "all pages" if values["share"] == 1.0 else "{share:share} of the pages"
    begin = ", from {start_s:length} after the start on" if values["start_s"] else ""
    if "flood_s" in values:
        return f"Signals of {{kind}}: {pages} every {{flood_s:length}}, changed or not{begin}."
    late = "{late_s:length} late" if values["late_s"] else "at once"
    return f"Signals of {{kind}}: on {pages}, recall {{recall:g}}, precision {{precision:g}}, {late}{begin}."


def _best(claim: str) -> Callable[[Values], str]:
    def sentence(values: Values) -> str:
        baseline = "" if values["baseline"] is None else " ({baseline}: {baseline_value:number})"
        return f"{{policies:names}} {claim}{baseline}."

    return sentence


def _below(baseline: str) -> Callable[[Values], str]:
    def sentence(values: Values) -> str:
        gaps = [f"{{policies[{at}]}} by {{gaps[{at}]:.2g}}" for at in range(len(values["policies"]))]
        metric = METRIC_TITLES[values["metric"]]
        return f"{metric} below that of {baseline} ({{baseline_value:number}}): {join_names(gaps)}."

    return sentence


def _promoted(values: Values) -> str:
    seed = "" if values["seed"] is None else ", seed {seed}"
    gain = format_gain(values["gain"], values["noise"], values["metric"])
    return f"{{policy}}{seed}, {{date}}: {{formula}}  ({gain})"


def _interval_method(values: Values) -> str:
    ties = " The columns of seeds: over {seeds} seeds, which covers the luck of breaking ties only."
    return (
        "± is half the width of the 95 % confidence interval over time, by the jackknife over {batches} batches of "
        f"{{days:.3g}} days or more.{ties if values['seeds'] > 1 else ''}"
    )


def _no_interval(values: Values) -> str:
    ties = " The columns of seeds cover the luck of breaking ties only, over {seeds} seeds."
    return (
        "There is no confidence interval: it needs {fewest_batches} batches of {batch_days} days or more, and the "
        f"measured cycles cover {{days:.3g}} days.{ties if values['seeds'] > 1 else ''}"
    )


def _analysis_scope(values: Values) -> str:
    seen = "a crawl every {step_s:length} would see {seen:,}"
    how = seen if values["exact"] else "seen by visits about {resolution_s:length} apart"
    return f"{{pages:count page}}, {{changing_pages:,}} of them changed; {{changes:count change}} ({how}); {_SPAN}."


def _page_types(values: Values) -> str:
    counts = ", ".join(f"{count:,} {page_type}" for page_type, count in values["other_types"].items())
    return (
        "Of {tested:,} pages with {min_changes} changes or more, {poisson_share:share} are consistent with a Poisson "
        f"process; {counts}. If all were Poisson pages, about {{expected_false:expected}} would be classified "
        "otherwise (at most {max_false:expected} at the tests' level of {level:percent})."
    )


def _median_interval(values: Values) -> str:
    modified = "" if values["simple_s"] == values["modified_s"] else ", {modified_s:median} by the modified one"
    by = "the simple estimator" if modified else "either estimator"
    counted = "; with all changes counted it is {counted_s:median}" if values["counted"] else ""
    return f"The median page changes every {{simple_s:median}} by {by}{modified}{counted}."


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
    option = name_option(other["near_s"])
    return f" More data: {{alternative[intervals]:count interval}} near {{alternative[near_s]:length}} ({option})."


def _near_interval(values: Values) -> str:
    missing = "" if values["asked_s"] is None else "No page has a mean interval of about {asked_s:length}. "
    small = " The sample is small, so chance dominates." if values["small_sample"] else ""
    return (
        f"{missing}{{pages:count page}} with a mean interval of about {{near_s:length}} had {{intervals:count "
        "interval}: {share:share} of them within {within_s:length} of {near_s:length}, against {poisson_share:share} "
        f"for exponential intervals.{small}{_alternative(values)}"
    )


def _busiest(peak: str) -> Callable[[Values], str]:
    weekend = "; a weekend day has {weekend:.2f} times the changes of a weekday"
    return lambda values: f"{{region:capitalized}}: changes peak {peak}{'' if values['weekend'] is None else weekend}."


def _hidden_by_steps(values: Values) -> str:
    instead = "" if values["shown_s"] is None else " Those near {shown_s:length} are."
    return (
        "Intervals near {asked_s:length} are not compared with exponential ones: with steps of {step_s:length} a "
        f"histogram would show the steps.{instead}{_alternative(values)}"
    )


def _protocol_scope(values: Values) -> str:
    reading = {
        "since_visit": "since the page's last visit, as a live crawler sees it (the paper: within the cycle)",
        "that_day": "within the cycle of the visit, as in the paper",
    }
    return (
        f"{{pages:,}} pages, {{changes:,}} changes (at most one per page and {{cycle_s:cycle}}), {_SPAN}: {{folds}} "
        "folds, {spans} spans of {span_cycles} cycles; {visits:count visit} per {cycle_s:cycle} and test fold "
        "({budget:.3g} of its pages) after {warmup:count warm-up cycle} that visit all pages; changed: "
        f"{reading[values['changed']]}."
    )


def _metric_outcomes(metrics: Mapping[str, Values]) -> list[str]:
    return [
        f"{METRIC_TITLES[metric]} ({format_percent(one['difference'])}, {OUTCOMES[one['outcome']]})"
        for metric, one in metrics.items()
    ]


def _paper_claim(values: Values) -> str:
    verb = {"gain": "beats", "tie": "ties with"}[values["claim"]]
    claim = f"The paper's claim that {{method}} {verb} {method_title(values['baseline'])}"
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
    found, paper = (" × ".join(map(str, values[side])) for side in ("found", "paper"))
    return (
        f"The search is smaller than the paper's: {found} instead of {paper} (population × generations × seeds), so "
        "its formulas may be worse."
    )


def _top_of_list(values: Values) -> str:
    differences = [
        f"{METRIC_TITLES[metric]} {format_percent(one['difference'])} {format_interval(one['low'], one['high'])}"
        for metric, one in values["metrics"].items()
    ]
    return (
        "On this log, {method} evolved for NDCG compares with {method} evolved for ChangeRate in the first "
        f"{{share:percent}} of the pages as follows: {', '.join(map(str.rstrip, differences))}."
    )


def _new_pages(values: Values) -> str:
    shares = values["shares"].items()
    parts = [f"{100 * share:.0f} % if evolved for {METRIC_TITLES[fitness]}" for fitness, share in shares]
    return f"On this log the share of new pages after the first ranked cycle is {' and '.join(parts)}."


_SENTENCES: Final[Mapping[str, str | Callable[[Values], str]]] = {
    # Replays.
    "replay_scope": _scope,
    "simulated_source": _simulated_source,
    "recorded_signals": "Signals recorded in {file}.",
    "learned_sources": (
        "Precision: of the signals, those that announce a change. Recall: of the changes of the source's pages, those "
        "announced. Lateness: mean time from a change to its announcement. Learned from all visits of the replay."
    ),
    "no_change_ranked": "No page changed in the ranked cycles, so there was nothing to find.",
    "best_change_rate": _best("found the most changes: {value:number} of the visits met a changed page"),
    "best_freshness": _best("kept copies freshest: {value:number} of them are current on average"),
    "below_age": _below("age"),
    "below_posterior": _below("posterior"),
    "identical_policies": "{policies:names} visited the same pages, so their lines coincide.",
    "promoted": _promoted,
    "interval_method": _interval_method,
    "no_interval": _no_interval,
    "ndcg_cycles": (
        "NDCG is the mean over the cycles in which some page had changed under every policy: {counted:count} of "
        "{cycles:count cycle}, {share:percent 1f}."
    ),
    "compared_with": (
        "Differences from {policy}, in per cent of its figures, ± half the width of the 95 % confidence interval of "
        "the paired differences. Stale pages: the share of copies that are not current, 1 - freshness."
    ),
    "no_probabilities": lambda values: (
        "No calibration for {policies:names}: "
        f"{'its' if len(values['policies']) == 1 else 'their'} scores are not probabilities."
    ),
    "rejected_records": "The log's malformed records were left out: {count:count}.",
    # Analyses.
    "analysis_scope": _analysis_scope,
    "page_types": _page_types,
    "no_page_tested": ("No page changed {min_changes} times or more, so none can be tested against a Poisson process."),
    "changed_at_every_visit": "{pages:count page} changed at nearly every visit, too often for a test.",
    "no_change": "No page changed.",
    "share_changed": "{share:share} of the pages changed.",
    "median_interval": _median_interval,
    "change_frequency": _change_frequency,
    "rare_changes": "No page changes monthly or more often.",
    "no_page_near": lambda values: f"No page has a mean interval of about {{near_s:length}}.{_alternative(values)}",
    "near_interval": _near_interval,
    "busiest_hour": _busiest(
        "in the hour around {busiest_hour:hour} ({busiest:.1f} times the average hour) and are fewest around "
        "{quietest_hour:hour} ({quietest:.1f} times)"
    ),
    "busiest_day": _busiest("on {busiest_day:weekday}"),
    "too_few_for_week": "{region:capitalized}: {changes:count change}, too few to show a weekly shape.",
    "time_zone": lambda values: (
        "Times are local to each region, {zone} for pages without one." if values["local"] else "Times are {zone}."
    ),
    "coarse_times": (
        "The log's times are multiples of {resolution_s:length}: shorter intervals cannot be seen, and every interval "
        "is a multiple of that."
    ),
    "known_from_visits": (
        "Changes are known only from visits, about {resolution_s:length} apart: several changes between two visits "
        "count as one, and no interval is shorter."
    ),
    "near_hidden_by_steps": _hidden_by_steps,
    "unknown_date": ("The first day of this collection is not published: hours and days of the week have no meaning."),
    "no_week": "These times resolve neither hours nor days of the week, so the figure of the week is left out.",
    "no_hours": "These times do not resolve hours of the day, so the week is shown by days.",
    "shorter_than_week": "The span is shorter than a week: the other days of the week are unknown.",
    "shorter_than_four_weeks": (
        "The span is shorter than four weeks: a single unusual day affects the shape of the week."
    ),
    "untestable_periods": "The steps are too long to detect {periods:names} pages.",
    "unclear_periods": (
        "With these steps, {periods:names} pages cannot be distinguished from pages that change more often."
    ),
    # GP4C's experiment.
    "protocol_scope": _protocol_scope,
    "paper_claim": _paper_claim,
    "claims_not_tested": (
        "The paper's claims are not tested: that needs GP4C evolved from basic or paper terminals, and changes found "
        "by NAD."
    ),
    "posterior_comparison": _posterior_comparison,
    "reduced_search": _reduced_search,
    "top_of_list": _top_of_list,
    "new_pages": _new_pages,
}
