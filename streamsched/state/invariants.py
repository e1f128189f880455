"""The invariants of a shard's arrays, checked one by one: in tests after each step, and to verify a saved state."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.estimation.forgetting import half_lives_days
from streamsched.estimation.seasonality.page_schedules import RAREST, SPARE
from streamsched.numerics.arrays import Ints, Records
from streamsched.records.group_schema import MEMBER_LINK, GroupArrays
from streamsched.records.page_schema import FORGOTTEN, LEASED, OUT, VISITED
from streamsched.records.related_schema import KEY_BITS, MOST_MEMBERS
from streamsched.records.schema import SHADOW_PAGES, ShardArrays
from streamsched.records.seasonality_schema import DAY_SETS, WEEK_HOURS
from streamsched.records.url_index import hash_urls
from streamsched.records.validators import are_sound
from streamsched.records.visit_journal import SAMPLE_PAGES, read_visits
from streamsched.state.state_arrays import ARRAYS, arrays_in_use

_Used: TypeAlias = dict[str, npt.NDArray[Any]]  # the arrays by name, each cut to what is in use


def find_faults(shard: ShardArrays, found: Ints) -> list[str]:
    """Return the invariants of `shard` that do not hold. O(pages).

    ``found``: int64[pages], the row at which the index finds each page's URL.
    """
    if any(array.of(shard).size < array.places.used(shard) for array in ARRAYS):
        return ["every array has room for what is in use"]
    used = arrays_in_use(shard)
    holds = _check_pages(shard, used, found) | _check_groups(shard, used) | _check_seasonality(used)
    holds |= _check_related(used) | _check_signals(used) | _check_validators(shard, used)
    return [name for name, fits in holds.items() if not fits]


def _check_pages(shard: ShardArrays, used: _Used, found: Ints) -> dict[str, bool]:
    corpus, pages, traces = shard.corpus[0], used["pages"], used["traces"]
    count, halvings = pages.size, int(corpus["halvings"])
    visited, known = (pages["flags"] & VISITED) != 0, pages["rule"] != FORGOTTEN
    priors = (pages["prior_shape"], pages["prior_exposure"])
    return {
        "the index finds every URL, those of forgotten pages aside": bool(
            np.array_equal(found[known], np.flatnonzero(known))
        )
        and not np.any(np.isin(found, np.flatnonzero(~known))),
        "pages have the hashes of their URLs": bool(np.array_equal(pages["url_hash"], hash_urls(shard.pages, count))),
        "pages changed at most as often as visited": bool(np.all(pages["changes"] <= pages["visits"])),
        "only visited pages have visits": not np.any(pages["visits"][~visited]),
        "evidence of visits is not negative": bool(
            np.all(pages["own_shape"] >= 0) and np.all(pages["own_exposure"] >= 0)
        ),
        "no visit is newer than its page's last outcome": bool(
            np.all(pages["last_visit_s"][visited] <= traces["last_attempt_s"][visited])
            and np.all(traces["last_attempt_s"] <= traces["last_outcome_s"])
        ),
        "pages' priors are finite and above 0": all(_are_positive_numbers(prior) for prior in priors),
        "crawl rates are finite and not negative": bool(
            np.all(np.isfinite(traces["crawl_rate"]) & (traces["crawl_rate"] >= 0))
        ),
        "the sample is halved as pages double": count <= SAMPLE_PAGES << halvings
        and (halvings == 0 or count > SAMPLE_PAGES << halvings - 1),
        "shadows are a sample of the pages, and their evidence is not negative": _are_sampled(
            shard.corpus, used["shadows"], count
        ),
        "places of shadows that are not in use are empty": not np.any(
            shard.shadows[used["shadows"].size :].view(np.uint8)
        ),
        "the half-life is between those compared": bool(
            half_lives_days()[0] <= float(corpus["half_life"]) <= half_lives_days()[-1]
        ),
        "the journal's newest visit to a page is its last": _are_newest(shard.journal, pages, shard.corpus),
    }


def _check_groups(shard: ShardArrays, used: _Used) -> dict[str, bool]:
    pages, groups = used["pages"], used["groups"]
    number = groups.size
    members = np.bincount(pages["group"][pages["rule"] != FORGOTTEN], minlength=number)
    out = pages["group"][(pages["flags"] & OUT) != 0]
    leased = np.bincount(shard.groups.records["host"][out], minlength=number)
    return {
        "every page is in a group": members.size == number and bool(np.array_equal(members, groups["pages"])),
        "hosts count their pages and URL patterns": _are_counted(members, groups),
        "domains count their pages": _are_in_domains(members, used),
        "a group's host is a host": bool(np.all(shard.groups.records["depth"][groups["host"]] == 0)),
        "parents have lower numbers than their groups": bool(np.all(groups["parent"] <= np.arange(number))),
        "hosts count their leased pages": bool(np.array_equal(leased, groups["out"]))
        and not np.any((pages["flags"] & (OUT | LEASED)) == OUT),
        "a probe is a page of a host that demanded a rest": _have_own_probes(pages, groups),
        "priors are finite and above 0": _are_positive_numbers(groups["mean"]),
        "weights and shares of surges are probabilities": _are_probabilities(groups),
        "member lists hold the pages of each group": _are_linked(shard.groups, pages, number),
    }


def _check_seasonality(used: _Used) -> dict[str, bool]:
    links, schedules, profiles = used["links"], used["schedules"][1:], used["profiles"]
    named = np.sort(links["schedule"][links["schedule"] > 0])
    return {
        "each schedule belongs to one page": bool(np.array_equal(named, np.arange(1, schedules.size + 1))),
        "pages use existing profiles": bool(np.all(links["profile"] < profiles.size))
        and not np.any(links["version"] > 1),
        "published weights of hours are positive, and counts finite": _are_positive(profiles),
        "each page's best schedule has a positive weight": _keep_weight(profiles, schedules),
    }


def _check_related(used: _Used) -> dict[str, bool]:
    keys, chances, state = used["keys"], used["chances"], used["related"][0]
    members = np.count_nonzero(used["links"]["related"] & KEY_BITS)
    evidence = (chances["followed"], chances["failed"], state["followed"], state["failed"])
    return {
        "keys have as many members as pages have keys": bool(
            keys["members"][keys["members"] <= MOST_MEMBERS].sum() == members
        ),
        "evidence of related pages is finite and not below 0": all(
            bool(np.all(np.isfinite(one) & (one >= 0))) for one in evidence
        ),
    }


def _check_signals(used: _Used) -> dict[str, bool]:
    sources = used["signal_sources"]
    evidence = (sources["evidence"], used["signal_kinds"]["evidence"])
    return _check_signalled(used["signals"]) | {
        "each source is one of its host": _are_chained(used["groups"], sources),
        "sources are of known kinds": not np.any(sources["kind"] >= used["signal_state"]["kinds"][0]),
        "evidence on sources is finite": all(bool(np.all(np.isfinite(one))) for one in evidence),
    }


def _check_validators(shard: ShardArrays, used: _Used) -> dict[str, bool]:
    blocks, claimed = used["validator_texts"], np.zeros(used["validator_texts"].size, np.uint8)
    return {
        "each block of validators belongs to one page or is free": are_sound(
            used["validators"], blocks, shard.validators, claimed
        )
    }


def _check_signalled(pages: Records) -> dict[str, bool]:
    first, last, heard = pages["first_after_s"], pages["last_after_s"], pages["kinds"] != 0
    return {
        "a page's first signal is not newer than its last": bool(
            np.all((first <= last)[heard])
            and np.all(last[heard] > 0)
            and not np.any((first != 0) | (last != 0), where=~heard)
        ),
        "only signals announce changes": not np.any(pages["signalled"][~heard]),
        "signals are counted of the kinds that announced": bool(
            np.array_equal(np.packbits(pages["counts"] != 0, axis=-1, bitorder="little")[:, 0], pages["kinds"])
            and not np.any(pages["latest"] & ~pages["kinds"])
            and np.array_equal(pages["latest"] != 0, heard)
        ),
        "the leading kind is one that announced": bool(np.all((pages["kinds"] >> pages["lead"] & 1)[heard])),
        "covered pages have a share of changes that is left out": bool(
            np.array_equal(pages["covered"] != 0, pages["quiet"] != 0)
        ),
    }


def _are_chained(groups: Records, sources: Records) -> bool:
    """Return whether the list of each host's sources holds all of them, and no kind twice."""
    seen = np.zeros(sources.size, np.bool_)
    for number in np.flatnonzero(groups["source"]).tolist():
        at = int(groups["source"][number]) - 1
        while at >= 0:
            if at >= sources.size or seen[at] or sources["host"][at] != number:
                return False
            seen[at], at = True, int(sources["next"][at]) - 1
    pairs = set(zip(sources["host"].tolist(), sources["kind"].tolist(), strict=True))
    return bool(np.all(seen)) and len(pairs) == sources.size


def _are_positive_numbers(values: npt.NDArray[Any]) -> bool:
    return bool(np.all(np.isfinite(values) & (values > 0)))


def _are_sampled(corpus: Records, shadows: Records, count: int) -> bool:
    """Return whether the sample with shadows is as large as it may be, and no evidence is negative or NaN."""
    stride = int(corpus["shadow_stride"][0])
    if stride < 1 or stride & (stride - 1) or not count <= SHADOW_PAGES * stride:
        return False
    sound = np.all(shadows["shape"] >= 0) and np.all(shadows["exposure"] >= 0)
    return bool(sound) and (stride == 1 or count > SHADOW_PAGES * stride // 2)


def _are_positive(profiles: Records) -> bool:
    """Return whether published weights of hours are above 0, and counts of profiles finite."""
    cumulative = profiles["cumulative"].reshape(-1, 2, WEEK_HOURS + 1).astype(np.int64)
    rising = bool(np.all(np.diff(cumulative, axis=2) > 0) and np.all(cumulative[:, :, 0] == 0))
    return rising and all(bool(np.all(np.isfinite(profiles[name]))) for name in ("changes", "exposure", "odds"))


def _keep_weight(profiles: Records, schedules: Records) -> bool:
    """Return whether what fits a page best has a weight, however rare it is among pages."""
    rarest = [profiles["sets_rarity"].reshape(-1, DAY_SETS)[:, 1:], profiles["hours_rarity"]]
    fits = [schedules["sets"][:, 1:], schedules["hours"]]
    return all(bool(np.all(one <= RAREST)) for one in rarest) and all(bool(np.all(one.min(1) <= SPARE)) for one in fits)


def _are_counted(members: Ints, groups: Records) -> bool:
    """Return whether hosts count the pages and URL patterns below them. ``members``: int64[groups], pages by group."""
    if members.size != groups.size or np.any(groups["host"] >= groups.size):
        return False
    pages = np.bincount(groups["host"], members, groups.size)
    patterns = np.bincount(groups["host"][groups["depth"] > 0], minlength=groups.size)
    return bool(np.array_equal(pages, groups["host_pages"]) and np.array_equal(patterns, groups["host_patterns"]))


def _are_in_domains(members: Ints, used: _Used) -> bool:
    """Return whether groups have the domain of their host, and domains count the pages of their groups."""
    domain_of, domains, hosts = used["domain_of"], used["domains"], used["groups"]["host"]
    if members.size != hosts.size or np.any(hosts >= hosts.size) or np.any(domain_of >= domains.size):
        return False
    pages = np.bincount(domain_of, members, domains.size)
    whole = int(used["corpus"]["domain_pages"][0]) == int(members.sum())
    return whole and bool(np.array_equal(domain_of, domain_of[hosts]) and np.array_equal(pages, domains["pages"]))


def _have_own_probes(pages: Records, groups: Records) -> bool:
    """Return whether the probe of each host is one of its pages, and the host demanded a rest."""
    hosts = np.flatnonzero(groups["probe"])
    rows = groups["probe"][hosts].astype(np.int64) - 1
    if np.any(rows >= pages.size) or not np.all(groups["asked_to_wait"][hosts]):
        return False
    return bool(np.array_equal(groups["host"][pages["group"][rows]], hosts))


def _are_probabilities(records: Records) -> bool:
    """Return whether weights of surges, and published shares, are probabilities."""
    weights = np.concatenate([records["open_weights"], records["kept_weights"]])
    published = np.concatenate([records["open_share"], records["kept_share"], records["told_share"]])
    sound = np.all(weights >= 0) and np.all(weights.sum(axis=1, dtype=np.float64) <= 1 + 1e-5)
    shares = np.concatenate([published, records["hazard"]])
    return bool(sound and np.all((shares >= 0) & (shares < 1)))


def _are_linked(arrays: GroupArrays, pages: Records, groups: int) -> bool:
    """Return whether the member lists hold each group's pages."""
    count, member, known = pages.size, pages["group"], pages["rule"] != FORGOTTEN
    links = np.where(known, arrays.member_links[:count], np.zeros((), MEMBER_LINK))
    heads = arrays.first_members[:groups].astype(np.int64)
    led = np.flatnonzero(heads)
    first = heads[led] - 1
    if np.any(first >= count) or not np.array_equal(np.sort(first), np.flatnonzero(known & (links["before"] == 0))):
        return False
    linked = np.flatnonzero(links["after"])
    after = links["after"][linked].astype(np.int64) - 1
    if np.any(after >= count):
        return False
    kept = np.array_equal(links["before"][after], linked + 1) and np.array_equal(member[after], member[linked])
    return bool(kept and np.array_equal(member[first], led))


def _are_newest(journal: Records, pages: Records, corpus: Records) -> bool:
    """Return whether the journal's visits are those of known pages, in their order and up to each one's last."""
    written = journal[: int(corpus["journaled"][0])]
    if np.any(written["row"] >= pages.size):
        return False
    rows, at_s, *_ = read_visits(journal, corpus)
    ends = np.append(rows[1:] != rows[:-1], True)[: rows.size]
    rising = ends[:-1] | (at_s[1:] > at_s[:-1])
    at_s, rows = at_s[ends], rows[ends]
    known = pages["rule"][rows] != FORGOTTEN
    return bool(np.all(rising) and np.array_equal(at_s[known], pages["last_visit_s"][rows[known]]))
