"""The experiment as one HTML file that needs nothing else: the verdict, the paper's tables and its figures, drawn."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final

from streamsched.evolution.gp.evolution_settings import Metric
from streamsched.replay.gp4c.comparison import is_apart
from streamsched.replay.gp4c.protocol_figures import (
    draw_curves,
    draw_methods,
    draw_new_pages,
    draw_selections,
    draw_sweep,
    strokes,
)
from streamsched.replay.gp4c.protocol_results import Evolved, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS
from streamsched.replay.gp4c.protocol_wording import (
    HEADS,
    LEFT_OUT,
    UNDECIDED,
    describe_protocol,
    judge_claims,
    spell_difference,
    spell_estimate,
    spell_name,
    spell_new_pages,
    spell_published,
    spell_side,
    spell_sweep,
    spell_verdict,
)
from streamsched.replay.gp4c.tables import spell_share
from streamsched.replay.reporting.html_report import spell_swatch
from streamsched.replay.reporting.palette import Stroke
from streamsched.replay.reporting.stylesheet import spell_stylesheet

__all__ = ["render_protocol"]

_INTERVALS: Final = (
    "± is half the 95 % interval across the {folds} test folds (Student's t). GP4C is evolved for the metric of the "
    "column, and GP4C_Best of each evolution is shown. The posterior starts from one Gamma prior, fitted by moments to "
    "the training pages of each rotation. The folds hold different pages but the same days, so no interval says what "
    "another season would have brought."
)
_CONTESTS: Final = (
    "Of {ranked} ranked cycles, those in which a paired test across the folds tells the two apart at 95 %; in "
    "parentheses the mean relative difference over those cycles. Without any true difference about one cycle in 40 "
    "would be won and one in 40 lost. Overall: the relative difference over all cycles, with its paired interval."
)
_FORMULAS: Final = (
    "What each rotation selected, simplified, with its fitness on the pages and days it was trained on, on those it "
    "was selected by, and on those of the test. The test's folds and days differ from the training's, so a "
    "difference between columns is not only a matter of overfitting."
)
_SELECTIONS: Final = (
    "{name}: the best in validation (Best), and the best by mean and by sum of training and validation less their "
    "standard deviation (Avg_σ, Sum_σ). Bars are 95 % intervals across the folds. Where the three choose alike, their "
    "lines coincide."
)
_METHODS: Final = (
    "Means over the test folds; Rand and Age are left out, as in the paper. Curves rise and fall together where days "
    "differ in how many pages change."
)
_SWEEP: Final = (
    "{name}. A crawler may stop before its list is done. Each point looks only at the top of each list, though the "
    "formulas were evolved with all of it. The paper found those evolved for NDCG better at the top, in both metrics."
)
_NEW: Final = (
    "{name}. Pages that the method had not visited in any earlier ranked cycle. All of them are new in the first; the "
    "paper found about 40 % in every later one. At 0 the same pages would be visited over and over."
)
_CURVES: Final = (
    "Best fitness found by each generation, in training: thin, the best seed of each fold; thick, their mean. A curve "
    "that is flat early says that more generations would not have helped."
)


def render_protocol(result: ProtocolResult) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(methods · cycles)."""
    title = f"GP4C’s experiment on {escape(Path(result.settings.log).name)}"
    looks = strokes(result)
    metrics: list[Metric] = [metric for metric in METRICS if result.shown(metric)]
    shown = next(one for metric in metrics if (one := result.shown(metric)))
    contests = "".join(f'<div class="scroll">{_spell_contests(result, metric)}</div>' for metric in metrics)
    selections = [draw_selections(result, metric) for metric in metrics]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>{spell_stylesheet(len(looks))}{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">{escape(spell_verdict(result))}</p>
<p class="quiet">{escape(describe_protocol(result))}.</p>
<div class="scroll">{_spell_claims(result)}</div>
<p class="quiet">{UNDECIDED}</p>
<h2>Methods</h2>
<div class="scroll">{_spell_methods(result, looks)}</div>
<p class="quiet">{_INTERVALS.format(folds=FOLDS)} {escape(result.note)}</p>
<h2>Victories and losses</h2>
<div class="tables">{contests}</div>
<p class="quiet">{_CONTESTS.format(ranked=result.ranked)}</p>
<h2>Cycle by cycle</h2>
{_spell_keys(result, looks)}
<div class="panels">{_frame(draw_methods(result, metric) for metric in HEADS)}</div>
<p>{_METHODS}</p>
<h2>Three ways to select</h2>
<div class="panels">{_frame(selections)}</div>
<p>{_SELECTIONS.format(name=shown.name)}</p>
<h2>The top of the list alone</h2>
<div class="panels">{_frame(draw_sweep(result, metric) for metric in HEADS)}</div>
<p>{_SWEEP.format(name=shown.name)} {escape(spell_sweep(result))}</p>
<h2>New pages</h2>
<div class="side">{_frame([draw_new_pages(result)])}
<p>{_NEW.format(name=shown.name)} {escape(spell_new_pages(result))}</p></div>
<h2>What was evolved</h2>
<div class="scroll">{_spell_formulas(result)}</div>
<p class="quiet">{_FORMULAS}</p>
<div class="panels">{_frame(draw_curves(result, metric) for metric in metrics)}</div>
<p>{_CURVES}</p>
</body>
</html>
"""


_WORDS: Final = ("Against", "Metric", "Baseline", "Evolved for", "Formula", "Claim", "Found")  # columns of words
_STYLE: Final = """
.tables{display:grid;gap:1rem 1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,36rem),1fr))}
.tables th,.tables td{padding:.25rem .4rem;font-size:.86rem}
td.formula{white-space:normal;min-width:18rem;font:.85rem/1.4 ui-monospace,monospace;
 overflow-wrap:anywhere}
td.worse{color:var(--quiet)}
"""


def _frame(panels: Iterable[str]) -> str:
    return "".join(f"<figure>{panel}</figure>" for panel in panels)


def _spell_methods(result: ProtocolResult, looks: list[Stroke]) -> str:
    """Return Table 2, the best of each column marked."""
    columns = {metric: result.table(metric) for metric in HEADS}
    rows = []
    for name, look in zip(result.methods(), looks, strict=True):
        cells = []
        for column in columns.values():
            best = max((one.value for one in column.values() if one.value is not None), default=None)
            estimate = column.get(name)
            value, _, spread = ("", "", "") if estimate is None else spell_estimate(estimate).partition(" ")
            mark = estimate is not None and estimate.value is not None and estimate.value == best
            cells.append(_cell(value, spread, "best" if mark else ""))
        rows.append(f"<tr><th scope=row>{spell_swatch(look)}{spell_name(name)}</th>{''.join(cells)}</tr>\n")
    return _spell_table(["Method", *HEADS.values()], rows)


def _spell_claims(result: ProtocolResult) -> str:
    """Return the paper's claim on GP4C and NAD, as found here, and what the posterior adds to it."""
    rows = []
    for claim in judge_claims(result):
        difference, _, interval = spell_difference(claim.found).partition(" % ")
        cells = (
            _cell(spell_name(claim.baseline), mark="word"),
            _cell(HEADS[claim.metric], mark="word"),
            _cell(f"{difference} %" if interval else difference, interval),
            _cell(spell_side(claim), mark="word"),
            _cell(spell_published(claim)),
            _cell(claim.standing or "", mark="word"),
        )
        rows.append(f"<tr><th scope=row>{claim.name}</th>{''.join(cells)}</tr>\n")
    return _spell_table(["Method", "Against", "Metric", "Here", "Found", "Paper", "Claim"], rows)


def _spell_contests(result: ProtocolResult, metric: Metric) -> str:
    """Return a metric's part of Table 3, and beside each pair the difference over all cycles."""
    rows = []
    for one, baseline, contest, overall in result.contests():
        if one.fitness != metric or baseline in LEFT_OUT:
            continue
        difference, _, interval = spell_difference(overall).partition(" % ")
        cells = (
            _cell(str(contest.victories), spell_share(contest.gain).strip()),
            _cell(str(contest.losses), spell_share(contest.drop).strip()),
            _cell(
                f"{difference} %" if interval else difference,
                interval,
                {1: "best", 0: "", -1: "worse"}[is_apart(overall)],
            ),
        )
        names = f"<th scope=row>{one.name}</th>{_cell(spell_name(baseline), mark='word')}"
        rows.append(f"<tr>{names}{''.join(cells)}</tr>\n")
    return _spell_table([HEADS[metric], "Baseline", "Victories", "Losses", "Overall"], rows)


def _spell_formulas(result: ProtocolResult) -> str:
    """Return Table 4."""
    rows = [row for one in result.evolved for row in _spell_choices(one)]
    return _spell_table(["Method", "Evolved for", "Fold", "Train", "Valid.", "Test", "Formula"], rows)


def _spell_choices(one: Evolved) -> list[str]:
    rows = []
    for number, choice in enumerate(one.choices["best"], 1):
        figures = "".join(_cell(f"{figure:.3f}") for figure in (choice.train, choice.validation, choice.test))
        names = f"<th scope=row>{one.name}</th>{_cell(HEADS[one.fitness], mark='word')}<td>{number}</td>"
        rows.append(f'<tr>{names}{figures}<td class="word formula">{escape(choice.formula)}</td></tr>\n')
    return rows


def _spell_table(heads: list[str], rows: list[str]) -> str:
    columns = "".join(f"<th scope=col{' class=word' if head in _WORDS else ''}>{head}</th>" for head in heads)
    return f"<table><thead><tr>{columns}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table>"


def _cell(value: str, more: str = "", mark: str = "") -> str:
    looks = f' class="{mark}"' if mark else ""
    return f"<td{looks}>{escape(value)}{f'<small>{escape(more)}</small>' if more else ''}</td>"


def _spell_keys(result: ProtocolResult, looks: list[Stroke]) -> str:
    """Return the legend of Figure 4: a box for each method that shows or hides its lines."""
    keys = "".join(
        f'<label><input type="checkbox" id="show-{place}" checked>{spell_swatch(look)}{spell_name(name)}</label>'
        for place, (name, look) in enumerate(zip(result.methods(), looks, strict=True))
        if name not in LEFT_OUT
    )
    return f'<fieldset class="keys"><legend>Lines to show</legend>{keys}</fieldset>'
