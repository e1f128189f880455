"""Settings of a scheduler: one frozen object, validated when it is made and saved with the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from streamsched.errors import SettingsError
from streamsched.estimation.change_detection import EXACT, parse_changes
from streamsched.estimation.seasonality.regions import TimeRegion, check_regions
from streamsched.formula.champion import parse_provided
from streamsched.formula.formula import Formula
from streamsched.formula.objectives import OBJECTIVES
from streamsched.numerics.argument_checks import check_flag, check_part, check_share, check_whole
from streamsched.numerics.durations import parse_duration
from streamsched.politeness.politeness_settings import Politeness
from streamsched.records.page_schema import PageBounds
from streamsched.state.stream_clock import parse_max_ahead
from streamsched.state.url_rule import parse_schemes

DEFAULT_FORMULA: Final = OBJECTIVES["changes"]
SHARES_ROUNDING: Final = 1e-9  # of a sum of shares, which may be more than 1
_SHORTEST_CYCLE_S: Final = 1.0
_LONGEST_CYCLE_S: Final = 1e12  # beyond it, rates per cycle leave the range in which float64 sums them


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Everything a scheduler is built from; `streamsched.Scheduler` describes the fields and sets the defaults.

    `threads` belongs to a process and is not saved. Raises SettingsError, naming the setting, if a value is invalid.
    """

    cycle_s: float
    formula: Formula
    politeness: Politeness
    seed: int
    panel: float
    new_share: float
    host_share: float | None
    surges: bool
    changes: str
    max_ahead: float | None
    regions: Mapping[str, TimeRegion] | None
    signals_discover: bool
    schemes: str | None
    bounds: PageBounds
    threads: int | None = None

    def __post_init__(self) -> None:
        checked = {
            "cycle_s": parse_cycle(self.cycle_s),
            "seed": check_whole("seed", self.seed, None, "a whole number"),
            "panel": check_share("panel", self.panel),
            "new_share": check_share("new_share", self.new_share),
            "host_share": None if self.host_share is None else check_part("host_share", self.host_share),
            "surges": check_flag("surges", self.surges),
            "changes": parse_changes(self.changes),
            "signals_discover": check_flag("signals_discover", self.signals_discover),
            "schemes": parse_schemes(self.schemes),
            "max_ahead": parse_max_ahead(self.max_ahead),
            "regions": None if self.regions is None else check_regions(self.regions),
        }
        if self.threads is not None:
            checked["threads"] = check_whole("threads", self.threads, 1, "1 to 256, or None", most=256)
        if self.new_share + self.panel > 1.0 + SHARES_ROUNDING:
            expected = f"at most {1.0 - self.panel:g} beside panel = {self.panel:g}"
            raise SettingsError("new_share", self.new_share, expected)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values for JSON, `threads` excepted.

        ``changes`` is left out if it is "exact": states of releases without it keep their digests.
        """
        regions = self.regions
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "threads"}
        if self.changes == EXACT:
            del plain["changes"]
        return plain | {
            "formula": self.formula.text,
            "politeness": self.politeness.to_json(),
            "regions": None if regions is None else {name: region.to_json() for name, region in regions.items()},
            "bounds": self.bounds.to_json(),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], threads: int | None = None) -> SchedulerSettings:
        """Return the settings that `to_json` returned as `saved`. Raises FormulaError, SettingsError."""
        regions = saved["regions"]
        values: dict[str, Any] = {
            "changes": EXACT,
            **saved,
            "formula": parse_provided(Formula.parse(saved["formula"])),  # what was accepted stays valid
            "politeness": Politeness.from_json(saved["politeness"]),
            "regions": None if regions is None else {name: TimeRegion.from_json(one) for name, one in regions.items()},
            "bounds": PageBounds(**saved["bounds"]),
        }
        return cls(**values, threads=threads)


def parse_cycle(cycle: str | float) -> float:
    """Return the length of a cycle in seconds. Raises SettingsError if it is not a duration of 1 s to 1e12 s."""
    seconds = parse_duration(cycle, "cycle")
    if not _SHORTEST_CYCLE_S <= seconds <= _LONGEST_CYCLE_S:
        raise SettingsError("cycle", cycle, f"{_SHORTEST_CYCLE_S:g} to {_LONGEST_CYCLE_S:g} seconds")
    return seconds
