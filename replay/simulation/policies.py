"""Policies by name. All but `rand` and `oracle` rank pages with the real Scheduler.

The published estimators are used as GP4C uses its baselines (section 5.1): CG ranks by its value, equation 4, and
ignores the time since the last visit; NAD, SAD, AAD and GAD are rates λ and rank by the probability of a change since
the last visit, equation 5 with the minus sign that is missing in print.

Every policy orders ties at random, differently in each cycle, as the Scheduler does. This matters: the published
estimators give score 0 to every page without a change so far, more pages than a budget reaches. With one order for the
whole replay some of them would never be visited, and NAD would find 0.05 changed pages per visit in the last year of
the shipped `scoop-extras` log, not 0.09.

The policy `posterior` is the posterior without surges, the baseline of the default policy.

The objectives (`default` is `changes`) choose pages by their formulas, and visit them in the order in which a Scheduler
hands out a batch: by the probability of a change. All other formulas keep the order of their scores.

A name with " without signals" after it is the same policy, which gets none of the signals of its replay.

Three policies change their formula as they learn: see `streamsched.replay.simulation.evolving_policies`. Those of
`PLANNERS` visit each page as often as an optimiser plans: see `streamsched.replay.simulation.scheduled_policies`.
`greedy-ncis` visits the pages whose visits are worth most now: see `streamsched.replay.simulation.greedy_ncis`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streamsched.errors import FormulaError, ReplayError, SettingsError, shorten
from streamsched.formula.bounds.ranges import TERMINAL, Range, range_of
from streamsched.formula.champion import parse_provided
from streamsched.formula.objectives import OBJECTIVES, find_objective
from streamsched.formula.syntax.nodes import Constant, Node, Terminal, fold
from streamsched.formula.terminal_table import RANGES
from streamsched.numerics.arrays import Floats, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import select_top
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.ground_truth import Window
from streamsched.replay.palette import DASHED, DOTTED, FORMULA_STYLES, LineStyle
from streamsched.replay.simulation.evolving_policies import EvolvingPolicy, PaperPolicy, make_paper_settings, make_plan
from streamsched.replay.simulation.greedy_ncis import GreedyPolicy
from streamsched.replay.simulation.scheduled_policies import PlannedPolicy, ScheduledPolicy, SignalledPolicy
from streamsched.replay.simulation.signal_sources import SimulatedSource
from streamsched.replay.simulation.signal_stream import SignalStream, join_signals
from streamsched.replay.simulation.simulator import Policy, PolicyQuery, Schedule
from streamsched.scheduler.scheduler import Scheduler
from streamsched.signals import SignalBatch

WITHOUT_SIGNALS: Final = " without signals"  # after the name of a policy that gets none of the replay's signals
_DEFAULT_SCHEDULE: Final = Schedule(0.05, 2, "since_visit")
_SLACK: Final = 1e-5  # ranges of functions are wider than their values by a relative 1e-6
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # a single word is more likely a misspelt policy than a formula

Kind: TypeAlias = Literal["stateless", "formula", "values", "plans", "evolves"]


class Setup(NamedTuple):
    """What a policy is made for: the seconds of a cycle, the seed of ties and all randomness, budget and reading of the
    replay, and the threads of evolutions.
    """

    cycle_s: float
    seed: int
    schedule: Schedule
    workers: int

    def scheduler(self, **settings: Any) -> Scheduler:
        """Return a new Scheduler for pages with any names.

        Without `host_share`: a replay compares formulas, and other policies have none.
        """
        return Scheduler(cycle=self.cycle_s, seed=self.seed, host_share=None, schemes=None, **settings)


Make: TypeAlias = Callable[[Setup], Policy]
"""Makes a policy for one seed."""


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy with a name: its line in all figures, how it is made, and the formula that it ranks by.

    ``kind``: one that is stateless learns nothing, hears no signals and has no formula. One that values visits has none
    either, nor has one that plans or evolves, as it changes it; those that evolve take a minute or more for a year of
    2,000 pages, others a second.
    """

    name: str
    line: LineStyle
    make: Make
    formula: str | None = None
    kind: Kind = "formula"


class _StatelessPolicy:
    """A policy that scores pages from the query alone; ties are in random order, which differs each cycle."""

    def __init__(self, score: Callable[[PolicyQuery], Floats], scheduler: Scheduler) -> None:
        self._score = score
        self._pages = scheduler

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._pages.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        return select_top(self._score(query), self._pages.core.tie_keys(now=query.now), query.k)

    def observe(self, outcomes: OutcomeBatch) -> None:
        pass


class CheckedPolicy:
    """A policy from outside, called `name`, whose rows are checked."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages."""
        self._policy.discover(urls, now)

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Learn from completed visits."""
        self._policy.observe(outcomes)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return its rows. Raises ReplayError unless they are 1 to k different ones of the known. O(known)."""
        rows = np.asarray(self._policy.rank(query))
        expected = f"1 to {query.k} different rows from 0 to {query.known - 1}"
        fits = rows.ndim == 1 and 1 <= rows.size <= query.k and rows.dtype.kind in "iu"
        if not fits or np.any(rows < 0) or np.any(rows >= query.known) or np.unique(rows).size != rows.size:
            found = f"{rows.dtype}{list(rows.shape)}: {shorten(rows.tolist())}"
            raise ReplayError(f"policy {self._name!r}, cycle {query.cycle}: expected {expected}, found {found}")
        return rows.astype(np.intp)


def _score_equally(query: PolicyQuery) -> Floats:
    return np.zeros(query.known)


def _score_by_truth(query: PolicyQuery) -> Floats:
    return query.changed.astype(np.float64)


def is_objective(name: str) -> bool:
    """Return whether a policy is an objective of a Scheduler, which orders its batches by probabilities. O(length).

    One weighed by significance keeps the order of its scores, as NDCG is weighed too.

    >>> [is_objective(policy) for policy in ("default", "balanced(0.3)", "changes * significance", "rate * t")]
    [True, True, False, False]
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    return name == "default" or (find_objective(name) is not None and not name.rstrip().endswith("significance"))


def _stateless(name: str, line: LineStyle, score: Callable[[PolicyQuery], Floats]) -> NamedPolicy:
    return NamedPolicy(name, line, lambda setup: _StatelessPolicy(score, setup.scheduler()), None, "stateless")


def _rank_by(formula: str | None, *, by_probability: bool, **settings: Any) -> Make:
    def make(setup: Setup) -> Policy:
        scheduler = setup.scheduler(**settings)
        if formula is not None:
            scheduler.use(formula)
        return ScheduledPolicy(scheduler, by_probability=by_probability)

    return make


def _formula(name: str, line: LineStyle, formula: str, **settings: Any) -> NamedPolicy:
    return NamedPolicy(name, line, _rank_by(formula, by_probability=is_objective(name), **settings), formula)


def _plan(name: str, line: LineStyle) -> NamedPolicy:
    def make(setup: Setup) -> Policy:
        return PlannedPolicy(setup.scheduler(), name, setup.schedule)

    return NamedPolicy(name, line, make, None, "plans")


def _evolve(name: str, line: LineStyle, panel: float = 0.0) -> NamedPolicy:
    def make(setup: Setup) -> Policy:
        return EvolvingPolicy(setup.scheduler(panel=panel), make_plan(setup.schedule, setup.seed, setup.workers))

    return NamedPolicy(name, line, make, None, "evolves")


def _make_paper(setup: Setup) -> Policy:
    scheduler = setup.scheduler()
    scheduler.use(FORMULAS["nad"])
    return PaperPolicy(scheduler, make_paper_settings(setup.schedule, setup.workers), setup.seed)


_CHANGES: Final = OBJECTIVES["changes"]
_TABLE: Final = {
    policy.name: policy
    for policy in (
        _stateless("rand", LineStyle("grey", DOTTED), _score_equally),
        _formula("age", LineStyle("grey"), "t"),
        _formula("cg", LineStyle("olive"), "CG"),
        _formula("nad", LineStyle("orange", DASHED), "1 - exp(-NAD * t)"),
        _formula("sad", LineStyle("sky"), "1 - exp(-SAD * t)"),
        _formula("aad", LineStyle("purple", DOTTED, 1.4), "1 - exp(-AAD * t)"),
        _formula("gad", LineStyle("purple"), "1 - exp(-GAD * t)"),
        _formula("posterior", LineStyle("blue", width=1.8), "posterior", surges=False),
        _formula("freshness", LineStyle("green", width=1.8), OBJECTIVES["freshness"]),
        _formula("balanced", LineStyle("green", DASHED, 1.4), OBJECTIVES["balanced"]),
        # The Scheduler's first champion is this formula.
        NamedPolicy("default", LineStyle("vermilion", DASHED, 1.8), _rank_by(None, by_probability=True), _CHANGES),
        _plan("lambdacrawl", LineStyle("blue", DASHED, 1.2)),
        _plan("polite", LineStyle("blue", DOTTED, 1.2)),
        _plan("binary", LineStyle("green", DOTTED, 1.2)),
        _plan("mirrorsync", LineStyle("purple", DASHED, 1.2)),
        _plan("webfountain", LineStyle("olive", DASHED, 1.2)),
        NamedPolicy(
            "greedy-ncis", LineStyle("orange", width=1.4), lambda setup: GreedyPolicy(setup.scheduler()), None, "values"
        ),
        _evolve("gp4c", LineStyle("vermilion", width=1.8)),
        _evolve("gp4c-panel", LineStyle("vermilion", DOTTED, 1.8), panel=0.1),  # a uniform sample, visited every cycle
        NamedPolicy("gp4c-paper", LineStyle("sky", DASHED, 1.4), _make_paper, None, "evolves"),
        _stateless("oracle", LineStyle("ink", DASHED, 0.9), _score_by_truth),
    )
}


def _names(*kinds: Kind) -> tuple[str, ...]:
    return tuple(name for name, policy in _TABLE.items() if policy.kind in kinds)


POLICIES: Final = tuple(_TABLE)
STATELESS: Final = _names("stateless")
STEADY: Final = _names("stateless", "formula")
VALUING: Final = _names("values")
PLANNING: Final = _names("plans")
EVOLVING: Final = _names("evolves")
FORMULAS: Final = {name: policy.formula for name, policy in _TABLE.items() if policy.formula and name != "default"}


def choose_line_styles(policies: Sequence[str]) -> list[LineStyle]:
    """Return a line style for each policy: its own if it has a name, else the next free one. O(policies).

    >>> [style.hue for style in choose_line_styles(["nad", "t * X", "n"])]
    ['orange', 'vermilion', 'sky']
    """
    others = [policy for policy in policies if policy not in _TABLE]
    free = {policy: FORMULA_STYLES[turn % len(FORMULA_STYLES)] for turn, policy in enumerate(others)}
    return [_TABLE[policy].line if policy in _TABLE else free[policy] for policy in policies]


def make_policy(
    name: str, cycle_s: float, seed: int, schedule: Schedule = _DEFAULT_SCHEDULE, workers: int = 1
) -> Policy:
    """Return a new policy of that name or formula; `seed` determines the order of ties and all randomness. O(1).

    `schedule`: the budget and reading for evolutions; `workers`: their threads, which do not affect results. Raises the
    errors of `check_policy`.
    """
    check_policy(name)
    name = name.removesuffix(WITHOUT_SIGNALS)
    known = _TABLE.get(name)
    make = _rank_by(name, by_probability=is_objective(name)) if known is None else known.make
    return make(Setup(cycle_s, seed, schedule, workers))


def check_policy(name: str) -> None:
    """Raise ReplayError if `name` is not a policy, FormulaError if it is a formula that does not parse. O(length).

    >>> check_policy("t * X")
    >>> check_policy("nadd")
    Traceback (most recent call last):
    streamsched.errors.ReplayError: unknown policy 'nadd': expected a formula in quotes or one of rand, age, cg, ...
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    if name in _TABLE:
        return
    try:
        parse_provided(name)
    except SettingsError as error:
        raise ReplayError(f"policy {name!r}: expected {error.expected}") from error
    except FormulaError:
        if not _NAME.fullmatch(name):
            raise
        known = ", ".join(POLICIES)
        raise ReplayError(f"unknown policy {shorten(name)}: expected a formula in quotes or one of {known}") from None


def formula_of(name: str) -> str | None:
    """Return the ranking formula of a policy; None for `rand`, `oracle` and policies that value visits, plan or evolve.

    >>> formula_of("age"), formula_of("X / n"), formula_of("rand")
    ('t', 'X / n', None)
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    known = _TABLE.get(name)
    return (find_objective(name) or name) if known is None else known.formula


def evolves(name: str) -> bool:
    """Return whether a policy evolves formulas.

    >>> evolves("gp4c"), evolves("gp4c without signals"), evolves("default")
    (True, True, False)
    """
    return name.removesuffix(WITHOUT_SIGNALS) in EVOLVING


def is_signalled(name: str) -> bool:
    """Return whether a policy gets the signals of its replay. O(length).

    >>> is_signalled("default"), is_signalled("default without signals")
    (True, False)
    """
    return not name.endswith(WITHOUT_SIGNALS)


def without_signals(policies: Iterable[str]) -> list[str]:
    """Return `policies`, each objective followed by the same one without signals, unless it is there. O(n).

    >>> without_signals(["age", "default"])
    ['age', 'default', 'default without signals']
    """
    extended: list[str] = []
    for name in policies:
        twin = [f"{name}{WITHOUT_SIGNALS}"] if is_objective(name) and is_signalled(name) else []
        extended += [one for one in (name, *twin) if one not in extended]
    return extended


def predicts_changes(policy: str) -> bool:
    """Return whether a policy predicts changes: an objective, or a formula with values from 0 to 1 only. O(size).

    >>> [predicts_changes(policy) for policy in ("default", "nad", "age", "freshness", "1 - exp(-rate * t)", "rand")]
    [True, True, False, True, True, False]
    """
    if is_objective(policy):
        return True
    formula = formula_of(policy)
    if formula is None:
        return False
    span = fold(parse_provided(formula).root, _range_of)
    return span.least >= -_SLACK and span.most <= 1.0 + _SLACK


def _range_of(node: Node, below: tuple[Range, ...]) -> Range:
    """Return the range of a node's values, from those of its operands."""
    if isinstance(node, Terminal):
        return Range(*RANGES.get(node.name, TERMINAL))
    if isinstance(node, Constant):
        return Range(float(node.value), float(node.value))
    return range_of(node.op, *below)


class ReplayedSignals(NamedTuple):
    """What a replay tells its policies: ``sources`` to simulate, and ``recorded`` signals."""

    sources: tuple[SimulatedSource, ...] = ()
    recorded: tuple[SignalBatch, ...] = ()


def deliver_signals(
    name: str, policy: Policy, window: Window, signals: ReplayedSignals, seed: int
) -> tuple[Policy, SignalStream | None]:
    """Return what to simulate in place of `policy`, called `name`, and the `signals` that it will get.

    The policy itself and None if there are none, or it takes no signals. O(n log n) in the signals.
    """
    if not (any(signals) and is_signalled(name) and isinstance(policy, ScheduledPolicy)):
        return policy, None
    stream = join_signals(window, signals.sources, seed, signals.recorded)
    return SignalledPolicy(policy, stream), stream
