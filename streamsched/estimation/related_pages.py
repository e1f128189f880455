"""Related pages: a change of one page makes it likelier that pages with related names have changed too.

Pages are related by keys, see `records.related_schema`. Each key has a chance that its pages follow a change. A
visit that finds a change makes a *claim* on each other page of the page's keys: the probability that it has changed
since its last visit, which is the chance times the probability that the first page did not just follow another itself.
Claims add up as independent causes; terminals read them from the page's SEASONAL_LINK alone. The next visit of the page
confirms or refutes them, and ends them.

A confirmed claim gets its share of the credit: the claim over the probability of a change by any cause. Evidence counts
in proportion to the probability that nothing else would have changed the page, and it fades. A key starts from what the
keys of its kind have shown, and the kinds from a Beta(1, 9).

Where many pages of a key change often by themselves, many claims are made between two visits, and together they would
explain every change as well as the pages' own rates do. So each counts as a trial of the chance by itself, and a page's
rate is spared no more of a change than one claim of each key explains.

A claim writes to at most 64 pages of each of three keys, so a change costs O(192), a visit without change O(1). A page
without related pages costs nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.gamma_posterior import ObservedInterval
from streamsched.estimation.related_members import find_keys, list_rows
from streamsched.estimation.surges import share_not_hit
from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.compilation.machine_operations import prefetch
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1, log1p
from streamsched.records.dirty_tracking import mark_adjusted_row
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL, VISITED
from streamsched.records.related_schema import (
    AS_KIND,
    AWAKE,
    KEY_BITS,
    MOST_MEMBERS,
    RESTING,
    SHARE_BITS,
    SHARE_UNIT,
    RelatedArrays,
)
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_row
from streamsched.records.seasonality_schema import KEY_KINDS

FIRST_FOLLOWED: Final = 1.0  # prior of the chance that pages follow: one of ...
FIRST_CLAIMS: Final = 10.0  # ... as many claims
KEY_CLAIMS: Final = 2.0  # claims that a key's prior weighs: keys differ much; from 1 to 10 all rank pages about as well
KEY_MEMORY: Final = 100.0  # claims: time constant of a key's evidence
KIND_MEMORY: Final = 1_000.0  # claims: time constant of the evidence of all keys of a kind
WEAK_CLAIM: Final = 1 / 128  # probability; lower claims hardly move a score, and are made only ...
WEAK_TURNS: Final = 16  # ... at one outcome in this many, or in 4 for each member, to learn the chance
WAKING_CHANCE: Final = 2 * WEAK_CLAIM  # at which a key that rested from WEAK_CLAIM on is awake again
_LEAST_LOG: Final = 700.0  # e to minus that is still a normal number
_LEAST: Final = 1e-12  # least probability that divides


@inlined_kernel
def is_claimed(link: Record) -> bool:
    """Return whether there is a claim on a page. O(1)."""
    related = link.related
    return bool(((related[0] | related[1] | related[2]) & SHARE_BITS) != 0)


@inlined_kernel
def unclaimed(link: Record) -> float:
    """Return the probability that a page has not followed a change of a related page since its last visit. O(1)."""
    related = link.related
    first = 1.0 - SHARE_UNIT * float(np.int64(related[0]) & SHARE_BITS)
    second = 1.0 - SHARE_UNIT * float(np.int64(related[1]) & SHARE_BITS)
    return first * second * (1.0 - SHARE_UNIT * float(np.int64(related[2]) & SHARE_BITS))


@bare_kernel
def join_claims(links: Records, out: Floats) -> None:
    """Replace probabilities by those with the claims: ``links``: SEASONAL_LINK[m], ``out``: float64[m]. O(m).

    The result never falls when the probability given rises.
    """
    for i in range(out.size):
        link: Record = links[i]
        if is_claimed(link):
            out[i] = 1.0 - (1.0 - out[i]) * unclaimed(link)


@inlined_kernel
def kinds_to_claim(related: RelatedArrays, corpus: Record, link: Record) -> int:
    """Return 1 << kind for each kind of key by which a change of a page makes claims, 0 for none. O(1)."""
    kinds = 0
    is_turn = corpus.applied % WEAK_TURNS == 0
    for kind in range(KEY_KINDS):
        known = np.int64(link.related[kind]) & KEY_BITS
        if known and (is_turn or _is_awake(related, kind, known)):
            kinds |= 1 << kind
    return kinds


@inlined_kernel
def own_probability(page: Record, observed: ObservedInterval, due: float) -> float:
    """Return the probability that a page itself changed in an interval. O(1).

    `due`: by the page's models of seasonality, NaN if unknown.
    """
    if not np.isnan(due):
        return due
    cycles = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    return float(
        0.0 - expm1(-(page.prior_shape + page.own_shape) * log1p(cycles / (page.prior_exposure + page.own_exposure)))
    )


@bare_kernel
def settle_claims(shard: ShardArrays, row: int, observed: ObservedInterval, alone: float) -> float:
    """Learn from a visit of a page with claims, and end them; the page's record is as before the visit. O(1).

    `alone`: the probability that the page itself changed. Returns the probability that it followed, if each of its keys
    had claimed once.
    """
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    link: Record = shard.seasonality.links[row]
    related = shard.related
    kinds = 0
    for kind in range(KEY_KINDS):
        bits = np.int64(link.related[kind])
        if bits & KEY_BITS and bits & SHARE_BITS:
            kinds |= 1 << kind
    if kinds:
        find_keys(shard, row, kinds)
    cycles = min(max(observed.cycles, 0.0), LONGEST_INTERVAL)
    quiet = (1.0 - alone) * share_not_hit(group, page.last_visit_s)
    quiet *= exp(-min(group.hazard * cycles, _LEAST_LOG)) * unclaimed(link)
    quiet = min(max(quiet, 0.0), 1.0)
    spared = 1.0
    for kind in range(KEY_KINDS):
        share = SHARE_UNIT * float(np.int64(link.related[kind]) & SHARE_BITS)
        key = related.found[kind] if kinds >> kind & 1 else -1
        claims = 1.0
        if key >= 0:
            chance = _chance(related, kind, key)
            claims = min(log1p(-share) / log1p(-chance), float(MOST_MEMBERS))
            credit = min(chance / max(1.0 - quiet, _LEAST), 1.0) if observed.changed else 0.0
            _learn(related, kind, key, claims * (quiet / (1.0 - share)), credit)
            _wake_or_rest(shard, kind, key, link, _chance(related, kind, key))
        spared *= 1.0 - share / max(claims, 1.0)
        link.related[kind] &= KEY_BITS
    return 1.0 - spared


@inlined_kernel
def drop_claims(link: Record) -> None:
    """End the claims on a page, whose visit did not show whether they were right. O(1)."""
    for kind in range(KEY_KINDS):
        link.related[kind] &= KEY_BITS


@bare_kernel
def claim_related(
    shard: ShardArrays,
    row: int,
    observed: ObservedInterval,
    unexplained: float,
    kinds: int,
    invalidated: InvalidationBuffer,
) -> None:
    """Make the claims of a change of the page of `row`. O(members).

    `unexplained`: the probability that the page did not just follow another, whose change has made its claims; `kinds`:
    as of `kinds_to_claim`, not 0.
    """
    related = shard.related
    applied = shard.corpus[0].applied
    link: Record = shard.seasonality.links[row]
    find_keys(shard, row, kinds)
    for kind in range(KEY_KINDS):
        key = related.found[kind]
        if key < 0:
            continue
        record: Record = related.keys[key]
        chance = _chance(related, kind, key)
        _wake_or_rest(shard, kind, key, link, chance)
        share = chance * unexplained
        if share < WEAK_CLAIM and not _is_turn(applied, int(record.members)):
            continue
        count = list_rows(related, key, related.work)
        for i in range(count):
            prefetch(shard.pages.records, related.work[i])
            prefetch(shard.seasonality.links, related.work[i])
        for i in range(count):
            if related.work[i] != row:
                _claim(shard, related.work[i], kind, 1.0 - share, observed.end_s, invalidated)


@inlined_kernel
def _claim(
    shard: ShardArrays, row: int, kind: int, spared: float, at_s: float, invalidated: InvalidationBuffer
) -> None:
    """Add a claim to those of one kind on a page, unless it was never visited or has been visited since. O(1)."""
    page: Record = shard.pages.records[row]
    if not page.flags & VISITED or page.last_visit_s >= at_s:
        return
    link: Record = shard.seasonality.links[row]
    before = np.int64(link.related[kind]) & SHARE_BITS
    share = 1.0 - (1.0 - SHARE_UNIT * float(before)) * spared
    after: int = min(int(np.int64(share / SHARE_UNIT + 0.5)), SHARE_BITS)
    if after != before:
        mark_adjusted_row(shard.dirty, shard.pages, shard.seasonality, row)
        link.related[kind] = (link.related[kind] & KEY_BITS) | after
        invalidate_row(invalidated, row)


@inlined_kernel
def _wake_or_rest(shard: ShardArrays, kind: int, key: int, link: Record, chance: float) -> None:
    """Wake a key or let it rest, if its chance is not as the `link` of its member has it. O(1), O(members) if so."""
    awake = _is_awake(shard.related, kind, np.int64(link.related[kind]) & KEY_BITS)
    if awake and chance < WEAK_CLAIM:
        _mark_members(shard, kind, key, RESTING)
    elif not awake and chance >= WAKING_CHANCE:
        _mark_members(shard, kind, key, AWAKE)


@bare_kernel
def _mark_members(shard: ShardArrays, kind: int, key: int, known: int) -> None:
    """Let the members of a key note that it is AWAKE or RESTING. O(members)."""
    related = shard.related
    for i in range(list_rows(related, key, related.work)):
        mark_adjusted_row(shard.dirty, shard.pages, shard.seasonality, related.work[i])
        link: Record = shard.seasonality.links[related.work[i]]
        link.related[kind] = (link.related[kind] & SHARE_BITS) | known


@inlined_kernel
def _is_awake(related: RelatedArrays, kind: int, known: int) -> bool:
    """Return whether a key makes claims at any change; `known`: the KEY_BITS of a member. O(1)."""
    state = related.state[0]
    followed, failed = state.followed[kind], state.failed[kind]
    kind_rests = FIRST_FOLLOWED + followed < WEAK_CLAIM * (FIRST_CLAIMS + followed + failed)
    return bool(known == AWAKE or (known == AS_KIND and not kind_rests))


@inlined_kernel
def _is_turn(applied: int, members: int) -> bool:
    """Return whether outcome number `applied` makes weak claims by a key of that many members. O(1)."""
    turns = WEAK_TURNS
    while turns < 4 * members:
        turns *= 2
    return bool(applied % turns == 0)


@inlined_kernel
def _chance(related: RelatedArrays, kind: int, key: int) -> float:
    """Return the probability that a page of a key follows a change of another. O(1)."""
    state, record = related.state[0], related.chances[key]
    followed, failed = state.followed[kind], state.failed[kind]
    prior = KEY_CLAIMS * ((FIRST_FOLLOWED + followed) / (FIRST_CLAIMS + followed + failed))
    return float((prior + record.followed) / (KEY_CLAIMS + record.followed + record.failed))


@inlined_kernel
def _learn(related: RelatedArrays, kind: int, key: int, claims: float, credit: float) -> None:
    """Add the evidence of settled claims to their key's and its kind's; the part `credit` of them proved true."""
    followed = claims * credit
    record: Record = related.chances[key]
    fading = 1.0 - claims / KEY_MEMORY
    record.followed = record.followed * fading + followed
    record.failed = record.failed * fading + (claims - followed)
    state = related.state[0]
    fading = 1.0 - claims / KIND_MEMORY
    state.followed[kind] = state.followed[kind] * fading + followed
    state.failed[kind] = state.failed[kind] * fading + (claims - followed)
