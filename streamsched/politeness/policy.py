"""What one scheduler keeps to whatever the scores say: its politeness, the rules that override them, and its leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_time, check_whole
from streamsched.numerics.arrays import Ints
from streamsched.politeness.leases import Leases
from streamsched.politeness.limits import ON_REQUEST, count_leased, make_limits
from streamsched.politeness.pending_host_blocks import PendingHostBlocks
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_book import RuleBook
from streamsched.politeness.rule_targets import find_hosts, read_host
from streamsched.records.dirty_tracking import mark_dirty_groups, mark_dirty_rows
from streamsched.records.page_schema import URGENT
from streamsched.records.schema import PageLookup, ShardArrays

__all__ = ["PolitenessPolicy"]


class PolitenessPolicy:
    """The politeness of one scheduler as they stand now. For one call at a time.

    ``limits``: as kernels take them; ``leases``: which pages are out.
    """

    def __init__(self, politeness: Politeness | None, per_host: int | None) -> None:
        """Take the settings; `per_host` is another name for their `per_batch`. Raises SettingsError."""
        found = Politeness() if politeness is None else politeness
        if not isinstance(found, Politeness):
            raise SettingsError("politeness", politeness, "Politeness, or None for those that all have")
        self.politeness = found
        self.limits = make_limits(found)
        if per_host is not None:
            if found.per_batch not in (None, per_host):
                raise SettingsError("per_host", per_host, f"None, or per_batch of the politeness, {found.per_batch}")
            self.limit_batches(per_host)
        self.leases = Leases()
        self._rules = RuleBook(found, self.limits)
        self._closures = PendingHostBlocks()

    def limit_batches(self, per_host: int | None) -> None:
        """Let batches have so many pages of one host at the most, None for any number. Raises SettingsError."""
        if per_host is not None:
            per_host = check_whole("per_host", per_host, 1, "1 or more pages, or None for any")
        self.politeness = replace(self.politeness, per_batch=per_host)
        self.limits = self.limits._replace(per_batch=make_limits(self.politeness).per_batch)

    def set_rules(self, pages: PageLookup, rules: Mapping[str, Rule | HostRule | None]) -> Ints:
        """Set rules by target; return the rows that may go by others now: int64[m]. See `RuleBook.set`."""
        return self._rules.set(pages, rules)

    def reach(self, shard: ShardArrays) -> None:
        """Let pages and hosts that came since the last call go by their rules and blocks. O(new pages)."""
        self._rules.reach(shard)
        self._closures.reach(shard)

    def forget(self, now: float) -> None:
        """Forget blocks of hosts not known that have passed by `now`, the caller's time. O(1) where none has."""
        self._closures.forget(now)

    def grant(self, shard: ShardArrays, rows: Ints, now: float, until_s: float, panel: int = 0) -> None:
        """Lease `rows`: int64[m] at `now` until `until_s`; their hosts rest for their delays. O(m)."""
        count_leased(shard.pages.records, shard.groups.records, shard.dirty, rows, self.limits, now)
        self.leases.grant(shard, rows, until_s, panel)

    @staticmethod
    def ask(shard: ShardArrays, rows: Ints) -> None:
        """Mark `rows`: int64[m] as asked for, until their next outcomes. O(m)."""
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
        shard.pages.records["flags"][rows] |= np.uint8(URGENT)

    def block(self, shard: ShardArrays, host: str, until_s: float) -> tuple[Ints, bool]:
        """Let hosts rest until `until_s`, whatever they rested for; return which of those known: int64[m].

        And whether one of them rested for longer. Those that become known later rest as well. O(1), O(hosts) where
        `host` has a ``*``. Raises SettingsError for what is no host or no time.
        """
        target, until_s = read_host(host), check_time(until_s, "until")
        hosts = find_hosts(shard.groups, shard.corpus, [target])
        if "*" in target.host or not hosts.size:
            self._closures.add(target, until_s)
        mark_dirty_groups(shard.dirty, shard.groups.records, hosts)
        sooner = bool(np.any(shard.groups.records["ready_s"][hosts] > until_s))
        shard.groups.records["ready_s"][hosts] = until_s
        shard.groups.records["wait_reason"][hosts] = ON_REQUEST
        shard.groups.records["asked_to_wait"][hosts] = 0
        return hosts, sooner

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs, beside the settings, as JSON can hold it."""
        return {
            "politeness": self.politeness.to_json(),
            "rules": self._rules.to_json(),
            "blocks": self._closures.to_json(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any], shard: ShardArrays) -> PolitenessPolicy:
        """Return what `state` told once, with the tables of that time. O(pages)."""
        politeness_policy = cls(Politeness.from_json(state["politeness"]), None)
        politeness_policy._rules.restore(state["rules"], shard)
        politeness_policy._closures.restore(state.get("blocks", []), shard)
        politeness_policy.leases.rebuild(shard)
        return politeness_policy
