"""The experiment in the terminal: the paper's tables 2, 3 and 4, its Figure 5 as numbers, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from streamsched.replay.gp4c.protocol_findings import describe_scope, find_new_pages, find_top_of_list, find_verdict
from streamsched.replay.gp4c.protocol_tables import (
    claim_table,
    contest_table,
    formula_table,
    method_table,
    sweep_table,
)
from streamsched.replay.reporting.sentences import describe
from streamsched.replay.reporting.terminal import print_paragraph, print_table, to_rich

if TYPE_CHECKING:
    from streamsched.replay.findings import Finding
    from streamsched.replay.gp4c.protocol_results import ProtocolResult
    from streamsched.replay.reporting.tables import Table

__all__ = ["print_protocol"]

_METHODS: Final = (
    "± is half the 95 % interval across the test folds (Student's t). GP4C is evolved for the metric of the column. "
    "The posterior starts from one Gamma prior fitted to the training pages."
)
_CLAIMS: Final = (
    "Here: relative difference over all cycles with its paired 95 % interval. A claim of a gain is smaller if the gain "
    "is significant and below the paper's, undecided if the interval holds both 0 and the paper's gain. A claim of a "
    "tie is undecided if the interval holds 0 and a difference that the paper calls a win."
)


def print_protocol(result: ProtocolResult) -> None:
    """Print all tables to standard output, then the verdict."""
    details = [*find_top_of_list(result), *find_new_pages(result)]
    _print(f"Table 2. {_describe([describe_scope(result)])}", method_table(result), f"{_METHODS} {result.note}")
    _print(
        f"Table 3. Of {result.ranked} cycles: victories and losses at 95 %, with mean relative differences.",
        contest_table(result),
        "Overall: mean relative difference over all cycles and its paired 95 % interval.",
    )
    _print(
        "Table 4. Best formulas by test fold.",
        formula_table(result),
        "Train, Valid., Test: fitness on the three spans.",
    )
    _print(
        "Figure 5. Metrics over the top of each ranked list, for formulas evolved on whole lists.",
        sweep_table(result),
        _describe(details),
    )
    print_paragraph(_describe(find_verdict(result)))
    print_table(to_rich(claim_table(result)))
    print_paragraph(_CLAIMS)


def _print(caption: str, table: Table, explanation: str) -> None:
    print_paragraph(caption)
    print_table(to_rich(table))
    print_paragraph(explanation.rstrip())


def _describe(findings: Iterable[Finding]) -> str:
    return " ".join(map(describe, findings))
