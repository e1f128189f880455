"""Bounds on what others can make a shard hold: its pages, the pages of a host, and the URL patterns of a host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from streamsched.numerics.argument_checks import check_whole

MAX_PAGES: Final = (1 << 32) - 2  # of a shard: a slot of the URL index holds row + 1 in 32 bits
MAX_PAGES_PER_HOST: Final = 10_000_000  # above the articles of the largest encyclopedia; 2.5 GB with usual URLs
MAX_PATTERNS_PER_HOST: Final = 100_000  # directories of 20 years of a daily site with 10 sections; 30 MB


class BoundLimits(NamedTuple):
    """The bounds as kernels read them."""

    pages: int
    host_pages: int
    host_patterns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBounds:
    """The most pages of a shard, pages of a host, and URL patterns of a host; None: all that the shard can hold.

    At a bound, new pages are refused and known pages are updated as before. The pages of a refused URL pattern belong
    to the group above. Raises SettingsError, naming the bound, if a value is invalid.
    """

    max_pages: int | None = None
    max_pages_per_host: int | None = MAX_PAGES_PER_HOST
    max_patterns_per_host: int | None = MAX_PATTERNS_PER_HOST

    def __post_init__(self) -> None:
        for name, least in (("max_pages", 1), ("max_pages_per_host", 1), ("max_patterns_per_host", 0)):
            value = getattr(self, name)
            if value is not None:
                checked = check_whole(name, value, least, f"{least} to {MAX_PAGES}, or None", most=MAX_PAGES)
                object.__setattr__(self, name, checked)

    @property
    def limits(self) -> BoundLimits:
        """The bounds as kernels read them."""
        bounds = (self.max_pages, self.max_pages_per_host, self.max_patterns_per_host)
        return BoundLimits(*(MAX_PAGES if bound is None else bound for bound in bounds))

    def to_json(self) -> dict[str, Any]:
        """Return the bounds as plain values for JSON."""
        return asdict(self)
