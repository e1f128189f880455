"""A batch is the best that its hosts allow: against all sets of pages, by brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness
from tests.property.test_politeness import some_counts
from tests.reference import ranking
from tests.support.cases import examples
from tests.support.scheduler_twins import START_S, Twins, small_shards

HOSTS = ("a.example", "b.example", "c.example")
SCORES = (-3.0, -1.0, 0.0, 0.0, 0.25, 1.0, 1.0, 2.0, 7.0)

pages = st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(SCORES)), min_size=1, max_size=9)
host_rules = st.dictionaries(
    st.sampled_from(HOSTS),
    st.builds(HostRule, delay=st.sampled_from([None, 0.0, 200.0, 1e4]), in_flight=some_counts, per_batch=some_counts),
)
politeness = st.builds(
    Politeness,
    delay=st.sampled_from([0.0, 0.0, 300.0]),
    in_flight=some_counts,
    per_batch=some_counts,
    backoff=st.just(0.0),
)


@examples(ordinary=22, whole=75)
@given(pages, politeness, host_rules, st.sets(st.sampled_from(HOSTS), max_size=1), st.integers(0, 3), st.integers(0, 6))
def test_no_batch_that_hosts_allow_is_better(
    pages: list[tuple[str, float]],
    politeness: Politeness,
    host_rules: dict[str, HostRule],
    blocked: set[str],
    before: int,
    k: int,
) -> None:
    """Greatest sum, and page by page no worse than any other; after a first batch that is still out."""
    with small_shards():
        twins = Twins("importance - cost", politeness)
        for number, (host, score) in enumerate(pages):
            outcome = Outcome(f"https://{host}/{number}", START_S, importance=max(score, 0.0), cost=max(-score, 0.0))
            twins.observe([outcome])
        for host in twins.world.hosts.keys() & host_rules.keys():
            twins.set_rule(host, host_rules[host])
        for host in twins.world.hosts.keys() & blocked:
            twins.block(host, START_S + 50.0)
        twins.take(before)
        twins.now += 100.0
        open_ = {url: score for url, score in twins.scores().items() if twins.world.is_rested(url, twins.now)}
        in_order, best = ranking.best_batches(open_, twins.world.capacities(twins.now, 600.0), k)
        batch = twins.take(k)
        assert sorted((open_[url] for url in batch), reverse=True) == in_order
        assert frozenset(batch) in best
