"""Settings of a replay, validated on construction, and the window of the log that they select."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, get_args

import numpy as np

from streamsched.errors import ReplayError
from streamsched.numerics.argument_checks import check_fields, read_items
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.policies import POLICIES, STEADY, check_policy, is_signalled
from streamsched.replay.simulation.signal_sources import SimulatedSource, name_sources
from streamsched.replay.simulation.simulator import DAY_S, Reading, Schedule

BUDGETS: Final = "a share of the pages above 0 and at most 1, such as 0.05, or a whole number of pages above 1"
DEFAULT_BASE: Final = "age"  # the policy to compare with: a crawler without a model, the oldest copy first
_FIRST_EPOCH_S: Final = -62_135_596_800.0  # year 1, Python's first
# An empty cycle takes half a millisecond for each policy, and one wrong digit of one time adds 30 years or more: these
# are 27 years of days, 13 months of hours.
_MOST_EMPTY_CYCLES: Final = 10_000
_ROUNDING: Final = 1e-9  # of a cycle
_LAST_EPOCH_S: Final = 253_402_300_799.0  # the last second of year 9999; larger values are milliseconds, not seconds


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """One replay: a log, a window of it, and the policies to compare.

    - ``log``: file name for `read_truth`;
    - ``policies``: names or formulas, in the order of the results;
    - ``budget``: pages visited per cycle, a share of them up to 1, their number above 1;
    - ``cycle_s``: seconds;
    - ``warmup``: cycles that visit every page before ranking starts;
    - ``changed``: the reading of "changed" that visits report and metrics count;
    - ``start_s``, a UTC midnight, and ``end_s``: epoch seconds, by default the log's first midnight and its end; whole
      cycles are replayed;
    - ``learn_from_s``: an earlier UTC midnight; the cycles between it and ``start_s`` are crawled and learned from, and
      not measured. The pages are those alive at ``start_s``, each from its own appearance on;
    - ``seeds``: one run each, for the random policy and the order of ties;
    - ``later_pages``: include pages that appear after ``start_s``;
    - ``against``: the policy that the others are compared with, by default "age", else the first without signals, else
      the first;
    - ``signals``: simulated sources of change signals, drawn again for each seed;
    - ``signal_files``: names of files with recorded signals;
    - ``calibration``: whether to compare forecasts with observed changes, and what was learned of the sources with the
      truth;
    - ``workers``: the maximum number of processes, started if the work is large enough; results do not depend on it.

    Raises ReplayError, or FormulaError for a formula, if a value is invalid; SettingsError or TypeError if it is of
    another type.
    """

    log: str
    policies: tuple[str, ...] = STEADY
    budget: float = 0.05
    cycle_s: float = DAY_S
    warmup: int = 2
    changed: Reading = "since_visit"
    start_s: float | None = None
    end_s: float | None = None
    learn_from_s: float | None = None
    seeds: tuple[int, ...] = (0,)
    later_pages: bool = False
    against: str | None = None
    signals: tuple[SimulatedSource, ...] = ()
    signal_files: tuple[str, ...] = ()
    calibration: bool = False
    workers: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        for name, kind, expected in (("policies", str, "names or formulas"), ("seeds", int, "whole numbers")):
            items = read_items(name, getattr(self, name), expected)
            fits = all(isinstance(one, kind) and not isinstance(one, bool) for one in items)
            _require(fits, name, getattr(self, name), expected)
        _require(bool(self.policies), "policies", self.policies, "one or more")
        _require(len(set(self.policies)) == len(self.policies), "policies", self.policies, "each once")
        is_budget = 0 < self.budget <= 1 or (1 < self.budget < math.inf and self.budget == math.floor(self.budget))
        _require(is_budget, "budget", self.budget, BUDGETS)
        _require(0 < self.cycle_s < math.inf, "cycle", self.cycle_s, "a number of seconds above 0")
        _require(self.warmup >= 0, "warmup", self.warmup, "0 or more cycles")
        known = isinstance(self.changed, str) and self.changed in get_args(Reading)
        _require(known, "changed", self.changed, " or ".join(get_args(Reading)))
        _require(bool(self.seeds), "seeds", self.seeds, "one or more")
        _require(
            all(0 <= seed < 2**64 for seed in self.seeds), "seeds", self.seeds, "whole numbers from 0 to 2**64 - 1"
        )
        _require(len(set(self.seeds)) == len(self.seeds), "seeds", self.seeds, "each once")
        _require(self.workers >= 1, "workers", self.workers, "1 or more")
        self._check_times()
        for policy in self.policies:
            check_policy(policy)
        self._name_signals()
        known = self.against is None or self.against in self.policies
        _require(known, "against", self.against, f"one of the policies {', '.join(self.policies)}")

    def _name_signals(self) -> None:
        """Give the sources names. Raise ReplayError unless all are SimulatedSource and of different names."""
        sources = read_items("signals", self.signals, "simulated sources")
        _require(
            all(isinstance(one, SimulatedSource) for one in sources), "signals", self.signals, "SimulatedSource objects"
        )
        named = name_sources(sources)
        kinds = [one.kind for one in named]
        _require(len(set(kinds)) == len(kinds), "signals", kinds, "each kind once")
        files = read_items("signal_files", self.signal_files, "names of files")
        _require(all(isinstance(one, str) for one in files), "signal_files", files, "names of files")
        object.__setattr__(self, "signals", named)

    def _check_times(self) -> None:
        """Raise ReplayError if a time has no date, a period starts within a day, or they are in the wrong order."""
        times = {"start": self.start_s, "end": self.end_s, "learn_from": self.learn_from_s}
        for name, time_s in times.items():
            _require(time_s is None or is_dated(time_s), name, time_s, "epoch seconds of the years 1 to 9999")
        for name in ("start", "learn_from"):
            midnight_s = times[name] or 0.0
            _require(midnight_s % DAY_S == 0, name, format_time(midnight_s), "a UTC midnight")
        if self.learn_from_s is None:
            return
        learn_from = format_time(self.learn_from_s)
        _require(self.start_s is not None, "learn_from", learn_from, "the start of the measured period too, --from")
        start_s = self.start_s or 0.0
        _require(self.learn_from_s < start_s, "learn_from", learn_from, f"a day before --from, {format_time(start_s)}")

    def with_own(self, names: Iterable[str]) -> ReplaySettings:
        """Return the settings of a replay that has policies of the caller's too, after these. O(policies).

        Raises ReplayError for a name that is that of another policy.
        """
        own = tuple(names)
        taken = [name for name in own if name in (*self.policies, *POLICIES)]
        _require(not taken, "policies", taken, "names that no other policy has")
        _require(all(isinstance(name, str) and name for name in own), "policies", own, "names")
        extended = copy(self)
        object.__setattr__(extended, "policies", (*self.policies, *own))
        return extended

    @property
    def schedule(self) -> Schedule:
        """Budget, warm-up, reading and cycles of learning, for the simulator."""
        return Schedule(self.budget, self.warmup, self.changed, self.learned_cycles)

    @property
    def learned_cycles(self) -> int:
        """Number of cycles that begin before the measured period, learned from and not measured."""
        if self.start_s is None or self.learn_from_s is None:
            return 0
        return math.ceil((self.start_s - self.learn_from_s) / self.cycle_s - _ROUNDING)

    @property
    def compared_with(self) -> str | None:
        """The policy that the others are compared with; None if there is one policy only."""
        if len(self.policies) == 1:
            return None
        if self.against is not None:
            return self.against
        untold = [name for name in self.policies if name == DEFAULT_BASE or not is_signalled(name)]
        return DEFAULT_BASE if DEFAULT_BASE in untold else (*untold, *self.policies)[0]


def choose_window(log: ChangeLog, settings: ReplaySettings) -> Window:
    """Return the window of `log` that `settings` select, in whole cycles, those of the learning included.

    Raises ReplayError if the log does not contain the window or no cycle is left to rank, and unless both edges are
    given, if no page changes in 10,000 successive cycles. O(changes log changes).
    """
    if not (is_dated(log.first_s) and is_dated(log.last_s)):
        raise ReplayError(f"the log's times run from {log.first_s:.0f} to {log.last_s:.0f}: expected epoch seconds")
    from_s = math.ceil(log.first_s / DAY_S) * DAY_S if settings.start_s is None else settings.start_s
    start_s = from_s if settings.learn_from_s is None else settings.learn_from_s
    end_s = log.last_s if settings.end_s is None else settings.end_s
    extent = f"the log runs from {format_time(log.first_s)} to {format_time(log.last_s)}"
    if end_s > log.last_s + max(DAY_S, settings.cycle_s):
        raise ReplayError(f"the window ends at {format_time(end_s)}, after the end of the log: {extent}")
    cycles = math.floor((end_s - start_s) / settings.cycle_s)
    before = settings.schedule.unmeasured
    if cycles <= before:
        part = "warm-up" if before == settings.warmup else f"learning before {format_time(from_s)}"
        raise ReplayError(
            f"the window from {format_time(start_s)} to {format_time(end_s)} holds {max(0, cycles)} whole cycles: "
            f"expected more than the {before} of the {part}; {extent}"
        )
    if not np.intersect1d(log.alive(start_s), log.alive(from_s)).size:
        both = "" if from_s == start_s or not log.alive(start_s).size else f" and at {format_time(from_s)}"
        raise ReplayError(f"no page is alive at {format_time(start_s)}{both}: {extent}")
    if settings.start_s is None or settings.end_s is None:
        _refuse_emptiness(log, start_s, end_s, settings.cycle_s)
    return log.window(start_s, settings.cycle_s, cycles, measured_s=from_s, later_pages=settings.later_pages)


def _refuse_emptiness(log: ChangeLog, start_s: float, end_s: float, cycle_s: float) -> None:
    """Raise ReplayError if no page changes for so long that a time of the log is probably wrong."""
    within = log.times_s[(log.times_s > start_s) & (log.times_s < end_s)]
    edges = np.concatenate([[start_s], np.sort(within), [end_s]])
    at = int(np.argmax(np.diff(edges)))
    cycles = math.floor((edges[at + 1] - edges[at]) / cycle_s)
    if cycles > _MOST_EMPTY_CYCLES:
        raise ReplayError(
            f"no page changes from {format_time(edges[at])} to {format_time(edges[at + 1])}, in {cycles:,} cycles: "
            f"expected {_MOST_EMPTY_CYCLES:,} or fewer unless --from and --to (start_s, end_s) are given. Perhaps a "
            f"time is wrong: the log runs from {format_time(log.first_s)} to {format_time(log.last_s)}"
        )


def format_time(epoch_s: float) -> str:
    """Return the time as ISO 8601 in UTC, only the date at midnight.

    >>> format_time(1755820800.0), format_time(1755820801.0)
    ('2025-08-22', '2025-08-22T00:00:01Z')
    """
    time = datetime.fromtimestamp(epoch_s, UTC)
    if epoch_s % DAY_S == 0:
        return time.date().isoformat()
    return time.replace(tzinfo=None).isoformat() + "Z"


def is_dated(epoch_s: float) -> bool:
    """Return whether the time has a calendar date: years 1 to 9999. O(1)."""
    return _FIRST_EPOCH_S <= epoch_s <= _LAST_EPOCH_S


def _require(fits: bool, setting: str, found: object, expected: str) -> None:
    if not fits:
        raise ReplayError(f"{setting}: expected {expected}, found {found!r}")
