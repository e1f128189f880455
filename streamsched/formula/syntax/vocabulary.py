"""The vocabulary of formulas: terminals, operators, functions, and how tightly each operator binds."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["BINDING", "FUNCTIONS", "NEGATION_BINDING", "PLANNED", "TERMINALS", "BinaryOp", "UnaryOp"]

UnaryOp: TypeAlias = Literal["neg", "log", "exp"]
BinaryOp: TypeAlias = Literal["+", "-", "*", "/", "pow"]

TERMINALS: Final[dict[str, str]] = {
    "n": "visits of the page that could show a change",
    "X": "those of the n visits that found the page changed",
    "t": "cycles since the last visit",
    "CG": "change rate by Cho & Garcia-Molina's estimator, per cycle",
    "NAD": "change rate X/n: every visit counts the same, per cycle",
    "SAD": "change rate by the last visit alone, 0 or 1, per cycle",
    "AAD": "change rate with weights that grow by 1 from visit to visit, per cycle",
    "GAD": "change rate with weights that double from visit to visit, per cycle",
    "rate": "posterior mean of the change rate, per cycle",
    "posterior": "posterior probability that the page has changed since the last visit",
    "importance": "weight of the page, as reported with its outcomes",
    "cost": "what a visit of the page costs, in seconds or bytes as reported",
    "tau": "cycles since the last visit, each hour weighted by how busy that hour of the week is for the page",
    "rhythm": "how busy this hour of the week is for the page; 1 is the mean hour",
    "due": "probability of an update since the last visit, by the page's schedule if it has one",
    "surge": "probability that a surge, or a change of related pages, has changed the page too since the last visit",
    "confidence": "changes that the rate is worth: the shape of its posterior, whose spread is rate / sqrt(confidence)",
    "worth": "importance of the page over the cost of a visit",
    "gain": "probability of a change since the last visit, less what waiting as long again would add: P - t * P'",
    "signalled": "probability that a change of the page since the last visit was announced, by a sitemap or a feed",
    "significance": "share of the page that its next change is expected to concern, 0 to 1",
    "crawl_rate": "visits per cycle that the plan of an optimiser gives the page, 0 without one",
}

PLANNED: Final[tuple[str, ...]] = ()  # terminals that no page provides yet

FUNCTIONS: Final[dict[str, int]] = {"log": 1, "exp": 1, "pow": 2}  # name to number of arguments

BINDING: Final[dict[str, int]] = {"+": 1, "-": 1, "*": 2, "/": 2}  # the larger, the tighter; all group to the left
NEGATION_BINDING: Final = 3
