"""The politeness policy of a scheduler, applied regardless of scores: settings, per-target rules, blocks and leases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_time
from streamsched.numerics.arrays import Ints
from streamsched.politeness.leases import Leases
from streamsched.politeness.limits import ON_REQUEST, count_leased, make_limits
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_book import RuleBook
from streamsched.politeness.rule_targets import Target, find_hosts, parse_target, read_host
from streamsched.records.dirty_tracking import mark_dirty_groups, mark_dirty_rows
from streamsched.records.page_schema import URGENT
from streamsched.records.schema import PageLookup, ShardArrays
from streamsched.records.url_patterns import group_names


class PolitenessPolicy:
    """The politeness policy of one scheduler. For one call at a time.

    ``limits``: settings and rules as kernels read them; ``leases``: which pages are out.
    """

    def __init__(self, politeness: Politeness | None = None) -> None:
        """Use `politeness`, by default `Politeness()`. Raises SettingsError."""
        found = Politeness() if politeness is None else politeness
        if not isinstance(found, Politeness):
            raise SettingsError("politeness", politeness, "Politeness, or None for the defaults")
        self.politeness = found
        self.limits = make_limits(found)
        self.leases = Leases()
        self._rules = RuleBook(found, self.limits)
        self._pending_blocks = PendingHostBlocks()

    def set_rules(self, pages: PageLookup, rules: Mapping[str, Rule | HostRule | None]) -> Ints:
        """Set rules by target; return the rows whose rule may have changed: int64[m]. See `RuleBook.set`."""
        return self._rules.set(pages, rules)

    def rules(self) -> tuple[Mapping[str, HostRule], Mapping[str, Rule]]:
        """Return the rules of hosts and of pages by target. O(1). See `RuleBook.by_target`."""
        return self._rules.by_target()

    def reach(self, shard: ShardArrays) -> None:
        """Apply rules and blocks to pages and hosts that are new since the last call. O(new pages)."""
        self._rules.reach(shard)
        self._pending_blocks.reach(shard)

    def forget(self, now: float) -> None:
        """Drop blocks of unknown hosts that have expired by `now`, the caller's time. O(1) if none has."""
        self._pending_blocks.forget(now)

    def grant(self, shard: ShardArrays, rows: Ints, now: float, until_s: float, panel: int = 0) -> None:
        """Lease `rows`: int64[m] at `now` until `until_s`, and let their hosts rest for their delays. O(m)."""
        self.leases.grant(shard, rows, now, until_s, panel)
        count_leased(shard.pages.records, shard.groups.records, shard.dirty, rows, self.limits, now, until_s)

    @staticmethod
    def ask(shard: ShardArrays, rows: Ints) -> None:
        """Mark `rows`: int64[m] as asked for, until their next outcomes. O(m)."""
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
        shard.pages.records["flags"][rows] |= np.uint8(URGENT)

    def block(self, shard: ShardArrays, host: str, until_s: float) -> tuple[Ints, bool]:
        """Let hosts rest until `until_s` regardless of earlier rests; return the known ones: int64[m].

        The second value is whether one of them would have rested for longer. Hosts that become known later rest as
        well. O(1), or O(hosts) if `host` contains a ``*``. Raises SettingsError if `host` is not a host or `until_s`
        not a time.
        """
        target, until_s = read_host(host), check_time(until_s, "until")
        hosts = find_hosts(shard.groups, shard.corpus, [target])
        if "*" in target.host or not hosts.size:
            self._pending_blocks.add(target, until_s)
        mark_dirty_groups(shard.dirty, shard.groups.records, hosts)
        sooner = bool(np.any(shard.groups.records["ready_s"][hosts] > until_s))
        shard.groups.records["ready_s"][hosts] = until_s
        shard.groups.records["wait_reason"][hosts] = ON_REQUEST
        shard.groups.records["asked_to_wait"][hosts] = 0  # nothing to probe: it was not the host that demanded a rest
        shard.groups.records["probe"][hosts] = 0
        return hosts, sooner

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs besides the settings, as JSON values."""
        return {
            "politeness": self.politeness.to_json(),
            "rules": self._rules.to_json(),
            "blocks": self._pending_blocks.to_json(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any], shard: ShardArrays) -> PolitenessPolicy:
        """Return the policy of a `state`, with the shard of that time. O(pages)."""
        politeness_policy = cls(Politeness.from_json(state["politeness"]))
        politeness_policy._rules.restore(state["rules"], shard)
        politeness_policy._pending_blocks.restore(state.get("blocks", []), shard)
        politeness_policy.leases.rebuild(shard)
        return politeness_policy


class PendingHostBlocks:
    """Until when future hosts are blocked, by host or pattern; of those that match a host, the one set last applies.

    For one call at a time.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[Target, float]] = {}  # in the order set
        self._patterns: dict[str, None] = {}  # the keys of patterns
        self._first_expiry = math.inf  # no block expires before
        self._groups = 0  # already checked

    def add(self, target: Target, until_s: float) -> None:
        """Block future hosts that match `target`, in place of an earlier block of the same target. O(1)."""
        self._blocks.pop(target.key, None)
        self._blocks[target.key] = (target, until_s)
        if "*" in target.host:
            self._patterns[target.key] = None
        self._first_expiry = min(self._first_expiry, until_s)

    def reach(self, shard: ShardArrays) -> None:
        """Block hosts that are new since the last call. O(new groups)."""
        groups = int(shard.corpus["groups"][0])
        if self._blocks and groups > self._groups:
            new = np.arange(self._groups, groups)
            self._block_hosts(shard, new[shard.groups.records["depth"][new] == 0])
        self._groups = groups

    def forget(self, now: float) -> None:
        """Drop the blocks that have expired by `now`, except those that are exceptions from earlier, unexpired ones.

        O(1) if none has expired since the last call, else O(blocks) times the patterns that have not expired.
        """
        if now < self._first_expiry:
            return
        blocks, self._blocks, self._patterns, self._first_expiry = self._blocks, {}, {}, math.inf
        lasting: list[Target] = []  # unexpired
        for target, until_s in blocks.values():
            if until_s > now:
                self.add(target, until_s)
                lasting.append(target)
            elif lasting and (
                "*" in target.host or any("*" in one.host and one.matches(target.host) for one in lasting)
            ):
                first_expiry = self._first_expiry
                self.add(target, until_s)
                self._first_expiry = first_expiry

    def to_json(self) -> list[list[object]]:
        """Return what `restore` needs, as JSON values."""
        return [[key, until_s] for key, (_, until_s) in self._blocks.items()]

    def restore(self, state: list[list[object]], shard: ShardArrays) -> None:
        """Restore what `to_json` returned, with a shard to which these blocks have been applied."""
        for host, until_s in state:
            self.add(parse_target(host), float(until_s))  # type: ignore[arg-type]
        self._groups = int(shard.corpus["groups"][0])

    def _block_hosts(self, shard: ShardArrays, hosts: Ints) -> None:
        places = {key: place for place, key in enumerate(self._blocks)} if self._patterns else {}
        for host, name in zip(hosts.tolist(), group_names(shard.groups, hosts), strict=True):
            met = [key for key in self._patterns if self._blocks[key][0].matches(name)]
            met += [name] if name in self._blocks else []
            if met:
                until_s = self._blocks[max(met, key=lambda key: places.get(key, 0))][1]
                record = shard.groups.records[host]
                if until_s > record["ready_s"]:  # its first outcome may have set a longer rest
                    mark_dirty_groups(shard.dirty, shard.groups.records, np.array([host]))
                    record["ready_s"], record["wait_reason"] = until_s, ON_REQUEST
            self._blocks.pop(name, None)
