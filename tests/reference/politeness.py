"""Slow, obvious twins of `politeness`: limits, leases, patterns and rule targets, each as its documentation says."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from tests.reference.shard import Page, names_of
from tests.reference.url_hash import hash_of

SCHEMES = ("", "http://", "https://")


# --- pages
def jitter(url: str, number: int, salt: int) -> float:
    """Between 0.75 and 1.25, by the page and the number alone."""
    return 0.75 + (mixed(mixed(hash_of(url.encode()) ^ salt) ^ number) >> 11) / 2**54


def mixed(value: int) -> int:
    """The fold of a 128-bit product."""
    product = (value ^ 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
    return (product >> 64) ^ (product & (1 << 64) - 1)


def ready_at(page: Page, rule: Rule, politeness: Politeness, *, urgent: bool = False) -> float:
    """The earliest time that a page may be visited."""
    if rule.never:
        return math.inf
    if page.denied and not urgent:
        return math.inf
    times = [-math.inf]
    least = float(politeness.min_revisit if rule.min_revisit is None else rule.min_revisit)
    if page.left is not None and least:
        times.append(page.last_visit_s + least)
    if page.failures:
        rest = min(float(politeness.backoff) * 2.0 ** (page.failures - 1), float(politeness.backoff_most))
        if rest:
            times.append(page.last_attempt_s + rest * jitter(page.url, page.failures, 0xB5C0FBCFEC4D3B2F))
    if politeness.retire_after is not None and page.gone >= politeness.retire_after:
        rest = float(politeness.probe_every) * jitter(page.url, page.gone, 0x59F111F1B605D019)
        times.append(page.last_attempt_s + rest)
    return -math.inf if urgent else max(times)


def overdue_at(page: Page, rule: Rule, politeness: Politeness, *, urgent: bool = False) -> float:
    """The time from which a page goes before others."""
    most = politeness.max_revisit if rule.max_revisit is None else rule.max_revisit
    if rule.never or ((most is None or page.denied) and not urgent):
        return math.inf
    return -math.inf if urgent else page.last_visit_s + float(most or 0)


# --- hosts
@dataclass
class Host:
    """One host: its answers, and which of its pages are out."""

    politeness: Politeness
    rule: HostRule = field(default_factory=HostRule)
    ready_s: float = -math.inf
    asked_for_rest: bool = False  # since its last lease
    consecutive_429s: int = 0
    out: set[str] = field(default_factory=set)

    @property
    def delay(self) -> float:
        return float(self.politeness.delay if self.rule.delay is None else self.rule.delay)

    def lease(self, pages: int, now: float) -> None:
        """Lease `pages` of its pages at once: it rests for as many delays."""
        if self.delay and pages:
            self.ready_s = max(self.ready_s, now) + pages * self.delay
            self.asked_for_rest = False

    def capacity(self, now: float, lease_s: float) -> float:
        """How many more of its pages a batch may hold."""
        in_flight = self.politeness.in_flight if self.rule.in_flight is None else self.rule.in_flight
        per_batch = self.politeness.per_batch if self.rule.per_batch is None else self.rule.per_batch
        capacity = min(math.inf if in_flight is None else in_flight - len(self.out), per_batch or math.inf)
        if self.delay:
            capacity = min(capacity, max(1, lease_s // self.delay))
        return 0 if now < self.ready_s else max(capacity, 0)

    def apply(self, outcome: Outcome) -> None:
        """Apply one outcome of any of its pages."""
        if isinstance(outcome.status, str):
            return
        status = 200 if outcome.status is None else outcome.status
        busy = self.asked_for_rest and outcome.fetched_at < self.ready_s
        until_s = -math.inf
        if status == 429 and not busy:
            self.consecutive_429s = min(self.consecutive_429s + 1, 255)
            if outcome.retry_after is None and self.politeness.backoff:
                rest = min(
                    float(self.politeness.backoff) * 2.0 ** (self.consecutive_429s - 1),
                    float(self.politeness.backoff_most),
                )
                until_s = outcome.fetched_at + rest
        if status in (429, 503) and outcome.retry_after is not None:
            until_s = outcome.fetched_at + outcome.retry_after
        if 0 < status < 500 and status != 429 and not busy:
            self.consecutive_429s = 0
        if until_s > -math.inf:
            self.ready_s, self.asked_for_rest = max(self.ready_s, until_s), True


# --- leases
class Leases:
    """Which pages are out, as a dict, each expiry reported once."""

    def __init__(self) -> None:
        self.until_s: dict[str, float] = {}

    def expire(self, now: float) -> list[str]:
        """The pages whose leases have expired, each once."""
        ended = [url for url, until_s in self.until_s.items() if until_s <= now]
        for url in ended:
            del self.until_s[url]
        return ended

    def out(self) -> Counter[str]:
        """How many pages of each host are out."""
        return Counter(names_of(url)[0] for url in self.until_s)


# --- globs and targets
def fits(text: bytes, glob: bytes) -> bool:
    """Whether all of `text` matches `glob`."""
    return re.fullmatch(b".*".join(map(re.escape, glob.split(b"*"))), text, re.DOTALL) is not None


def fits_host(name: str, pattern: str) -> bool:
    """Whether a host matches a pattern of hosts."""
    return fits(name.encode(), pattern.encode())


def rule_of(url: str, rules: dict[str, Rule]) -> Rule:
    """The rule of a page: a `never` rule, else the last one set of the last kind that matches."""
    best: list[Rule] = [Rule(), Rule(), Rule()]
    found = [False, False, False]
    for target, rule in rules.items():
        kind, matches = kind_of(target, url)
        if matches and rule.never:
            return rule
        if matches:
            best[kind], found[kind] = rule, True
    return next((best[kind] for kind in (2, 1, 0) if found[kind]), Rule())


def key_of(target: str) -> str:
    """The canonical form of a target."""
    scheme, host, path = split_target(target)
    if path.count("*") + host.count("*") == 0 and (scheme or path):
        return target
    return f"{scheme.lower()}://{host.lower()}{path}" if scheme else f"{host.lower()}{path}"


def kind_of(target: str, url: str) -> tuple[int, bool]:
    """0 for a host, 1 for a pattern, 2 for a page; and whether the URL matches it."""
    scheme, host, path = split_target(target)
    own_scheme, _, own_path = split_target(url)
    own_host = names_of(url)[0]
    if not scheme and not path:
        return 0, fits(own_host.encode(), host.lower().encode())
    if "*" not in target:
        return 2, url == target or (not scheme and url in [f"{one}{target}" for one in SCHEMES])
    matches = fits(own_host.encode(), host.lower().encode()) and fits(own_path.encode(), path.encode())
    return 1, matches and scheme.lower() in ("", own_scheme.lower())


def split_target(url: str) -> tuple[str, str, str]:
    """Scheme, authority and the rest."""
    found = re.fullmatch(r"(?:([^/?#]*?)://)?([^/?#]*)(.*)", url, re.DOTALL)
    assert found
    return found[1] or "", found[2], found[3]
