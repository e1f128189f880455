"""Records of pages, `PAGE` (64 bytes, which scoring reads) and `TRACE` (48 bytes), their arrays, and bounds on pages.

Rows are assigned in the order in which pages are first seen. A row never moves and is never freed: that of a page that
is forgotten stays empty. Only compaction, which makes another table, gives pages other rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bytes, Floats, Hashes, Record, Records
from streamsched.numerics.jit import inlined_kernel

# Bits of PAGE.flags.
VISITED: Final = 1  # a visit has shown the page's content; before that, last_visit_s is when the page became known
SUCCEEDED: Final = 2  # the last such visit had a status below 400
WITH_FINGERPRINT: Final = 4  # TRACE.fingerprint is that of the content at the last change, or first seen
LEASED: Final = 8  # leased until PageArrays.lease_until_s, whose time may have passed
FOR_PANEL: Final = 16  # beside LEASED: leased for the panel, so its outcome is no evidence for or against the formula
OUT: Final = 32  # beside LEASED: included in its host's count of leased pages, GROUP.out
URGENT: Final = 64  # requested: to be visited once whatever its score
DENIED: Final = 128  # robots.txt forbids it, by its last outcome that says either way

SHOWN_FLAGS: Final = {  # by name, in views of a page and in exports: bit and meaning
    "succeeded": (SUCCEEDED, "the last visit that showed the page's state had a status below 400"),
    "asked_for": (URGENT, "a visit was requested, whatever its score"),
    "robots_denied": (DENIED, "robots.txt forbids it, by its outcomes: visited only if asked for"),
}

FORGOTTEN: Final = 255  # as PAGE.rule: the row is that of no page any more, see `state.known_pages`

# Bounds of an interval in cycles, for learning and for scoring. Values beyond them are clock errors: without the lower
# bound a rate could become infinite, without the upper one an exposure, and NaN would spread from one page to all.
SHORTEST_INTERVAL: Final = 1e-12
LONGEST_INTERVAL: Final = 1e15

PAGE: Final = np.dtype(
    [
        ("last_visit_s", "<f8"),  # end of the last visit that reached the page
        ("own_shape", "<f8"),  # what the page's visits added to the shape of its Gamma prior
        ("own_exposure", "<f8"),  # ... and to the exposure, in cycles
        ("url_hash", "<u8"),
        ("visits", "<u4"),  # n: visits after the first that could show a change
        ("changes", "<u4"),  # X: those that showed one
        ("group", "<u4"),  # deepest group the page belongs to
        ("prior_shape", "<f4"),  # the page's current Gamma prior, set by `assign_prior`
        ("prior_exposure", "<f4"),  # ... in cycles
        ("importance", "<f4"),
        ("cost", "<f4"),
        ("failures", "u1"),  # consecutive failed visits, at most 255
        ("gone", "u1"),  # consecutive answers of 404 or 410, failures aside, at most 255
        ("flags", "u1"),
        ("rule", "u1"),  # number of the page's rule in `politeness.limits.Limits.rules`; 0: the settings; FORGOTTEN
    ]
)
TRACE: Final = np.dtype(
    [
        ("url_span", "<u8"),  # where the URL is in PageArrays.text, see `records.url_store`
        ("last_outcome_s", "<f8"),  # newest outcome of any kind, -inf before the first: no older one is applied
        ("last_attempt_s", "<f8"),  # ... newest one that reports a fetch, from which waits are counted
        ("fingerprint", "<u8"),
        ("history", "<u8"),  # change flags of the last 64 visits, bit 0 the newest
        ("weighted_changes", "<f4"),  # sum of i * I_i over visits i = 1..n, exact up to 5,792 visits
        ("crawl_rate", "<f4"),  # visits per cycle that the plan in use gives the page; 0: no plan
    ]
)


class PageArrays(NamedTuple):
    """The arrays of pages; their lengths are the rows reserved."""

    records: Records  # PAGE[rows]
    traces: Records  # TRACE[rows]
    text: Bytes  # the URLs, one after another, see `records.url_store`
    url: Bytes  # working memory: one URL
    # float64[rows]: the end of the lease if LEASED is set. Else, if the last visit failed, the end of the rest that its
    # Retry-After demanded, -inf for none; or, below 0, minus the `not_before` of the last visit: a page has one of the
    # three at most.
    lease_until_s: Floats
    # float32[rows]: if LEASED is set, the length of the lease, rounded up: it began then or a little later.
    lease_s: npt.NDArray[np.float32]
    signals: Records  # SIGNAL[rows], or of length 0 before the first signal
    # uint64[rows]: `content` as `estimation.change_detection.pack_content` returns it, 0: none; of length 0 before the
    # first outcome with one.
    contents: Hashes
    validators: npt.NDArray[np.uint32]  # uint32[rows]: number plus 1 of the first block of the page's; 0: none
    validator_texts: Records  # BLOCK[m], see `streamsched.records.validators`


@inlined_kernel
def assign_prior(page: Record, shape: float, mean: float) -> None:
    """Set a page's Gamma prior to that shape and mean rate per cycle, rounded to single precision. O(1).

    Its exposure is at most `LONGEST_INTERVAL`, so it is finite whatever the mean.
    """
    page.prior_shape = shape
    page.prior_exposure = min(shape / mean, LONGEST_INTERVAL)


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
