"""The report of the experiment: the verdict on the paper's claims, its tables 2 to 4, and its figures 3 to 6."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from streamsched.numerics.arrays import Floats
from streamsched.replay.gp4c.protocol_results import (
    SELECTIONS,
    Evolved,
    ProtocolResult,
    estimate_cycles,
    estimate_folds,
)
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, ProtocolSettings
from streamsched.replay.gp4c.protocol_tables import (
    OMITTED,
    choose_method_styles,
    claim_table,
    contest_table,
    describe_scope,
    find_new_pages,
    find_top_of_list,
    find_verdict,
    formula_table,
    method_table,
    sweep_table,
)
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.report import Figures, Legend, Report, Section, Text, drawn_by, pick
from streamsched.replay.reporting.sentences import describe_all, method_title

_VARYING_SETTINGS: Final = ("metric", "terminals", "selection", "workers")  # the last has no effect on results
_METHODS: Final = (
    "GP4C_Best of each evolution is shown. The prior is fitted by moments. The folds hold different pages but the same "
    "days, so the intervals do not cover differences between seasons."
)
_CONTESTS: Final = (
    "Victories and losses are ranked cycles in which a paired test across the folds separates the two methods at 95 %; "
    "in parentheses the mean relative difference over those cycles. Without a true difference, about one cycle in 40 "
    "would be a victory and one in 40 a loss."
)
_FORMULAS: Final = (
    "Formulas are simplified. Folds and days differ between the columns, so differences are not due to overfitting "
    "alone."
)
_CURVES: Final = (
    "Best fitness by generation in training: the best seed of each fold (thin) and their mean (thick). A curve that is "
    "flat early shows that more generations would not have helped."
)
_BY_CYCLE: Final = (
    "Means over the test folds; Rand and Age are omitted, as in the paper. All curves rise and fall together because "
    "days differ in how many pages change."
)
_draw: Final = partial(drawn_by, "streamsched.replay.gp4c.protocol_figures")


def report_protocol(result: ProtocolResult) -> Report:
    """Return the report of the experiment. O(methods · cycles)."""
    scope, verdict = describe_all([describe_scope(result)]), describe_all(find_verdict(result))
    methods = enumerate(zip(result.methods(), choose_method_styles(result), strict=True))
    lines = [(index, method_title(name), style) for index, (name, style) in methods if name not in OMITTED]
    return Report(
        title=f"GP4C’s experiment on {Path(result.settings.log).name}",
        lead=verdict,
        scope=scope,
        sections=[
            Section("Methods", [method_table(result), _page(_METHODS)], f"Table 2. {scope}"),
            Section(
                "Victories and losses",
                [contest_table(result), _page(_CONTESTS)],
                f"Table 3. Of {result.ranked} cycles: victories and losses at 95 %, with mean relative differences.",
            ),
            Section(
                "Evolved formulas",
                [formula_table(result), _page(_FORMULAS), Figures(_draw("curves", result)), Text(_CURVES, "page")],
                "Table 4. Best formulas by test fold.",
            ),
            Section("Metrics by cycle", [Legend(lines), Figures(_draw("methods", result)), Text(_BY_CYCLE, "page")]),
            *_sections_of_one(result),
        ],
        content=_content(result),
        summary=[Text(verdict, "terminal"), claim_table(result)],
    )


def _page(text: str) -> Text:
    return Text(text, "page", quiet=True)


def _sections_of_one(result: ProtocolResult) -> list[Section]:
    """Return the sections that show a single evolved method."""
    shown = next(one.name for metric in METRICS if (one := result.shown(metric)))
    top, new_pages = describe_all(find_top_of_list(result)), describe_all(find_new_pages(result))
    selections = (
        f"{shown}: the best formula in validation (Best), and the best by mean and by sum of training and validation "
        "fitness minus their standard deviation (Avg_σ, Sum_σ). Bars are 95 % intervals across the folds. If two "
        "selections choose the same formulas, their lines coincide."
    )
    sweep = (
        f"{shown}. A crawler may stop before the end of its list. Each point covers only the top of each list, "
        "although the formulas were evolved on whole lists. In the paper, formulas evolved for NDCG are better at the "
        f"top in both metrics. {top}"
    )
    newly = (
        f"{shown}: share of visits to pages that the method had not visited in any earlier ranked cycle. In the first "
        "cycle all pages are new; the paper reports about 40 % in every later one. At 0 the same pages are visited "
        f"again and again. {new_pages}"
    )
    return [
        Section("Three selection methods", [Figures(_draw("selections", result)), Text(selections, "page")]),
        Section(
            "Top of the list",
            [Figures(_draw("sweep", result)), Text(sweep.rstrip(), "page"), sweep_table(result, f"{top} {new_pages}")],
            "Figure 5. Metrics over the top of each ranked list, for formulas evolved on whole lists.",
        ),
        Section("New pages", [Figures(_draw("new_pages", result), [Text(newly.rstrip())])]),
    ]


def _content(result: ProtocolResult) -> dict[str, Any]:
    """Return the figures for machines.

    ``methods`` maps each to its metrics. ``contests`` is Table 3, ``evolved`` has formulas, selections, learning curves
    and the sweep of Figure 5.
    """
    settings, window = result.settings, result.window
    return {
        "protocol": "paper",
        **pick(settings, "log", "warmup", "budget", "seed"),
        **pick(result, "changed_cycles", "span_cycles", "visits", "rejected", "note"),
        **pick(window, "pages", "cycles"),
        "changes": window.changes().sum(),
        "from": format_time(window.start_s),
        "to": format_time(window.edge(window.cycles)),
        "cycle": window.cycle_s,
        "folds": FOLDS,
        "changed": settings.evolution.reading,
        "evolution": {
            name: value for name, value in settings.evolution.to_json().items() if name not in _VARYING_SETTINGS
        },
        "priors": [{"shape": shape, "mean": mean} for shape, mean in result.priors],
        "findings": [*find_verdict(result), *find_top_of_list(result), *find_new_pages(result)],
        "methods": {name: _method_content(result, name) for name in result.methods()},
        "contests": [
            {"method": one.name, "metric": one.fitness, "baseline": baseline, "contest": contest, "difference": overall}
            for one, baseline, contest, overall in result.contests()
        ],
        "evolved": [_evolved_content(one, settings) for one in result.evolved],
    }


def _method_content(result: ProtocolResult, name: str) -> dict[str, Any]:
    columns = {metric: result.series(name, metric) for metric in METRICS}
    return {metric: _series_content(series) for metric, series in columns.items() if series is not None}


def _series_content(series: Floats) -> dict[str, Any]:
    return {"mean": estimate_folds(series), "by_cycle": estimate_cycles(series), "series": series}


def _evolved_content(one: Evolved, settings: ProtocolSettings) -> dict[str, Any]:
    selections = {
        selection: {
            "formulas": one.choices[selection],
            **_series_content(one.outcomes[selection].of(one.fitness)),
            "new_share": one.outcomes[selection].new_share,
        }
        for selection in SELECTIONS
    }
    return {
        "method": one.name,
        **pick(one, "terminals", "fitness", "programs", "curves"),
        "selections": selections,
        "sweep": {"cuts": settings.cuts, **one.sweep},
    }
