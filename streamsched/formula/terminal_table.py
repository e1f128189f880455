"""The terminals of formulas: one record says all of each that is not code; sets, codes and ranges derive from them.

A terminal's code in kernels is its place among the records. Its column is filled by `streamsched.formula.terminals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from streamsched.records.page_schema import LONGEST_INTERVAL

TerminalSet: TypeAlias = Literal["basic", "paper", "full"]  # each contains the one before
Part: TypeAlias = Literal[
    "visits",
    "changes",
    "last",  # result of the last visit
    "weighted",
    "history",
    "rate",
    "importance",
    "cost",
    "group",
    "seasonality",  # the profile of the page, and its own schedule
    "significance",
    "crawl_rate",
    "claims",  # what related pages say
    "signals",
]
"""The parts of a page's state, besides its last visit, that terminals read."""

NONNEGATIVE: Final = (0.0, 1.7976931348623157e308)  # finite and 0 or more
_SHARE: Final = (0.0, 1.0)  # exactly, so that 1 - due is never negative
_MEAN: Final = (0.0, 1.0 + 1e-09)
_RATE: Final[tuple[Part, ...]] = ("visits", "changes")
_SEASONAL: Final[tuple[Part, ...]] = ("rate", "seasonality", "visits", "changes")  # own schedules learn from the others


class Own(NamedTuple):
    """A value that a page brings along: the field of the terminal's name in its record. Simulated visits keep it.

    ``records``: PAGE or TRACE; ``default``: in change histories that do not have it.
    """

    records: Literal["pages", "traces"]
    default: float


class TerminalRecord(NamedTuple):
    """A terminal.

    - ``text``: its meaning.
    - ``source``: the smallest set of terminals for evolution that contains it.
    - ``reads``: the parts of the page's state that its value depends on.
    - ``range``: its least and greatest value, whatever the page and the time.
    - ``moves``: whether it moves with the clock; all but rhythm only rise.
    - ``own``: where it is, if it is such a value; it reads the part of its name.
    """

    name: str
    text: str
    source: TerminalSet
    reads: tuple[Part, ...] = ()
    range: tuple[float, float] = NONNEGATIVE
    moves: bool = False
    own: Own | None = None


_RECORDS: Final = (
    TerminalRecord("n", "visits of the page that could show a change", "basic", ("visits",)),
    TerminalRecord("X", "those of the n visits that found the page changed", "basic", ("changes",)),
    TerminalRecord("t", "cycles since the last visit", "basic", range=(0.0, LONGEST_INTERVAL), moves=True),
    TerminalRecord("CG", "change rate by Cho & Garcia-Molina's estimator, per cycle", "paper", _RATE),
    TerminalRecord("NAD", "change rate X/n: every visit counts the same, per cycle", "paper", _RATE, _MEAN),
    TerminalRecord("SAD", "change rate by the last visit alone, 0 or 1, per cycle", "paper", ("last",), _MEAN),
    TerminalRecord(
        "AAD",
        "change rate with weights that grow by 1 from visit to visit, per cycle",
        "paper",
        ("visits", "weighted"),
        _MEAN,
    ),
    TerminalRecord(
        "GAD",
        "change rate with weights that double from visit to visit, per cycle",
        "paper",
        ("visits", "history"),
        _MEAN,
    ),
    TerminalRecord("rate", "posterior mean of the change rate, per cycle", "full", ("rate",)),
    TerminalRecord(
        "posterior",
        "posterior probability that the page has changed since the last visit",
        "full",
        ("rate", "signals"),
        _SHARE,
        moves=True,
    ),
    TerminalRecord(
        "importance",
        "weight of the page, as reported with its outcomes",
        "full",
        ("importance",),
        own=Own("pages", 1.0),
    ),
    TerminalRecord(
        "cost",
        "what a visit of the page costs, in seconds or bytes as reported",
        "full",
        ("cost",),
        own=Own("pages", 1.0),
    ),
    TerminalRecord(
        "tau",
        "cycles since the last visit, each hour weighted by how busy that hour of the week is for the page",
        "full",
        _SEASONAL,
        (0.0, 1.1 * LONGEST_INTERVAL),
        moves=True,
    ),
    TerminalRecord(
        "rhythm", "how busy this hour of the week is for the page; 1 is the mean hour", "full", _SEASONAL, moves=True
    ),
    TerminalRecord(
        "due",
        "probability of an update since the last visit, by the page's schedule if it has one",
        "full",
        (*_SEASONAL, "signals"),
        _SHARE,
        moves=True,
    ),
    TerminalRecord(
        "surge",
        "probability that a surge, or a change of related pages, has changed the page too since the last visit",
        "full",
        ("group", "claims"),
        _SHARE,
        moves=True,
    ),
    TerminalRecord(
        "confidence",
        "changes that the rate is worth: the shape of its posterior, whose spread is rate / sqrt(confidence)",
        "full",
        ("rate",),
    ),
    TerminalRecord("worth", "importance of the page over the cost of a visit", "full", ("importance", "cost")),
    TerminalRecord(
        "gain",
        "probability of a change since the last visit, less what waiting as long again would add: P - t * P'",
        "full",
        (*_SEASONAL, "group", "claims", "signals"),
        _SHARE,
        moves=True,
    ),
    TerminalRecord(
        "signalled",
        "probability that a change of the page since the last visit was announced, by a sitemap or a feed",
        "full",
        ("signals",),
        _SHARE,
    ),
    TerminalRecord(
        "significance",
        "share of the page that its next change is expected to concern, 0 to 1",
        "full",
        ("significance",),
        _SHARE,
    ),
    TerminalRecord(
        "crawl_rate",
        "visits per cycle that the plan of an optimiser gives the page, 0 without one",
        "full",
        ("crawl_rate",),
        own=Own("traces", 0.0),
    ),
)
TERMINALS: Final[Mapping[str, TerminalRecord]] = MappingProxyType({one.name: one for one in _RECORDS})
TERMINAL_CODES: Final[Mapping[str, int]] = MappingProxyType({name: code for code, name in enumerate(TERMINALS)})
PROVIDED: Final = tuple(TERMINALS)  # those that a shard provides


def find_readers(*parts: Part) -> frozenset[str]:
    """Return the terminals that read any of these parts of a page's state."""
    return frozenset(one.name for one in TERMINALS.values() if not set(parts).isdisjoint(one.reads))


OWN: Final[Mapping[str, Own]] = MappingProxyType(
    {name: one.own for name, one in TERMINALS.items() if one.own is not None}
)
MOVING: Final = frozenset(one.name for one in TERMINALS.values() if one.moves)
SEASONAL: Final = find_readers("seasonality")  # those that read what the page's seasonal link refers to
LINKED: Final = find_readers("seasonality", "claims", "significance")  # those that read the page's seasonal link
SIGNALLED: Final = find_readers("signals")
TRACED: Final = find_readers("last", "weighted", "history", "crawl_rate")  # those that read TRACE
RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType({one.name: one.range for one in TERMINALS.values()})
