"""The scheduler of one shard in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar

from streamsched.estimation.change_detection import CHANGE_BITS
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion
from streamsched.formula.champion import Champion, find_formula, parse_provided
from streamsched.numerics.argument_checks import check_path
from streamsched.persistence.image_writer import save_state
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.records.page_bounds import MAX_PAGES_PER_HOST, MAX_PATTERNS_PER_HOST, PageBounds
from streamsched.scheduler.any_scheduler import AnyScheduler
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.recovered_state import recover_state
from streamsched.scheduler.settings import DEFAULT_FORMULA, SchedulerSettings, parse_cycle
from streamsched.state.stream_clock import MAX_AHEAD, parse_max_ahead

if TYPE_CHECKING:
    from streamsched.formula.formula import Formula
    from streamsched.persistence.call_codec import StreamNeeded
    from streamsched.politeness.politeness_settings import Politeness
    from streamsched.scheduler.logged_calls import Call

__all__ = ["DEFAULT_FORMULA", "Scheduler"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_log: Final = logging.getLogger("streamsched.persistence")


class Scheduler(AnyScheduler):
    """Decides which pages to visit next: learns each page's change rate from crawl outcomes and ranks by a formula.

    `cycle`: the unit of t and of rates, as ``"1d"`` or seconds; `objective`: ``"changes"`` found, ``"freshness"`` of
    the copies, ``"balanced(d)"`` between them with d from 0 to 1 (``"balanced"``: 0.5), each weighted by importance and
    divided by cost, any of them ``"* significance"``, by how much of a page its changes concern, or a formula;
    `formula`: a formula, in place of `objective`; `seed`: of all random choices, such as the order of equal scores,
    which is drawn anew each cycle; `politeness`: how often pages and hosts may be visited; `per_host`: the most pages
    of one host in a batch, as `per_batch` of `politeness`;
    `change_bits`: two fingerprints that differ in at least this many of 64 bits are a change; `panel`: the share of
    visits that goes to a uniform sample visited every cycle, from which evolution learns without bias; `new_share`: at
    least this share of a batch are never-visited pages, if that many exist; `explore_share`: the share of a batch drawn
    uniformly at random; `surges`: whether to detect surges, bulk changes of a host or URL pattern (if not, the terminal
    is 0 and each change counts for its page alone); `surge_probes`: whether batches include pages visited to detect
    surges, if the formula reads them; `max_ahead`: outcomes further ahead of the newest one are rejected, as their
    clocks must be wrong, None to accept them; `regions`: top-level domains and clocks whose weekly profiles are learned
    separately, None to learn no seasonality, which saves some memory and time; `signals_discover`: whether change
    signals of unknown pages add them (`notice`); `max_pages`, `max_pages_per_host`: the
    most pages; further ones are refused and counted (`refused_pages`), and known ones updated as before;
    `max_patterns_per_host`: the most URL patterns of a host, whose new pages then join the larger ones; None for no
    bound; `threads`: of the ranking and of look-ups, None for all cores (the result is the same). Methods may be called
    from several threads; each waits for the others. A process forked from this one must not use it: load a saved state
    there.

    >>> from streamsched import Outcome
    >>> s = Scheduler(cycle="1d")
    >>> s.observe([Outcome("https://a.example/", 0.0), Outcome("https://a.example/", 86400.0, changed=True)]).changed
    1
    >>> s.next_batch(k=10, now=172800.0).urls
    ['https://a.example/']
    """

    _incomplete: StreamNeeded | None = None  # why logged calls of the directory it is from were not applied

    def __init__(  # noqa: PLR0913  every setting by its name
        self,
        *,
        cycle: str | float = "1d",
        objective: str | None = None,
        formula: str | Formula | None = None,
        seed: int = 0,
        politeness: Politeness | None = None,
        per_host: int | None = None,
        change_bits: int = CHANGE_BITS,
        panel: float = 0.0,
        new_share: float = 0.1,
        explore_share: float = 0.0,
        surges: bool = True,
        surge_probes: bool = True,
        max_ahead: str | float | None = MAX_AHEAD,
        regions: Mapping[str, TimeRegion] | None = REGIONS,
        signals_discover: bool = True,
        max_pages: int | None = None,
        max_pages_per_host: int | None = MAX_PAGES_PER_HOST,
        max_patterns_per_host: int | None = MAX_PATTERNS_PER_HOST,
        threads: int | None = None,
    ) -> None:
        """Start without pages. Raises SettingsError for an invalid setting, FormulaError for an invalid formula."""
        settings = SchedulerSettings(
            cycle_s=parse_cycle(cycle),
            formula=parse_provided(find_formula(objective, formula)),
            politeness=PolitenessPolicy(politeness, per_host).politeness,
            seed=seed,
            change_bits=change_bits,
            panel=panel,
            new_share=new_share,
            explore_share=explore_share,
            surges=surges,
            surge_probes=surge_probes,
            max_ahead=parse_max_ahead(max_ahead),
            regions=regions,
            signals_discover=signals_discover,
            bounds=PageBounds(
                max_pages=max_pages,
                max_pages_per_host=max_pages_per_host,
                max_patterns_per_host=max_patterns_per_host,
            ),
            threads=threads,
        )
        super().__init__(SchedulerCore.new(settings))

    def _perform(self, call: Call[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return call.apply(self.core, *args, **kwargs)

    def use(self, formula: str | Formula | Champion, *, wait: bool = False) -> None:  # noqa: D102  inherited
        self.core.use(formula, wait=wait)

    def save(self, path: str | Path) -> Path:
        """Save the state to the directory `path`, made if necessary, atomically; return the file written. O(pages).

        The file holds the state at the instant of the call. Other threads go on; each waits for milliseconds at a time.
        Raises SnapshotError if it cannot be written, StreamNeeded if logged calls of that directory would be lost.
        """
        directory = check_path("path", path)
        if self._incomplete is not None and Path(self._incomplete.path).resolve() == directory.resolve():
            raise self._incomplete
        return save_state(directory, self.core)

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> Self:
        """Return the scheduler that was last saved in the directory `path`. O(pages), O(calls logged since).

        Nothing in the directory changes; another process may own it. Damaged files are reported by the logger
        ``streamsched.persistence``, and the newest whole state is loaded; if logged calls depend on a stream that must
        be read again, the state before them. Raises SnapshotError if there is no state, none is whole, or logged calls
        are damaged or missing.
        """
        found = recover_state(check_path("path", path), threads)
        scheduler = cls.__new__(cls)  # its settings are part of the state
        AnyScheduler.__init__(scheduler, found.core)
        if found.needed is not None:
            _log.warning("%s; loaded the state before that call", found.needed)
            scheduler._incomplete = found.needed  # noqa: SLF001  its own
        return scheduler
