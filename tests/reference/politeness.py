"""Slow, obvious twins of `politeness`: limits, leases, patterns and rule targets, each as its documentation says."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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


def ready_at(
    page: Page, rule: Rule, politeness: Politeness, *, urgent: bool = False, retry_s: float = -math.inf
) -> float:
    """The earliest time that a page may be visited; `retry_s`: by the Retry-After of its own last answer."""
    if rule.never:
        return math.inf
    if page.denied and not urgent:
        return math.inf
    times = [retry_s]
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
    is_delayed: bool = False  # whether ready_s follows from leases, not from a rest that was demanded after them
    asked_for_rest: bool = False  # and no good answer since
    backoffs: int = 0
    refusal: int = 0  # 429 or 503
    refusals: int = 0  # pages that answered so, one after another
    refused_since_s: float = math.inf
    probe: str | None = None
    probe_until_s: float = -math.inf
    failed_s: dict[str, float] = field(default_factory=dict)  # pages whose last visit failed, and when that was
    retry_s: dict[str, float] = field(default_factory=dict)  # pages that rest by their own Retry-After, and until when
    out: set[str] = field(default_factory=set)

    @property
    def delay(self) -> float:
        return float(self.politeness.delay if self.rule.delay is None else self.rule.delay)

    def lease(self, urls: Sequence[str], now: float, until_s: float) -> None:
        """Lease pages at once: it rests for as many delays, and awaits the outcome of its probe."""
        for url in urls:
            self.retry_s.pop(url, None)
            if self.asked_for_rest:
                self.probe, self.probe_until_s, self.is_delayed = url, until_s, True
        if self.delay and urls:
            self.ready_s, self.is_delayed = max(self.ready_s, now) + len(urls) * self.delay, True

    def release(self, url: str) -> None:
        """Return a page unvisited."""
        if self.probe == url:
            self.probe = None

    def block(self, until_s: float) -> None:
        """Rest until then, whatever was before."""
        self.ready_s, self.asked_for_rest, self.probe, self.is_delayed = until_s, False, None, False

    def capacity(self, now: float, lease_s: float) -> float:
        """How many more of its pages a batch may hold."""
        in_flight = self.politeness.in_flight if self.rule.in_flight is None else self.rule.in_flight
        per_batch = self.politeness.per_batch if self.rule.per_batch is None else self.rule.per_batch
        capacity = min(math.inf if in_flight is None else in_flight - len(self.out), per_batch or math.inf)
        if self.delay:
            capacity = min(capacity, max(1, lease_s // self.delay))
        if now < self.ready_s or (self.probe is not None and now < self.probe_until_s):
            return 0
        return max(min(capacity, 1) if self.asked_for_rest else capacity, 0)

    def apply(self, outcome: Outcome, *, answers: bool = True, newest_s: float | None = None) -> None:
        """Apply one outcome of any of its pages, which ends a lease if it `answers` it; `newest_s`: before it."""
        if isinstance(outcome.status, str):
            if answers and outcome.status in ("not_attempted", "robots_denied"):
                self.release(outcome.url)
            return
        status = 200 if outcome.status is None else outcome.status
        failed = status in (0, 429) or status >= 500
        newest_s = outcome.fetched_at if newest_s is None else newest_s
        is_probe = answers and self.probe == outcome.url
        busy = self.asked_for_rest and self.is_early(outcome, is_probe=is_probe)
        wait_s = None
        if status in (429, 503):
            if outcome.retry_after is not None:
                wait_s = min(outcome.retry_after, float(self.politeness.retry_after_most))
            self.count_refusal(outcome, status)
            wait_s = None if self.rest(outcome, status, wait_s, busy=busy, newest_s=newest_s) else wait_s
        elif not busy:
            self.refusals = 0
        if not failed and not busy:
            self.backoffs, self.asked_for_rest, self.probe = 0, False, None
        if is_probe:
            self.probe = None
        self.failed_s.pop(outcome.url, None)
        self.retry_s.pop(outcome.url, None)
        if failed:
            self.failed_s[outcome.url] = outcome.fetched_at
        if wait_s is not None and answers:
            most_s = float(self.politeness.retry_after_most)
            self.retry_s[outcome.url] = answered_at(outcome, newest_s, most_s) + wait_s
        if outcome.not_before is not None and answers:
            until_s = self.retry_s.get(outcome.url, -math.inf)
            self.retry_s[outcome.url] = max(until_s, float(outcome.not_before))

    def is_early(self, outcome: Outcome, *, is_probe: bool) -> bool:
        """Whether a visit was before the end of the rest, or while the probe was out."""
        if is_probe:
            return outcome.fetched_at < self.ready_s and not self.is_delayed
        return outcome.fetched_at < self.ready_s or (self.probe is not None and outcome.fetched_at < self.probe_until_s)

    def count_refusal(self, outcome: Outcome, status: int) -> None:
        """Count the pages that answered so one after another, each once."""
        if status != self.refusal:
            self.refusals = 0
        if not self.refusals:
            self.refusal, self.refused_since_s = status, math.inf
        if not self.refusals or self.failed_s.get(outcome.url, -math.inf) < self.refused_since_s:
            self.refusals = min(self.refusals + 1, 255)
        self.refused_since_s = min(self.refused_since_s, outcome.fetched_at)

    def rest(self, outcome: Outcome, status: int, wait_s: float | None, *, busy: bool, newest_s: float) -> bool:
        """Rest if enough pages have said so; whether they have."""
        pages = self.politeness.host_backoff_429 if status == 429 else self.politeness.host_backoff_503
        if pages is None or self.refusals < pages:
            return False
        self.backoffs = self.backoffs if busy else min(self.backoffs + 1, 255)
        step_s = min(float(self.politeness.backoff) * 2.0 ** (self.backoffs - 1), float(self.politeness.backoff_most))
        rest_s = wait_s if wait_s is not None else None if busy else step_s or None
        if rest_s is not None:
            self.asked_for_rest = True
            most_s = float(self.politeness.backoff_most if wait_s is None else self.politeness.retry_after_most)
            until_s = answered_at(outcome, newest_s, most_s) + rest_s
            if until_s > self.ready_s:
                self.ready_s, self.is_delayed = until_s, False
        return True


def answered_at(outcome: Outcome, newest_s: float, most_s: float) -> float:
    """The time of an answer, or that of the newest outcome before it if it is more than a longest rest ahead."""
    return outcome.fetched_at if outcome.fetched_at <= newest_s + most_s else newest_s


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


@lru_cache(1 << 16)
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
