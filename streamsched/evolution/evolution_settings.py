"""All settings of an evolution; the defaults are the paper's (section 5.2).

The final selection of the solution among the elites is GP4C_Best, GP4C_Avg or GP4C_Sum (section 4.2.3 of the paper).
With t the training fitness, v the validation fitness and σ their standard deviation (de Almeida et al. 2007)::

    best    v
    avg     (t + v) / 2 - σ
    sum     (t + v) - σ

Neither paper says which standard deviation is meant. This module uses the population's, abs(t - v) / 2, because the two
numbers are not a sample of more. So Avg_σ is the smaller of the two, and Sum_σ is 1.5 times the smaller plus half the
larger.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from streamsched.errors import SettingsError, shorten
from streamsched.evolution.symbols import CONSTANTS, MAX_LEAVES, TERMINAL_SETS, SymbolSet
from streamsched.formula.objectives import OBJECTIVE_NAMES, find_aim
from streamsched.formula.terminal_table import TerminalSet
from streamsched.numerics.arrays import Floats

Selection: TypeAlias = Literal["best", "avg", "sum"]
Metric: TypeAlias = Literal["ndcg", "change_rate"]  # the paper's; each objective is one too
Parents: TypeAlias = Literal["generation", "elites"]
Reading: TypeAlias = Literal["since_visit", "that_day"]

MAX_LEVELS: Final = 12  # of a tree: a full one then has 4095 nodes, and a formula may have 4096

_CHOICES: Final = {
    "parents": get_args(Parents),
    "reading": get_args(Reading),
    "selection": get_args(Selection),
    "terminals": get_args(TerminalSet),
}
UPPER_BOUNDS: Final = {  # of the integers, each at least 1; larger values would exhaust memory or time first
    "population": 100_000,
    "generations": 100_000,
    "max_depth": MAX_LEVELS,
    "crossover_depth": MAX_LEVELS,
    "tournament": 100_000,
    "elites": 100_000,
    "seeds": 10_000,
    "warmup": 100_000,
    "workers": 1_024,
}
_RATES: Final = ("crossover", "reproduction", "replacement", "swap")


def measure(train: Floats, validation: Floats, selection: Selection) -> Floats:
    """Return the selection score of each individual, float64[n], higher is better; NaN if a term is NaN. O(n).

    ``train`` and ``validation``: float64[n], fitness on the two sets.

    >>> measure(np.array([0.6]), np.array([0.4]), "sum")
    array([0.9])
    """
    if selection == "best":
        return validation.copy()
    lower, upper = np.minimum(train, validation), np.maximum(train, validation)
    return lower if selection == "avg" else 1.5 * lower + 0.5 * upper


def select(train: Floats, validation: Floats, selection: Selection) -> int:
    """Return the index of the individual with the highest score, the first of equals; NaN ranks last. O(n).

    ``train`` and ``validation``: float64[n], fitness on the two sets. Raises ValueError if there is no individual, the
    lengths differ or every score is NaN.

    >>> train, validation = np.array([0.80, 0.62, 0.59]), np.array([0.55, 0.60, 0.61])
    >>> [select(train, validation, selection) for selection in ("best", "avg", "sum")]
    [2, 1, 0]
    """
    if train.shape != validation.shape:
        raise ValueError(
            f"expected training and validation fitness of equal length, found {train.size} and {validation.size}"
        )
    measures = measure(train, validation, selection)
    if np.isnan(measures).all():
        raise ValueError(f"expected at least one evaluated individual, found none among {measures.size}")
    return int(np.nanargmax(measures))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionSettings:
    """How score functions are evolved, evaluated and chosen; each setting with its source in the paper.

    Search:

    - ``population``: individuals per generation, N_p (5.2);
    - ``generations``: generations evaluated, including the random first one, N_g (5.2);
    - ``max_depth``: maximum levels of an individual's tree, d; 1 is a single leaf (5.2);
    - ``initial_depth``: smallest and largest depth limit of the ramped half-and-half, in levels. The paper names the
      method but not these values; 2 to 6 is Koza's choice (1992);
    - ``tournament``: tournament size of the parent selection (5.2);
    - ``parents``: the pool of the tournaments. The paper breeds from the ``elites``, the N_b fittest of all generations
      so far (4.2.1, line 11 of its listing); elsewhere it says "the current generation" (4.1), as is usual;
    - ``crossover``, ``reproduction``, ``replacement``, ``swap``: weights of the operators. The paper's percentages sum
      to 115, so one operator is drawn for each new individual, in proportion to them (5.2);
    - ``crossover_depth``: maximum levels of a crossover parent (4.1, 5.2);
    - ``elites``: the best individuals of all generations that are validated, N_b (5.2);
    - ``seeds``: independent runs, N (4.2.3, 5.2);
    - ``selection``: "best", "avg" or "sum", see `gp.final_selection`; the paper settles on the first (5.3).

    Language:

    - ``terminals``: "basic" (n, X, t), "paper" (also the five estimators) or "full" (also ours). The paper's best uses
      all of its own (5.3);
    - ``constants``: numbers allowed as leaves, finite and distinct (4.2.1).

    Fitness:

    - ``metric``: "ndcg" or "change_rate"; the paper finds functions evolved for NDCG better by both (5.3). Or an
      objective, `formula.objectives.find_aim`. Hits are weighed by the importance of their pages;
    - ``budget``: share of the pages visited per cycle, k (5.2);
    - ``warmup``: initial cycles that visit every page before anything is ranked, W (5.2);
    - ``reading``: "since_visit" counts a page as changed if it has changed since its last visit, which is what a
      crawler observes; "that_day" if it changed in that very cycle, which is the paper's definition.

    Resources (not from the paper):

    - ``workers``: threads that evaluate, None for one per processor; results do not depend on it;
    - ``seconds``: wall-clock limit after which it stops with its current result, None for no limit.

    Raises SettingsError if a value is invalid; `UPPER_BOUNDS` has the maximum of each integer.
    """

    population: int = 300
    generations: int = 50
    max_depth: int = 10
    initial_depth: tuple[int, int] = (2, 6)
    tournament: int = 2
    parents: Parents = "elites"
    crossover: float = 90.0
    reproduction: float = 15.0
    replacement: float = 5.0
    swap: float = 5.0
    crossover_depth: int = 9
    elites: int = 50
    seeds: int = 5
    selection: Selection = "best"
    terminals: TerminalSet = "paper"
    constants: tuple[float, ...] = CONSTANTS
    metric: str = "ndcg"
    budget: float = 0.05
    warmup: int = 2
    reading: Reading = "since_visit"
    workers: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, maximum in UPPER_BOUNDS.items():
            value = getattr(self, name)
            is_default = name == "workers" and value is None
            _require(is_default or _is_count(value, maximum), name, value, f"a whole number from 1 to {maximum}")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            _require(isinstance(value, str) and value in choices, name, value, f"one of {', '.join(choices)}")
        expected = f"one of {', '.join(get_args(Metric))}, {OBJECTIVE_NAMES}"
        _require(isinstance(self.metric, str) and is_metric(self.metric), "metric", self.metric, expected)
        self._check_initial_depth()
        self._check_rates()
        self._check_constants()
        budget = _is_number(self.budget) and 0 < self.budget <= 1
        _require(budget, "budget", self.budget, "a share of the pages above 0, at most 1")
        seconds = self.seconds is None or (_is_number(self.seconds) and self.seconds > 0)
        _require(seconds, "seconds", self.seconds, "a finite number above 0, or none")

    @property
    def symbol_set(self) -> SymbolSet:
        """The symbols of the genomes."""
        return SymbolSet(TERMINAL_SETS[self.terminals], self.constants)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values by name: numbers, strings, null and lists."""
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in dataclasses.fields(self)
        }

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> EvolutionSettings:
        """Return the settings that `to_json` wrote; missing ones have their defaults.

        Raises SettingsError if `settings` is not a mapping, a name is unknown or a value is invalid.

        >>> EvolutionSettings.from_json({"population": 0})
        Traceback (most recent call last):
        streamsched.errors.SettingsError: population: expected a whole number from 1 to 100000, found 0
        """
        _require(isinstance(settings, Mapping), "settings", settings, "settings by name")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            _require(name in known, shorten(name), settings[name], f"a setting, one of {', '.join(known)}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
        return cls(**values)

    def _check_initial_depth(self) -> None:
        depths = self.initial_depth
        valid = (
            isinstance(depths, tuple) and len(depths) == 2 and all(_is_count(depth, self.max_depth) for depth in depths)
        )
        expected = f"two whole numbers, 1 or more, ascending, at most max_depth = {self.max_depth}"
        _require(valid and depths[0] <= depths[1], "initial_depth", depths, expected)

    def _check_rates(self) -> None:
        for name in _RATES:
            rate = getattr(self, name)
            _require(_is_number(rate) and rate >= 0, name, rate, "a finite number, 0 or more")
        total = sum(getattr(self, name) for name in _RATES)
        _require(0 < total < math.inf, "crossover", self.crossover, f"one of {', '.join(_RATES)} above 0")

    def _check_constants(self) -> None:
        names = TERMINAL_SETS[self.terminals]
        max_constants = MAX_LEAVES - len(names)
        expected = f"at most {max_constants} finite numbers, each once"
        valid = isinstance(self.constants, tuple) and all(_is_number(number) for number in self.constants)
        _require(valid and len(self.constants) <= max_constants, "constants", self.constants, expected)
        try:
            SymbolSet(names, self.constants)
        except ValueError as error:
            raise SettingsError("constants", self.constants, expected) from error


def is_metric(name: str) -> bool:
    """Return whether formulas can be bred for `name`: a metric of the paper or an objective. O(length).

    Raises SettingsError if it is an objective with a wrong dial.
    """
    return name in get_args(Metric) or find_aim(name) is not None


def _is_count(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= maximum


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _require(valid: bool, setting: str, found: object, expected: str) -> None:
    if not valid:
        raise SettingsError(setting, found, expected)


# Re-evolutions start from an archive of elites: five generations then find what twenty from scratch do.
REEVOLUTION_SETTINGS: Final = EvolutionSettings(
    population=100, generations=5, parents="generation", seeds=1, elites=30, selection="avg", terminals="full"
)
