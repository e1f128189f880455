"""Random calls of a scheduler, of every kind: the same for one under test and its twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec import structs

from streamsched import Batch, HostRule, KeyReusedError, Optimiser, OptimiserSettings, Outcome, Politeness, Rule, Signal
from streamsched.api.views import Noticed, Observed
from streamsched.scheduler.planning.planned_rates import PLANNERS
from streamsched.scheduler.scheduler import Scheduler
from tests.support.outcome_streams import PREFIXES, streams

Call: TypeAlias = Callable[[Scheduler], Any]
"""Calls a scheduler; equal states give equal results."""

KINDS = 16
POLITENESS = Politeness(delay=3, in_flight=4, min_revisit="1h", max_revisit="9d", retire_after=2)
URLS = [f"{prefix}{number}" for prefix in PREFIXES for number in (0, 1, 5, 12)]
HOSTS = ["a.example", "b.example", "*.example", "a.example:8080", "nobody.example"]
FORMULAS = ["crawl_rate * t", "posterior", "gain + signalled", "t * X", "importance / cost - n", "rate"]

moments = st.sampled_from([0.0, 3_600.0, 50_000.0, 1e6, 3e6])
urls = st.lists(st.sampled_from(URLS), min_size=1, max_size=6)
rules = st.one_of(st.none(), st.sampled_from([Rule(never=True), Rule(min_revisit="2h"), Rule(max_revisit="2d")]))
host_rules = st.one_of(st.none(), st.sampled_from([HostRule(delay=9), HostRule(in_flight=1), HostRule(per_batch=2)]))
some_rules = st.one_of(
    st.dictionaries(st.sampled_from(["*/docs/*", "b.example/1", "https://a.example/docs/5"]), rules, min_size=1),
    st.dictionaries(st.sampled_from(HOSTS), host_rules, min_size=1),
)
some_signals = st.lists(
    st.builds(Signal, st.sampled_from([*URLS, "https://new.example/"]), moments, st.sampled_from(["sitemap", "feed"])),
    min_size=1,
    max_size=20,
)


def settings_of(seed: int = 7) -> dict[str, Any]:
    """Settings of a scheduler that uses everything: a panel, quotas, politeness."""
    return {
        "cycle": "12h", "seed": seed, "politeness": POLITENESS, "panel": 0.3, "new_share": 0.2, "host_share": 0.3,
        "threads": 1, "max_ahead": "10d",
    }  # fmt: skip


def observing(outcomes: list[Outcome]) -> Call:
    return lambda scheduler: _plain_counts(scheduler.observe(outcomes))


@st.composite
def calls(draw: st.DrawFn, only: int | None = None) -> Call:  # noqa: C901, PLR0911  one for each kind
    """One call of the kind number `only`, or of any of the `KINDS`."""
    kind = draw(st.integers(0, KINDS - 1)) if only is None else only
    now = draw(moments)
    if kind <= 2:
        return observing(draw(streams())[:60])
    if kind <= 4:
        asked: dict[str, Any] = {"k": draw(st.integers(0, 9)), "lease": draw(st.sampled_from([60.0, 7_000.0, 1e6]))}
        asked["hosts"] = draw(st.none() | st.lists(st.sampled_from(HOSTS), max_size=2))
        asked["per_host"] = draw(st.sampled_from([None, None, 1, 2]))
        asked["key"] = draw(st.sampled_from([None, "a", "b"]))
        return lambda scheduler: _plain(_next_batch(scheduler, now, dict(asked)))
    if kind == 5:
        some = draw(urls)
        weights = draw(st.none() | st.just(2.5))
        return lambda scheduler: scheduler.discover(some, now=now, importance=weights)
    if kind == 6:
        some = draw(urls)
        return lambda scheduler: scheduler.release(some)
    if kind == 7:
        some = draw(urls)
        return lambda scheduler: scheduler.ask(some, now=now)
    if kind == 8:
        host = draw(st.sampled_from(HOSTS))
        return lambda scheduler: scheduler.block(host, now)
    if kind == 9:
        given = draw(some_rules)
        return lambda scheduler: scheduler.set_rules(given)
    if kind == 10:
        politeness = draw(st.sampled_from([POLITENESS, Politeness(delay=1, backoff="2h")]))
        return lambda scheduler: scheduler.set_politeness(politeness)
    if kind == 11:
        signals = draw(some_signals)
        return lambda scheduler: _plain_counts(scheduler.notice(signals))
    if kind == 12:
        some, key = draw(urls), draw(st.sampled_from([None, "c"]))
        return lambda scheduler: _grant(scheduler, some, now, key)
    if kind == 13:
        some, gone = draw(urls), draw(st.sampled_from([None, None, "a.example", "*.example"]))
        return lambda scheduler: scheduler.forget(some) if gone is None else scheduler.forget(host=gone)
    if kind == 14:
        installed = [name for name, planner in PLANNERS.items() if planner.check_installed is None]
        policy, budget = draw(st.sampled_from(installed)), draw(st.sampled_from(["0.0001/s", "1/s", "3%", "200%"]))
        return lambda scheduler: Optimiser(scheduler, OptimiserSettings(policy=policy, budget=budget)).plan_now(now)
    formula, most = draw(st.sampled_from(FORMULAS)), draw(st.sampled_from([None, 1, 3]))
    pages, host_pages = draw(st.sampled_from([None, 20, 60])), draw(st.sampled_from([None, 8, 1_000]))

    def change(scheduler: Scheduler) -> None:
        scheduler.use(formula, wait=True)
        scheduler.set_politeness(replace(scheduler.politeness, per_batch=most))
        scheduler.max_pages, scheduler.max_pages_per_host = pages, host_pages

    return change


def _next_batch(scheduler: Scheduler, now: float, asked: dict[str, Any]) -> Batch:
    """A batch, which is what was offered before; without its key if that is in use for another."""
    key = asked.pop("key")
    offered = scheduler.offer(now=now, **asked)
    try:
        batch = scheduler.next_batch(now=now, key=key, **asked)
    except KeyReusedError:
        batch = scheduler.next_batch(now=now, **asked)
    assert batch.repeated or _plain(batch) == _plain(offered)
    return batch


def _grant(scheduler: Scheduler, urls: list[str], now: float, key: str | None) -> Any:
    try:
        granted = scheduler.grant(urls, now=now, key=key)
    except KeyReusedError as error:
        return str(error)
    return _plain(granted.batch), dict(granted.refused)


def _plain(batch: Any) -> Any:
    scores = [repr(score) for score in batch.scores.tolist()]
    return batch.urls, scores, batch.panel, batch.etags, batch.last_modified


def _plain_counts(counts: Observed | Noticed) -> Any:
    plain = structs.asdict(counts)
    return plain | {"rejections": [str(problem) for problem in plain["rejections"]]}
