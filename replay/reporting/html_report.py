"""A replay as one HTML file that needs nothing else: figures, a table, and what to make of them."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from streamsched.errors import ReplayError
from streamsched.replay.confidence_intervals import BATCH_CYCLES
from streamsched.replay.replay_results import METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import spell_time
from streamsched.replay.reporting.figures import draw_deciles, draw_series, draw_waits
from streamsched.replay.reporting.palette import Stroke, choose_strokes
from streamsched.replay.reporting.stylesheet import spell_stylesheet
from streamsched.replay.reporting.wording import (
    HEADS,
    best_policies,
    describe_replay,
    explain_figures,
    spell_count,
    spell_figure,
    spell_findings,
    spell_gain,
    spell_twins,
)
from streamsched.replay.simulation.promotions import Evolution

__all__ = ["render_report", "spell_swatch", "write_report"]

_BROKEN: Final = {"change_rate": "Change<wbr>Rate", "freshness": "Fresh&shy;ness"}  # heads that a phone may break
_SHADED: Final = "Shaded: the best of all but the oracle, which is told what changed."
_OVER_TIME: Final = (
    "Each line is the mean of the last {width} cycles. <b>ChangeRate</b> is the share of visits that found the page "
    "changed. <b>NDCG</b> also asks whether changed pages stood at the top of the ranking; 1 is the oracle's, which is "
    "not drawn. <b>Freshness</b> is the share of pages whose copy was current, averaged over each cycle{weighing}. A "
    "policy that chases changes and one that keeps copies fresh are not the same: compare the first panel with the "
    "third."
)
_WAITS: Final = (
    "The time from a change to the next visit of its page, over all changes after the warm-up. Visits come at the end "
    "of a cycle, so even the oracle waits. Further left and higher is better; a line that levels off below 1 belongs "
    "to a policy that did not come back to the rest before the replay ended. The table's delays are of the first "
    "change that a copy lacked, where a visit found it."
)
_DECILES: Final = (
    "Pages in order of how often they really changed, least on the left; a column is a tenth of all pages. Ten per "
    "cent everywhere is visiting all alike. Weight on the right goes after changes; noughts on the left are pages that "
    "nobody looks at again, where a change stays unseen."
)
_EVOLUTIONS: Final = (
    "What each evolution found on the data of its day, and whether it took over. <b>Gain</b> is what the challenger "
    "made of held-out pages in later cycles beyond what the champion made of them, ± what luck would; a challenger is "
    "promoted where its gain is more than twice that. Point at a decision for why it was made."
)
_EVOLUTION_HEADS: Final = ("Date", "Champion", "Challenger", "Gain", "Decision")
_FORMULA_HEADS: Final = ("Champion", "Challenger")


def write_report(result: ReplayResult, path: str | Path) -> None:
    """Write the report to the file `path`; the same replay gives the same bytes. Raises ReplayError where it cannot."""
    try:
        Path(path).write_text(render_report(result), encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReplayError(f"{path}: cannot write the report: {error.strerror}") from error


def render_report(result: ReplayResult) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(policies · cycles)."""
    strokes = choose_strokes([policy.name for policy in result.policies])
    title = f"Replay of {escape(Path(result.settings.log).name)}"
    weighing = "" if result.window.importance is None else ", each page weighing its importance"
    over_time = _OVER_TIME.format(width=BATCH_CYCLES, weighing=weighing)
    panels = (
        draw_series(result, "ChangeRate", lambda trace: trace.change_rate, everywhere=False),
        draw_series(result, "NDCG", lambda trace: trace.ndcg, everywhere=False),
        draw_series(result, "Freshness", lambda trace: trace.freshness, everywhere=True),
    )
    figures = "".join(f"<figure>{panel}</figure>" for panel in panels)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>{spell_stylesheet(len(result.policies))}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">{escape(spell_findings(result))}</p>
<p class="quiet">{escape(describe_replay(result))}.</p>
<div class="scroll">{_spell_table(result, strokes)}</div>
<p class="quiet">{_SHADED} {escape(explain_figures(result))}</p>
{_spell_keys(result, strokes)}
<h2>Over time</h2>
<div class="panels">{figures}</div>
<p>{over_time} {escape(spell_twins(result))}</p>
<h2>How long changes wait</h2>
<div class="side"><figure>{draw_waits(result)}</figure><p>{_WAITS}</p></div>
<h2>What each policy visits</h2>
<div class="side"><figure>{draw_deciles(result)}</figure><p>{_DECILES}</p></div>
{_spell_evolutions(result)}</body>
</html>
"""


def _spell_table(result: ReplayResult, strokes: list[Stroke]) -> str:
    best = best_policies(result)
    heads = [*(_BROKEN.get(metric, HEADS[metric].replace(", ", "<br>")) for metric in METRICS), "Changes<br>unseen"]
    rows = "".join(
        f"<tr><th scope=row>{_spell_name(policy, stroke)}</th>{_spell_cells(policy, best)}</tr>\n"
        for policy, stroke in zip(result.policies, strokes, strict=True)
    )
    columns = "".join(f"<th scope=col>{head}</th>" for head in ["Policy", *heads])
    return f"<table><thead><tr>{columns}</tr></thead>\n<tbody>{rows}</tbody></table>"


def _spell_name(policy: PolicyResult, stroke: Stroke) -> str:
    formula = policy.formula if policy.formula != policy.name else None
    below = f"<small>{escape(formula)}</small>" if formula else ""
    return f"{spell_swatch(stroke)}{escape(policy.name)}{below}"


def _spell_cells(policy: PolicyResult, best: dict[str, set[str]]) -> str:
    texts = {metric: spell_figure(policy.figures[metric], metric) for metric in METRICS}
    texts["undetected"] = spell_count(policy.undetected)
    cells = []
    for column, text in texts.items():
        value, _, spread = text.partition(" ")
        mark = ' class="best" title="best"' if policy.name in best.get(column, ()) else ""
        cells.append(f"<td{mark}>{value}{f'<small>{spread}</small>' if spread else ''}</td>")
    return "".join(cells)


def _spell_evolutions(result: ReplayResult) -> str:
    """Return a table of all evolutions, nothing where there were none."""
    several = len(result.settings.seeds) > 1
    rows = [
        f"<tr><th scope=row>{escape(policy.name)}{f', seed {seed}' if several else ''}</th>"
        f"{_spell_evolution(evolution)}</tr>\n"
        for policy in result.policies
        for seed, trace in zip(result.settings.seeds, policy.traces, strict=True)
        for evolution in trace.evolutions
    ]
    if not rows:
        return ""
    heads = "".join(
        f"<th scope=col{' class=word' if head in _FORMULA_HEADS else ''}>{head}</th>"
        for head in ("Policy", *_EVOLUTION_HEADS)
    )
    table = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table>"
    return f'<h2>How formulas evolved</h2>\n<p>{_EVOLUTIONS}</p>\n<div class="scroll">{table}</div>\n'


def _spell_evolution(evolution: Evolution) -> str:
    decision = "promoted" if evolution.promoted else "kept"
    mark = ' class="best"' if evolution.promoted else ""
    formulas = (evolution.champion, evolution.challenger or "–")
    cells = [spell_time(evolution.when_s), *formulas, spell_gain(evolution)]
    kinds = ["", ' class="formula"', ' class="formula"', ""]
    row = "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, cells, strict=True))
    return f'{row}<td{mark} title="{escape(evolution.why)}">{decision}</td>'


def _spell_keys(result: ReplayResult, strokes: list[Stroke]) -> str:
    """Return the legend: a box for each policy that shows or hides its lines."""
    keys = "".join(
        f'<label><input type="checkbox" id="show-{place}" checked>{spell_swatch(stroke)}{escape(policy.name)}</label>'
        for place, (policy, stroke) in enumerate(zip(result.policies, strokes, strict=True))
    )
    return f'<fieldset class="keys"><legend>Lines to show</legend>{keys}</fieldset>'


def spell_swatch(stroke: Stroke) -> str:
    """Return a short line in that stroke, for a table or a legend. O(1)."""
    dashes = f' stroke-dasharray="{" ".join(f"{2 * stroke.width * length:g}" for length in stroke.dashes)}"'
    return (
        f'<svg viewBox="0 0 36 14" aria-hidden="true"><line x1="1" y1="7" x2="35" y2="7" stroke="var(--{stroke.hue})" '
        f'stroke-width="{2 * stroke.width:g}"{dashes if stroke.dashes else ""}/></svg>'
    )
