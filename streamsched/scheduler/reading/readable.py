"""The public methods of a scheduler that change nothing."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.estimation.signals.source_list import SourceReliability, list_sources
from streamsched.numerics.argument_checks import check_flag, check_time, check_type, check_whole
from streamsched.numerics.durations import parse_duration
from streamsched.politeness.rule_targets import read_host
from streamsched.records.page_bounds import MAX_PAGES
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.url_patterns import find_host
from streamsched.scheduler.batches.batch_request import BatchRequest
from streamsched.scheduler.reading.host_view import HostPage, HostView, find_start, list_hosts, view_host
from streamsched.scheduler.reading.page_view import PageView, view_page
from streamsched.scheduler.reading.surge_view import FoundSurges, SurgeView, find_surges, view_surge
from streamsched.scheduler.reading.week_view import WeekView, view_page_week, view_profile_week

if TYPE_CHECKING:
    from streamsched.evolution.data.training_data import Training
    from streamsched.formula.champion import Champion
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats, Hashes
    from streamsched.politeness.politeness_settings import Politeness
    from streamsched.scheduler.core import SchedulerCore
    from streamsched.scheduler.explanation import Explanation
    from streamsched.scheduler.results import Batch

__all__ = ["ReadableScheduler"]

_GROUPS_READ: Final = 1 << 16  # at a time under the lock: some 2 ms


class ReadableScheduler(ABC):  # noqa: B024  made by its subclasses only
    """What `Scheduler` and `DurableScheduler` can be asked.

    ``core``: the internals, for other modules of streamsched; not part of the public interface.
    """

    def __init__(self, core: SchedulerCore) -> None:
        self.core = core

    def __len__(self) -> int:
        """Return how many pages are known."""
        return len(self.core.pages) - self.core.forgotten

    def __contains__(self, url: str) -> bool:
        with self.core.lock:  # look-ups share the index's buffers with those of outcomes
            return int(self.core.find([url])[0]) >= 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} pages, formula {self.formula.text!r})"

    @property
    def cycle_s(self) -> float:
        """The length of a cycle in seconds, the unit of `t` and of rates."""
        return self.core.pages.cycle_s

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        return self.core.settings.seed

    @property
    def positions(self) -> dict[str, Any]:
        """By stream, the position up to which its outcomes are applied, as JSON; saved with the state."""
        return self.core.reached.positions

    @property
    def formula(self) -> Formula:
        """The score function in use."""
        return self.core.champion.formula

    @property
    def champion(self) -> Champion:
        """The score function in use, and where it came from."""
        return self.core.champion

    @property
    def politeness(self) -> Politeness:
        """The politeness settings. Rules of `set_rules` override them."""
        return self.core.politeness_policy.politeness

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of the regions whose weeks are learned separately."""
        return tuple(self.core.pages.seasonality.regions or ())

    @property
    def refused_pages(self) -> int:
        """How many outcomes and discoveries of unknown pages `max_pages` and `max_pages_per_host` have refused."""
        return int(self.core.pages.arrays.corpus["refused_pages"][0])

    @property
    def refused_patterns(self) -> int:
        """How many new pages joined a larger URL pattern because of `max_patterns_per_host`."""
        return int(self.core.pages.arrays.corpus["refused_patterns"][0])

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory in use for each part of the state, rankings included. O(1)."""
        with self.core.lock:
            return self.core.pages.state_bytes() | {"ranking": self.core.formula_switch.nbytes()}

    def sources(self) -> list[SourceReliability]:
        """Return what visits have shown of each source of change signals, each kind before its hosts. O(sources)."""
        with self.core.lock:
            return list_sources(self.core.pages.arrays, self.core.pages.signals.names)

    def surges(self, k: int = 100) -> list[SurgeView]:
        """Return the `k` surges under way that the most changed pages wait for, the largest first. O(groups).

        Groups are read in parts, between which other calls may change them.
        """
        k, found, shard = check_whole("k", k, 0, "0 or more surges"), FoundSurges.none(), self.core.pages.arrays
        for start in range(0, int(shard.corpus["groups"][0]), _GROUPS_READ):
            with self.core.lock:
                records = self.core.pages.arrays.groups.records[start : start + _GROUPS_READ]
                found = found.joined(find_surges(records, start)).first(k)
        with self.core.lock:
            groups = self.core.pages.arrays.groups
            return [view_surge(groups, int(group), kept=bool(kept)) for group, kept, _ in zip(*found, strict=True)]

    def week(
        self, *, now: float, url: str | None = None, host: str | None = None, region: str | None = None
    ) -> WeekView | None:
        """Return how busy each hour of the week is for a page, a host or a region, or for all pages. O(1).

        `now`: chooses the local time. None for an unknown page or host. Raises SettingsError for an unknown region, or
        if more than one is given.
        """
        now = check_time(now)
        if sum(one is not None for one in (url, host, region)) > 1:
            raise SettingsError("week", "several of url, host and region", "at most one")
        with self.core.lock:
            if url is not None:
                check_type("url", url, str, "a URL")
                row = int(self.core.find([url])[0])
                return None if row < 0 else view_page_week(self.core.pages.arrays, row, now, self.cycle_s, self.regions)
            number = self._find_profile(host, region)
            return None if number is None else view_profile_week(self.core.pages.arrays, number, now, self.regions)

    def rank(self, k: int = 1000, *, now: float, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be visited at `now`, without leasing them and without quotas or panel.

        Their order is that of the scores.

        Spacing by a `delay` is ignored, so a host may have more pages than in a batch. `surge_probes`: replace the
        worst pages by the surge probes that a batch would have.

        O(k); O(pages) for times before the last batch or long after it.
        """
        now, k = check_time(now), check_whole("k", k, 0, "0 or more pages")
        surge_probes = check_flag("surge_probes", surge_probes)
        with self.core.lock:
            return self.core.batch_builder.preview(k, now, surge_probes=surge_probes)

    def offer(
        self,
        k: int = 1000,
        *,
        now: float,
        lease: str | float = "10m",
        hosts: Sequence[str] | None = None,
        per_host: int | None = None,
    ) -> Batch:
        """Return the batch that `next_batch` would lease with these arguments, and lease nothing; see `grant`.

        It changes nothing. The cost is that of `next_batch`.
        """
        request = BatchRequest.checked(k, check_time(now), lease=lease, hosts=hosts, per_host=per_host)
        return self.core.offer(request)

    def score(self, urls: Sequence[str], *, now: float) -> Floats:
        """Return the scores of `urls` at `now`: float64[n]. O(1) a URL. Raises UnknownPage."""
        with self.core.lock:
            return self.core.score(check_time(now), self.core.find_known(urls))

    def scores(self, *, now: float) -> Floats:
        """Return the scores of all pages by row: float64[rows], NaN for those of forgotten pages. O(pages)."""
        with self.core.lock:
            scores = self.core.score(check_time(now))
            if self.core.forgotten:
                scores[self.core.pages.arrays.pages.records["rule"][: scores.size] == FORGOTTEN] = np.nan
            return scores

    def explain(self, url: str, *, now: float, k: int = 1000, lease: str | float = "10m") -> Explanation:
        """Return what is known of a page, its score and rank at `now`, and why the next batch of `k` has it or not.

        `lease`: of that batch; hosts with a delay have as many pages as can be visited in it. O(pages). Raises
        UnknownPage.
        """
        now, k = check_time(now), check_whole("k", k, 0, "0 or more pages")
        lease_s = parse_duration(lease, "lease")
        core = self.core
        with core.lock:
            row = int(core.find_known([url])[0])
            return core.batch_builder.explain(row, core.champion, core.batch_builder.query(k, now, lease_s), core.plan)

    def training(self, cycles: int, *, now: float, seed: int = 0) -> Training:
        """Return in which of the last `cycles` whole cycles up to `now` each page of a uniform sample changed.

        Cycles that no visit saw are drawn from the pages' posteriors with `seed`; the result marks them. O(pages).
        """
        return next(self.core.trainings(cycles, now=now, seeds=[seed]))

    def digest(self) -> str:
        """Return one hash of the logical state, equal for equal states however they came about. O(pages)."""
        return self.core.digest()

    def count(self) -> int:
        """Return how many pages are known, as ``len`` does. O(1)."""
        return len(self)

    def page(self, url: str, *, now: float) -> PageView | None:
        """Return what is known of a page at `now`, None for an unknown page. O(1)."""
        check_type("url", url, str, "a URL")
        now, core = check_time(now), self.core
        with core.lock:
            row = int(core.find([url])[0])
            limits = core.politeness_policy.limits
            return None if row < 0 else view_page(core.pages.arrays, row, now, limits, core.streams.names)

    def host(self, name: str, *, now: float) -> HostView | None:
        """Return a host's limits at `now` and what holds it back, None for a host without a known page. O(1)."""
        target, now, core = read_host(name, "name"), check_time(now), self.core
        if "*" in target.host:
            raise SettingsError("name", name, "a host without *: see `hosts`")
        with core.lock:
            group = find_host(core.pages.arrays.groups, target.host)
            if group < 0 or not core.pages.arrays.groups.records[group]["host_pages"]:
                return None
            return self._view_hosts([group], now)[0]

    def hosts(self, start: int | str = 0, size: int = 100, *, now: float) -> HostPage:
        """Return `size` hosts in the order in which they became known, from `start` on. O(size), amortised.

        `start`: 0, the ``next`` of the part before, or the name of a known host.
        """
        size, now, core = check_whole("size", size, 1, "1 or more hosts"), check_time(now), self.core
        with core.lock:
            shard = core.pages.arrays
            first = find_start(shard.groups, start)
            groups = list_hosts(shard.groups, shard.corpus, first, min(size, MAX_PAGES) + 1).tolist()
            following = groups[size] if len(groups) > size else None
            return HostPage(tuple(self._view_hosts(groups[:size], now)), following)

    def tie_keys(self, urls: Sequence[str], *, now: float) -> Hashes:
        """Return the keys that order pages of equal score at `now`, the smaller first: uint64[n]. O(1) a URL.

        They change each cycle. Raises UnknownPage.
        """
        with self.core.lock:
            return self.core.tie_keys(now=check_time(now), rows=self.core.find_known(urls))

    def _find_profile(self, host: str | None, region: str | None) -> int | None:
        """Return the number of the profile of a host, a region or all pages, None for an unknown host."""
        if region is not None:
            check_type("region", region, str, "the name of a region")
            if region not in self.regions:
                raise SettingsError("region", region, f"one of {', '.join(self.regions) or 'no regions'}")
            return 1 + self.regions.index(region)
        if host is None:
            return 0
        shard = self.core.pages.arrays
        group = find_host(shard.groups, read_host(host, "host").host)
        return None if group < 0 else int(shard.seasonality.of_group[group])

    def _view_hosts(self, groups: Sequence[int], now: float) -> list[HostView]:
        core = self.core
        with core.batch_builder.leases_as_of(now):
            shard, politeness = core.pages.arrays, core.politeness_policy.politeness
            return [view_host(shard, group, now, politeness, core.streams.names) for group in groups]
