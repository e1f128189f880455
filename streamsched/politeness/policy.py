"""What one scheduler keeps to whatever the scores say: its manners, the rules that override them, and its leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_time, check_whole
from streamsched.numerics.arrays import Ints
from streamsched.politeness.leases import Leases
from streamsched.politeness.limits import ON_REQUEST, count_handed, make_limits
from streamsched.politeness.pending_host_blocks import Closures
from streamsched.politeness.politeness_settings import HostRule, Manners, Rule
from streamsched.politeness.rule_book import RuleBook
from streamsched.politeness.rule_targets import find_hosts, read_host
from streamsched.records.dirty_tracking import mark_groups, mark_rows
from streamsched.records.schema import URGENT, PageLookup, Tables

__all__ = ["Courtesy"]


class Courtesy:
    """The manners of one scheduler as they stand now. For one call at a time.

    ``limits``: as kernels take them; ``leases``: which pages are out.
    """

    def __init__(self, manners: Manners | None, per_host: int | None) -> None:
        """Take the settings; `per_host` is another name for their `per_batch`. Raises SettingsError."""
        found = Manners() if manners is None else manners
        if not isinstance(found, Manners):
            raise SettingsError("manners", manners, "Manners, or None for those that all have")
        self.manners = found
        self.limits = make_limits(found)
        if per_host is not None:
            if found.per_batch not in (None, per_host):
                raise SettingsError("per_host", per_host, f"None, or per_batch of the manners, {found.per_batch}")
            self.limit_batches(per_host)
        self.leases = Leases()
        self._rules = RuleBook(found, self.limits)
        self._closures = Closures()

    def limit_batches(self, per_host: int | None) -> None:
        """Let batches have so many pages of one host at the most, None for any number. Raises SettingsError."""
        if per_host is not None:
            per_host = check_whole("per_host", per_host, 1, "1 or more pages, or None for any")
        self.manners = replace(self.manners, per_batch=per_host)
        self.limits = self.limits._replace(per_batch=make_limits(self.manners).per_batch)

    def set_rules(self, pages: PageLookup, rules: Mapping[str, Rule | HostRule | None]) -> Ints:
        """Set rules by target; return the rows that may go by others now: int64[m]. See `RuleBook.set`."""
        return self._rules.set(pages, rules)

    def reach(self, tables: Tables) -> None:
        """Let pages and hosts that came since the last call go by their rules and blocks. O(new pages)."""
        self._rules.reach(tables)
        self._closures.reach(tables)

    def forget(self, now: float) -> None:
        """Forget blocks of hosts not known that have passed by `now`, the caller's time. O(1) where none has."""
        self._closures.forget(now)

    def grant(self, tables: Tables, rows: Ints, now: float, until_s: float, panel: int = 0) -> None:
        """Lease `rows`: int64[m] at `now` until `until_s`; their hosts rest for their delays. O(m)."""
        count_handed(tables, rows, self.limits, now)
        self.leases.grant(tables, rows, until_s, panel)

    @staticmethod
    def ask(tables: Tables, rows: Ints) -> None:
        """Mark `rows`: int64[m] as asked for, until their next outcomes. O(m)."""
        mark_rows(tables, rows)
        tables.pages["flags"][rows] |= np.uint8(URGENT)

    def block(self, tables: Tables, host: str, until_s: float) -> tuple[Ints, bool]:
        """Let hosts rest until `until_s`, whatever they rested for; return which of those known: int64[m].

        And whether one of them rested for longer. Those that become known later rest as well. O(1), O(hosts) where
        `host` has a ``*``. Raises SettingsError for what is no host or no time.
        """
        target, until_s = read_host(host), check_time(until_s, "until")
        hosts = find_hosts(tables, [target])
        if "*" in target.host or not hosts.size:
            self._closures.add(target, until_s)
        mark_groups(tables, hosts)
        sooner = bool(np.any(tables.groups["ready_s"][hosts] > until_s))
        tables.groups["ready_s"][hosts] = until_s
        tables.groups["why"][hosts] = ON_REQUEST
        tables.groups["asked"][hosts] = 0
        return hosts, sooner

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs, beside the settings, as JSON can hold it."""
        return {
            "manners": self.manners.to_json(),
            "rules": self._rules.to_json(),
            "blocks": self._closures.to_json(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any], tables: Tables) -> Courtesy:
        """Return what `state` told once, with the tables of that time. O(pages)."""
        courtesy = cls(Manners.from_json(state["manners"]), None)
        courtesy._rules.restore(state["rules"], tables)
        courtesy._closures.restore(state.get("blocks", []), tables)
        courtesy.leases.rebuild(tables)
        return courtesy
