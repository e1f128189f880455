"""The invariants of a shard's tables, walked one by one: for tests, after each step, and to verify a saved state."""

from __future__ import annotations

import numpy as np

from streamsched.estimation.seasonality.page_schedules import RAREST, SPARE
from streamsched.numerics.arrays import Ints
from streamsched.records.page_schema import LEASED, OUT, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import DAY_SETS, WEEK_HOURS
from streamsched.records.visit_journal import SAMPLE_PAGES, read_visits

__all__ = ["find_faults"]


def find_faults(shard: ShardArrays, found: Ints) -> list[str]:
    """Return which invariants of `shard` do not hold, none where they are sound. O(pages).

    ``found``: int64[pages], the row where the index finds each page's URL.
    """
    corpus = shard.corpus[0]
    count, groups = int(corpus["pages"]), int(corpus["groups"])
    pages, traces = shard.pages.records[:count], shard.pages.traces[:count]
    starts, lengths = traces["url_span"] >> np.uint64(16), traces["url_span"] & np.uint64(0xFFFF)
    visited = (pages["flags"] & VISITED) != 0
    members = np.bincount(pages["group"], minlength=groups) if count else np.zeros(groups, np.int64)
    hosts = shard.groups.records["host"][:groups]
    halvings = int(corpus["halvings"])
    holds = {
        "URLs fill the text, one after another": bool(np.all(np.cumsum(lengths) == starts + lengths))
        and int(lengths.sum()) == int(corpus["text_end"]),
        "the index finds every URL": bool(np.array_equal(found, np.arange(count))),
        "every page is in a group": count == int(corpus["sorted"])
        and bool(np.array_equal(members[:groups], shard.groups.records["pages"][:groups]))
        and members.size == groups,
        "a group's host is a host": bool(np.all(shard.groups.records["depth"][hosts] == 0)),
        "a group stands after its parent": bool(np.all(shard.groups.records["parent"][:groups] <= np.arange(groups))),
        "hosts count their pages that are out": bool(
            np.array_equal(_count_out(shard, count), shard.groups.records["out"][:groups])
        )
        and not np.any((pages["flags"] & (OUT | LEASED)) == OUT),
        "pages changed at most as often as visited": bool(np.all(pages["changes"] <= pages["visits"])),
        "only visited pages have visits": not np.any(pages["visits"][~visited]),
        "visits never take evidence away": bool(np.all(pages["own_shape"] >= 0) and np.all(pages["own_exposure"] >= 0)),
        "no visit is newer than its page's last outcome": bool(
            np.all(pages["last_visit_s"][visited] <= traces["last_outcome_s"][visited])
        ),
        "priors are finite and above 0": bool(
            np.all(np.isfinite(shard.groups.records["mean"][:groups]) & (shard.groups.records["mean"][:groups] > 0))
        ),
        "pages' priors are finite and above 0": all(
            bool(np.all(np.isfinite(pages[field]) & (pages[field] > 0))) for field in ("prior_shape", "prior_exposure")
        ),
        "what groups believe of surges are probabilities": _believe_soundly(shard, groups),
        "chains hold the pages of each group": _are_chained(shard, int(corpus["sorted"]), groups),
        "the sample is halved as pages double": count <= SAMPLE_PAGES << halvings
        and (halvings == 0 or count > SAMPLE_PAGES << halvings - 1),
        "the journal's newest visit to a page is its last": _are_last(shard, count),
        "each schedule is one page's": _are_own(shard, count),
        "pages go by a profile of their group, or of one above": bool(
            np.all(shard.seasonality.links["profile"][:count] < shard.seasonality.state["profiles"][0])
        )
        and not np.any(shard.seasonality.links["version"][:count] > 1),
        "busy hours are finite, and no hour is without weight": _are_rising(shard),
        "no page's schedule is ruled out": _are_possible(shard),
    }
    return [name for name, fits in holds.items() if not fits]


def _are_own(shard: ShardArrays, count: int) -> bool:
    """Return whether the schedules given out are numbered from 1, each named by the link of one page."""
    named = shard.seasonality.links["schedule"][:count]
    named = np.sort(named[named > 0])
    return bool(np.array_equal(named, np.arange(1, int(shard.seasonality.state["schedules"][0]) + 1)))


def _are_rising(shard: ShardArrays) -> bool:
    """Return whether what profiles publish are sums of weights above 0, and their counts finite and not below 0."""
    profiles = shard.seasonality.profiles[: int(shard.seasonality.state["profiles"][0])]
    told = profiles["cumulative"].reshape(-1, 2, WEEK_HOURS + 1).astype(np.int64)
    rising = bool(np.all(np.diff(told, axis=2) > 0) and np.all(told[:, :, 0] == 0))
    return rising and all(bool(np.all(np.isfinite(profiles[name]))) for name in ("changes", "exposure", "odds"))


def _are_possible(shard: ShardArrays) -> bool:
    """Return whether what fits a page best of all has a weight, however rare it is among pages."""
    seasonality = shard.seasonality.state[0]
    profiles = shard.seasonality.profiles[: int(seasonality["profiles"])]
    schedules = shard.seasonality.schedules[1 : 1 + int(seasonality["schedules"])]
    rarest = [profiles["sets_rarity"].reshape(-1, DAY_SETS)[:, 1:], profiles["hours_rarity"]]
    fits = [schedules["sets"][:, 1:], schedules["hours"]]
    return all(bool(np.all(one <= RAREST)) for one in rarest) and all(bool(np.all(one.min(1) <= SPARE)) for one in fits)


def _count_out(shard: ShardArrays, count: int) -> Ints:
    """Return how many pages of each group, a host or not, are flagged as out."""
    out = (shard.pages.records["flags"][:count] & OUT) != 0
    hosts = shard.groups.records["host"][shard.pages.records["group"][:count][out]]
    return np.bincount(hosts, minlength=int(shard.corpus["groups"][0]))


def _believe_soundly(shard: ShardArrays, groups: int) -> bool:
    """Return whether weights of surges, and what is shown of them, are probabilities."""
    records = shard.groups.records[:groups]
    weights = np.concatenate([records["open_weights"], records["kept_weights"]])
    shown = np.concatenate([records["open_share"], records["kept_share"]])
    sound = np.all(weights >= 0) and np.all(weights.sum(axis=1, dtype=np.float64) <= 1 + 1e-5)
    shares = np.concatenate([shown, records["hazard"]])
    return bool(sound and np.all((shares >= 0) & (shares < 1)))


def _are_chained(shard: ShardArrays, count: int, groups: int) -> bool:
    """Return whether each group with pages has a first one, and each page stands before the one that comes after it."""
    chains, member = shard.groups.member_links[:count], shard.pages.records["group"][:count]
    heads = shard.groups.first_members[:groups].astype(np.int64)
    led = np.flatnonzero(heads)
    first = heads[led] - 1
    if np.any(first >= count) or not np.array_equal(np.sort(first), np.flatnonzero(chains["before"] == 0)):
        return False
    linked = np.flatnonzero(chains["after"])
    after = chains["after"][linked].astype(np.int64) - 1
    if np.any(after >= count):
        return False
    kept = np.array_equal(chains["before"][after], linked + 1) and np.array_equal(member[after], member[linked])
    return bool(kept and np.array_equal(member[first], led))


def _are_last(shard: ShardArrays, count: int) -> bool:
    """Return whether the journal's visits are those of known pages, in their order and up to each one's last."""
    written = shard.journal[: int(shard.corpus["journaled"][0])]
    if np.any(written["row"] >= count):
        return False
    rows, at_s, *_ = read_visits(shard.journal, shard.pages.records, shard.corpus)
    ends = np.append(rows[1:] != rows[:-1], True)[: rows.size]
    rising = ends[:-1] | (at_s[1:] > at_s[:-1])
    return bool(np.all(rising) and np.array_equal(at_s[ends], shard.pages.records["last_visit_s"][rows[ends]]))
