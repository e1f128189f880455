"""The experiment in the terminal: the paper's tables 2, 3 and 4, its Figure 5 as numbers, and the verdict."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from streamsched.replay.gp4c.comparison import Contest, estimate, is_apart
from streamsched.replay.gp4c.protocol_results import ProtocolResult
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
from streamsched.replay.reporting.terminal import print_table

__all__ = [
    "claim_table",
    "contest_table",
    "formula_table",
    "method_table",
    "print_protocol",
    "spell_share",
    "sweep_table",
]


def print_protocol(result: ProtocolResult) -> None:
    """Print all tables to standard output, then the verdict: at full width where that is no terminal."""
    captions = _captions(result)
    tables = (method_table(result), contest_table(result), formula_table(result), sweep_table(result))
    for (above, below), table in zip(captions, tables, strict=True):
        _say(above)
        print_table(table)
        _say(below)
    _say(f"{spell_verdict(result)}\n")
    print_table(claim_table(result))
    _say(UNDECIDED)


def _captions(result: ProtocolResult) -> list[tuple[str, str]]:
    """Return what stands above and below each table. Not in the tables: rich would wrap it to a table's width."""
    spread = "± is half the 95 % interval across the test folds (Student's t). GP4C: evolved for the column's metric."
    prior = "Posterior: from one Gamma prior fitted to the training pages."
    said = " ".join(filter(None, (spell_sweep(result), spell_new_pages(result))))
    return [
        (f"Table 2. {describe_protocol(result)}.", f"{spread} {prior} {result.note}".rstrip() + "\n"),
        (
            f"Table 3. Of {result.ranked} cycles: won and lost at 95 %, with mean relative differences.",
            "Overall: mean relative difference over all cycles and its paired 95 % interval.\n",
        ),
        ("Table 4. Best formulas by test fold.", "Train, Valid., Test: fitness on the three spans.\n"),
        ("Figure 5. The top of each list alone, for formulas evolved with all of it.", f"{said}\n"),
    ]


def _say(text: str) -> None:
    """Print `text`, wrapped where that is a terminal."""
    grid = Table.grid()
    grid.add_row(Text(text))
    print_table(grid)


def method_table(result: ProtocolResult) -> Table:
    """Return Table 2: each method's ChangeRate and NDCG over the test folds, the best in bold."""
    table = _begin()
    table.add_column("Method", no_wrap=True)
    columns = {metric: result.table(metric) for metric in HEADS}
    for head in HEADS.values():
        table.add_column(head, justify="right", no_wrap=True)
    for name in result.methods():
        cells = []
        for column in columns.values():
            best = max((one.value for one in column.values() if one.value is not None), default=None)
            estimate = column.get(name)
            bold = estimate is not None and estimate.value is not None and estimate.value == best
            cells.append(Text("" if estimate is None else spell_estimate(estimate), "bold" if bold else ""))
        table.add_row(spell_name(name), *cells)
    return table


def contest_table(result: ProtocolResult) -> Table:
    """Return Table 3: victories and losses, cycle by cycle, and the difference over all cycles."""
    table = _begin()
    for head in ("Method", "Metric", "Baseline"):
        table.add_column(head, no_wrap=True)
    for head in ("Victories", "Losses", "Overall, %"):
        table.add_column(head, justify="right", no_wrap=True)
    for one, baseline, contest, overall in result.contests():
        if baseline not in LEFT_OUT:
            style = {1: "bold", 0: "", -1: "dim"}[is_apart(overall)]
            won, lost = _spell_contest(contest)
            difference = Text(spell_difference(overall).replace(" %", ""), style)
            table.add_row(one.name, HEADS[one.fitness], spell_name(baseline), won, lost, difference)
    return table


def formula_table(result: ProtocolResult) -> Table:
    """Return Table 4: the formula that each rotation selected, and its fitness on each of the three spans."""
    table = _begin()
    for head in ("Method", "Fitness"):
        table.add_column(head, no_wrap=True)
    table.add_column("Fold", justify="right")
    for head in ("Train", "Valid.", "Test"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("Formula", overflow="fold", min_width=20)
    for one in result.evolved:
        for number, choice in enumerate(one.choices["best"], 1):
            figures = (f"{figure:.3f}" for figure in (choice.train, choice.validation, choice.test))
            table.add_row(one.name, HEADS[one.fitness], str(number), *figures, Text(choice.formula))
    return table


def sweep_table(result: ProtocolResult) -> Table:
    """Return Figure 5 as numbers: what the first part of each ranked list held, by what was evolved for."""
    table = _begin()
    for head in ("Method", "Evolved for", "Measured"):
        table.add_column(head, no_wrap=True)
    for cut in result.settings.cuts:
        table.add_column(f"{100 * cut:.3g} %", justify="right", no_wrap=True)
    for one in result.evolved:
        for metric, folds in one.sweep.items():
            cells = (spell_estimate(estimate(folds[:, cut])) for cut in range(folds.shape[1]))
            table.add_row(one.name, HEADS[one.fitness], HEADS[metric], *cells)
    return table


def claim_table(result: ProtocolResult) -> Table:
    """Return the paper's claim on GP4C and NAD, as found here, and what the posterior adds to it."""
    table = _begin()
    for head in ("Method", "Against", "Metric"):
        table.add_column(head, no_wrap=True)
    table.add_column("Here", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("Paper", justify="right", no_wrap=True)
    table.add_column("Claim", no_wrap=True)
    for claim in judge_claims(result):
        names = (claim.name, spell_name(claim.baseline), HEADS[claim.metric])
        found = (spell_difference(claim.found), spell_side(claim), spell_published(claim))
        table.add_row(*names, *found, Text(claim.standing or "", "bold"))
    return table


def spell_share(share: float | None) -> str:
    """Return a relative difference in parentheses, nothing where there is none.

    >>> spell_share(0.0354), spell_share(None)
    (' (+3.5 %)', '')
    """
    return "" if share is None else f" ({100 * share:+.1f} %)"


def _spell_contest(contest: Contest) -> tuple[str, str]:
    return f"{contest.victories}{spell_share(contest.gain)}", f"{contest.losses}{spell_share(contest.drop)}"


def _begin() -> Table:
    return Table(box=SIMPLE_HEAD, padding=(0, 1), show_edge=False)
