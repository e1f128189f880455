"""The rules of one scheduler: exceptions from its `Politeness` for pages and for hosts.

A page follows the rule of the page itself, else of a pattern, else of its host (see `rule_targets`); of several
matching patterns or hosts, the one set last. A `never` rule overrides all others until it is removed or replaced. Rules
are not merged: what the deciding rule does not set is taken from the settings. Targets with the same meaning share one
rule, however they are written. Each page's record holds the number of its rule, and each host's record the values that
its rule sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from streamsched.errors import SettingsError, shorten
from streamsched.numerics.arrays import Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.politeness.limits import Limits, write_rule
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_targets import (
    HOST,
    PAGE_SCHEMES,
    SINGLE,
    RuleMatcher,
    Target,
    find_hosts,
    parse_target,
    read_target,
)
from streamsched.records.dirty_tracking import mark_dirty_groups, mark_dirty_rows
from streamsched.records.group_schema import BY_SETTINGS
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.schema import PageLookup, ShardArrays
from streamsched.records.url_patterns import find_host_pages

_MOST_TEXT: Final = 1 << 24  # bytes of all targets, which are saved in one piece with the settings


class RuleBook:
    """The rules by target, and how many pages and groups they have been applied to. For one call at a time."""

    def __init__(self, politeness: Politeness, limits: Limits) -> None:
        self._politeness = politeness
        self._limits = limits
        self._pages: dict[str, Rule] = {}  # by target, in the order set
        self._hosts: dict[str, HostRule] = {}
        self._numbers: dict[Rule, int] = {Rule(): 0}
        self._choose()
        self._rows = 0  # pages and groups already processed
        self._groups = 0

    def set(self, pages: PageLookup, rules: Mapping[str, Rule | HostRule | None]) -> Ints:
        """Set rules by target, None to remove; return the rows whose rule may have changed: int64[m], ascending.

        O(1) for each target that is a page; for all others together O(groups), and O(m log m) for the m pages of
        their hosts. Raises SettingsError, and sets none, if a
        target is invalid, if a rule does not fit its target, or for more than 254 different page rules. Removing a rule
        that was not set has no effect.
        """
        if not isinstance(rules, Mapping):
            raise SettingsError(
                "rules", rules, "a mapping from targets, for example example.org, to a Rule, a HostRule or None"
            )
        own, hosts, targets = self._with(rules)
        self._give_numbers(own)
        self._pages, self._hosts = own, hosts
        self._choose()
        shard = pages.arrays
        self.reach(shard)
        groups, corpus = shard.groups, shard.corpus
        self._write_hosts(shard, find_hosts(groups, corpus, (target for target in targets if target.kind == HOST)))
        single = _find_pages(pages, (target.text for target in targets if target.kind == SINGLE))
        concerned = find_hosts(groups, corpus, (target for target in targets if target.kind != SINGLE))
        wide = find_host_pages(groups, corpus, concerned)
        rows = np.union1d(single, wide)
        self._number_pages(shard, rows)
        return rows

    def reach(self, shard: ShardArrays) -> None:
        """Apply rules to pages and hosts that are new since the last call. O(new pages) if there are rules."""
        pages, groups = int(shard.corpus["pages"][0]), int(shard.corpus["groups"][0])
        if self._hosts and groups > self._groups:
            new = np.arange(self._groups, groups)
            self._write_hosts(shard, new[shard.groups.records["depth"][new] == 0])
        if self._pages and pages > self._rows:
            self._number_pages(shard, np.arange(self._rows, pages))
        self._rows, self._groups = pages, groups

    def by_target(self) -> tuple[Mapping[str, HostRule], Mapping[str, Rule]]:
        """Return the rules of hosts and of pages, in the order set. A later `set` leaves these mappings as they are."""
        return self._hosts, self._pages

    def to_json(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON values."""
        return {
            "rules": [[number, rule.to_json()] for rule, number in self._numbers.items()],
            "pages": [[target, self._numbers[rule]] for target, rule in self._pages.items()],
            "hosts": [[target, rule.to_json()] for target, rule in self._hosts.items()],
        }

    def restore(self, state: dict[str, Any], shard: ShardArrays) -> None:
        """Restore what `to_json` returned, with a shard to which these rules have been applied."""
        rules = {number: Rule.from_json(rule) for number, rule in state["rules"]}
        self._numbers = {rule: number for number, rule in rules.items()}
        self._pages = {parse_target(target).key: rules[number] for target, number in state["pages"]}
        self._hosts = {parse_target(target).key: HostRule.from_json(rule) for target, rule in state["hosts"]}
        for number, rule in rules.items():
            write_rule(self._limits, number, rule, self._politeness)
        self._choose()
        self._rows, self._groups = int(shard.corpus["pages"][0]), int(shard.corpus["groups"][0])

    def _with(
        self, rules: Mapping[str, Rule | HostRule | None]
    ) -> tuple[dict[str, Rule], dict[str, HostRule], list[Target]]:
        """Return the rules of pages and of hosts after the change, and the targets that it affects.

        Raises SettingsError.
        """
        own, hosts, targets = dict(self._pages), dict(self._hosts), list[Target]()
        for text, rule in rules.items():
            target = read_target(text) if rule is not None else parse_target(text)
            _check_rule(target, rule)
            old: list[object] = []
            if rule is None or isinstance(rule, Rule):
                old.append(own.pop(target.key, None))  # a rule set again comes last
            if rule is None or isinstance(rule, HostRule):
                old.append(hosts.pop(target.key, None))
            if isinstance(rule, Rule):
                own[target.key] = rule
            elif isinstance(rule, HostRule):
                hosts[target.key] = rule
            if rule is not None or any(one is not None for one in old):
                targets.append(target)
        if sum(len(text.encode("utf-8", "replace")) for text in (*own, *hosts)) > _MOST_TEXT:
            raise SettingsError(
                "rules", f"{len(own) + len(hosts)} targets", f"at most {_MOST_TEXT} bytes of targets: use patterns"
            )
        return own, hosts, targets

    def _give_numbers(self, own: Mapping[str, Rule]) -> None:
        """Number new rules, reusing the numbers of rules no longer used; raises SettingsError if there are too many."""
        used = {Rule(): None} | dict.fromkeys(own.values())  # in order: numbers are part of the state
        if len(used) > FORGOTTEN:
            raise SettingsError(
                "rules",
                f"{len(used) - 1} different ones",
                f"at most {FORGOTTEN - 1} different page rules: give more pages the same rule",
            )
        kept = {rule: number for rule, number in self._numbers.items() if rule in used}
        free = iter(sorted(set(range(FORGOTTEN)) - set(kept.values())))
        for rule in used:
            if rule not in kept:
                kept[rule] = next(free)
                write_rule(self._limits, kept[rule], rule, self._politeness)
        self._numbers = kept

    def _choose(self) -> None:
        never = [number for rule, number in self._numbers.items() if rule.never]
        self._of_pages = RuleMatcher({target: self._numbers[rule] for target, rule in self._pages.items()}, never)
        self._of_hosts = RuleMatcher({target: place for place, target in enumerate(self._hosts)})

    def _number_pages(self, shard: ShardArrays, rows: Ints) -> None:
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
        shard.pages.records["rule"][rows] = self._of_pages.number_pages(shard.pages, shard.groups, rows)

    def _write_hosts(self, shard: ShardArrays, hosts: Ints) -> None:
        rules = list(self._hosts.values())
        mark_dirty_groups(shard.dirty, shard.groups.records, hosts)
        for host, place in zip(hosts.tolist(), self._of_hosts.number_hosts(shard.groups, hosts), strict=True):
            rule = HostRule() if place is None else rules[place]
            record = shard.groups.records[host]
            record["delay_s"] = np.nan if rule.delay is None else rule.delay
            record["max_out"] = BY_SETTINGS if rule.in_flight is None else rule.in_flight
            record["max_batch"] = BY_SETTINGS if rule.per_batch is None else rule.per_batch


def _check_rule(target: Target, rule: object) -> None:
    """Raise SettingsError if `rule` is not one that `target` can have."""
    named = f"rule of {shorten(target.text)}"
    if rule is not None and not isinstance(rule, Rule | HostRule):
        raise SettingsError(named, rule, "a Rule, a HostRule or None")
    if isinstance(rule, HostRule) and target.kind != HOST:
        raise SettingsError(named, rule, "a Rule: a HostRule is only for a host, for example example.org")


def _find_pages(pages: PageLookup, targets: Iterable[str]) -> Ints:
    """Return the rows of the pages with these URLs, or with these and a scheme in front."""
    urls = [scheme + text for text in targets for scheme in (PAGE_SCHEMES if "://" not in text else ("",))]
    rows = pages.find(PackedUrls.pack(urls))
    return rows[rows >= 0]
