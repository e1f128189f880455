"""Compaction: the pages of a table that stay, with new rows, in a new table; what is forgotten takes no memory there.

Rows, groups, domains, schedules, profiles, sources of signals and blocks of validators get new numbers, in the order
of the old ones. `state_arrays.ARRAYS` says which fields hold such numbers. Texts of URLs are kept again, and indexes,
member lists and keys of related pages are rebuilt, as after loading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.related_members import carry_evidence
from streamsched.estimation.seasonality.group_profiles import most_profiles
from streamsched.estimation.seasonality.page_schedules import most_schedules
from streamsched.numerics.arrays import Bools, Hashes, Ints, frozen
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.schema import SHADOW_PAGES, ShardArrays
from streamsched.records.seasonality_schema import NO_GROUP
from streamsched.records.url_patterns import candidate_space, keep_texts
from streamsched.records.url_store import pack_urls, span_lengths
from streamsched.records.validators import list_blocks
from streamsched.records.visit_journal import SAMPLE_PAGES, sample_hashes
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import ARRAYS, BY_NAME, Array, Numbered, Room

GONE: Final = -1
_URLS: Final = 1 << 16  # kept at a time
_WHOLE: Final = (1 << 64) - 1  # the greatest sample hash
_SPAN_BITS: Final = 16  # of a name's length
_COUNTS: Final = (  # of a profile, which its sweep and its publication sum up
    *("changes", "exposure", "changes_steps", "exposure_steps", "weekly_changes", "weekly_exposure"),
    *("scheduled_sum", "scheduled_count", "sets_sum", "hours_sum"),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a table.

    - ``hosts``: bool[groups], True for the hosts whose pages stay; None for all;
    - ``rows``: int64[m], rows that stay even if their pages are forgotten, as something names them;
    - ``resting_after_s``: hosts that rest at this time stay without pages;
    - ``panel_bar``: the largest sample hash of the panel's members.
    """

    hosts: Bools | None
    rows: Ints
    resting_after_s: float
    panel_bar: int


class Numbers(NamedTuple):
    """New numbers of records.

    ``before``: int64[m], the old number of each that stays; ``after``: int64[n], the new number of each, or GONE.
    """

    before: Ints
    after: Ints

    @classmethod
    def of(cls, before: Ints, count: int) -> Numbers:
        """Return the numbers of the records `before`, which stay, among `count`."""
        after = np.full(count, GONE)
        after[before] = np.arange(before.size)
        return cls(before, after)


def compact_table(table: PageTable, kept: Kept) -> tuple[PageTable, Numbers]:
    """Return a table of the pages of `table` that stay, and their new rows. O(pages).

    Pages keep all that is known of them, and so do their groups and hosts. What depends on rows, or on more than pages
    and hosts:

    - groups and hosts without pages are gone, but for hosts that rest: a page found there begins a new one. What they
      taught stays in the means of the corpus, in kinds of sources, and in the profiles above them;
    - the journal's sample and the panel keep their pages as far as the rows of the smaller table allow;
    - pages that come into the sample by which the half-life is learned begin there with their own evidence;
    - a key of related pages that only one known page has is gone, with its evidence. A name that is no longer common
      relates pages again;
    - if a table of that many pages has fewer schedules or profiles, those with the least evidence are gone;
    - random draws of exploration differ.
    """
    old = table.arrays
    rows = _find_rows(old, kept)
    groups = _find_groups(old, rows, kept)
    numbers = _number(old, rows, groups)
    new = PageTable(table.cycle_s, table.regions, table.bounds, table.key, table.signal_kinds)
    if old.pages.contents.size:
        new.keep_contents()
    names = span_lengths(old.groups.records["name_span"][groups])
    blocks = numbers[Numbered.BLOCK].before.size
    new.reserve(Room(rows.size, groups.size, 0, int(names.sum()), blocks=blocks))
    _write_counts(old, new.arrays, numbers, kept)
    for array in ARRAYS:
        place = array.in_use(new.arrays)
        if array.places.of is not None and array.saved is not None and place.size:
            place[:] = renumber(array, array.in_use(old)[numbers[array.places.of].before], numbers)
    _write_profiles(old, new.arrays, numbers)
    _write_groups(old, new.arrays, numbers)
    _write_journal(old, new.arrays, numbers)
    _write_shadows(old, new.arrays, rows)
    _write_texts(old, new, rows)
    new.rebuild_index(are_members=False)
    carry_evidence(old, new.arrays, rows)
    return new, numbers[Numbered.PAGE]


def renumber(array: Array, records: npt.NDArray[Any], numbers: dict[Numbered, Numbers]) -> npt.NDArray[Any]:
    """Return `records` of `array` with the new numbers of what they name."""
    for reference in array.references:
        values = records if reference.field is None else records[reference.field]
        places = values.astype(np.int64) - reference.base
        named = (values != reference.none) if reference.none or reference.base else np.ones(values.shape, np.bool_)
        after = np.full(values.shape, GONE)
        after[named] = numbers[reference.to].after[places[named]]
        renumbered = np.where(after == GONE, reference.none, after + reference.base)
        if reference.field is None:
            records = renumbered.astype(array.dtype)
        else:
            records[reference.field] = renumbered
    return records


def _find_rows(old: ShardArrays, kept: Kept) -> Ints:
    """Return the rows that stay, in the order of their new rows: int64[m].

    Ascending, but for those of the journal's sample, or of the panel if all are in the sample: a page with the i-th
    smallest sample hash of all that stay gets the row with the i-th smallest.
    """
    pages = old.pages.records[: int(old.corpus["pages"][0])]
    stays = pages["rule"] != FORGOTTEN
    stays[kept.rows] = True
    if kept.hosts is not None:
        stays &= kept.hosts[old.groups.records["host"][pages["group"]]]
    rows = np.flatnonzero(stays)
    halvings = _halvings(rows.size)
    bar = kept.panel_bar if halvings == 0 else _WHOLE >> halvings
    if bar < 0 or not rows.size:
        return rows
    after = sample_hashes(np.arange(rows.size))
    drawn = np.flatnonzero(after <= np.uint64(bar))
    drawn = drawn[np.argsort(after[drawn], kind="stable")]
    first = np.argsort(sample_hashes(rows), kind="stable")[: drawn.size]
    ordered = np.empty(rows.size, np.int64)
    others = np.ones(rows.size, np.bool_)
    others[drawn] = False
    ordered[drawn] = rows[first]
    ordered[others] = np.delete(rows, first)
    return ordered


def _find_groups(old: ShardArrays, rows: Ints, kept: Kept) -> Ints:
    """Return the groups that stay: int64[m], ascending: those of the pages of `rows`, what is above, resting hosts."""
    groups = old.groups.records[: int(old.corpus["groups"][0])]
    stays = (groups["depth"] == 0) & (groups["ready_s"] > kept.resting_after_s)
    if kept.hosts is not None:
        stays &= kept.hosts
    level = np.unique(old.pages.records["group"][rows]).astype(np.int64)
    while level.size:
        stays[level] = True
        above = groups["parent"][level].astype(np.int64)
        level = np.unique(above[~stays[above]])
    return np.flatnonzero(stays)


def _number(old: ShardArrays, rows: Ints, groups: Ints) -> dict[Numbered, Numbers]:
    """Return the new numbers of all records."""
    corpus, heads, texts = old.corpus[0], old.pages.validators, old.pages.validator_texts
    blocks = np.empty(list_blocks(heads, texts, rows, np.empty(0, np.int64)), np.int64)
    list_blocks(heads, texts, rows, blocks)
    sources = old.signals.sources[: int(old.signals.state["sources"][0])]
    found = {
        Numbered.PAGE: Numbers.of(rows, int(corpus["pages"])),
        Numbered.GROUP: Numbers.of(groups, int(corpus["groups"])),
        Numbered.DOMAIN: Numbers.of(np.unique(old.groups.domain_of[groups]).astype(np.int64), int(corpus["domains"])),
        Numbered.BLOCK: Numbers.of(np.sort(blocks), int(old.validators.state["blocks"][0])),
    }
    stays = found[Numbered.GROUP].after[sources["host"]] != GONE
    found[Numbered.SOURCE] = Numbers.of(np.flatnonzero(stays), sources.size)
    found[Numbered.SCHEDULE] = _number_schedules(old, rows)
    found[Numbered.PROFILE] = _number_profiles(old, found[Numbered.GROUP], rows.size)
    return found


def _number_schedules(old: ShardArrays, rows: Ints) -> Numbers:
    """Return the numbers of the schedules of the pages that stay; number 0 belongs to no page."""
    used = old.seasonality.links["schedule"][rows].astype(np.int64)
    used = np.sort(used[used > 0])
    most = int(most_schedules(rows.size))
    if used.size > most:
        evidence = old.seasonality.schedules["log_odds"][used]
        used = np.sort(used[np.argsort(-evidence, kind="stable")[:most]])
    return Numbers.of(np.concatenate([[0], used]), 1 + int(old.seasonality.state["schedules"][0]))


def _number_profiles(old: ShardArrays, groups: Numbers, pages: int) -> Numbers:
    """Return the numbers of profiles; the new number of one that goes is that of the next one above that stays."""
    profiles, records = old.seasonality.profiles[: int(old.seasonality.state["profiles"][0])], old.groups.records
    owners = profiles["group"]
    own = np.flatnonzero(owners != NO_GROUP)
    staying = own[groups.after[owners[own]] != GONE]
    most = int(most_profiles(pages))
    if staying.size > most:
        evidence = profiles["changes"][staying].sum(axis=1)
        staying = np.sort(staying[np.argsort(-evidence, kind="stable")[:most]])
    numbers = Numbers.of(np.concatenate([np.flatnonzero(owners == NO_GROUP), staying]), profiles.size)
    of_group = dict(zip(owners[staying].tolist(), staying.tolist(), strict=True))
    for number in np.setdiff1d(own, staying).tolist():
        group, taker = int(owners[number]), int(profiles["region"][number])
        while records["depth"][group] > 0:
            group = int(records["parent"][group])
            if group in of_group:
                taker = of_group[group]
                break
        numbers.after[number] = numbers.after[taker]
    return numbers


def _write_counts(old: ShardArrays, new: ShardArrays, numbers: dict[Numbered, Numbers], kept: Kept) -> None:
    """Write the records that a shard has one of, with the counts of what stays."""
    before, rows = old.corpus[0], np.sort(numbers[Numbered.PAGE].before)
    count = {kind: one.before.size for kind, one in numbers.items()}
    for name in ("corpus", "seasonality.state", "signals.state", "signals.kinds", "validators.state"):
        owner, _, field = name.rpartition(".")
        source = getattr(getattr(old, owner) if owner else old, field)
        getattr(getattr(new, owner) if owner else new, field)[:] = source
    for name in ("followed", "failed"):
        new.related.state[name] = old.related.state[name]
    corpus, halvings = new.corpus[0], _halvings(rows.size)
    corpus["pages"], corpus["groups"] = rows.size, count[Numbered.GROUP]
    corpus["domains"], corpus["text_end"], corpus["names_end"] = count[Numbered.DOMAIN], 0, 0
    corpus["halvings"] = halvings
    corpus["shadow_stride"] = _shadow_stride(rows.size)
    for name in ("sweep_row", "sweep_end"):
        corpus[name] = np.searchsorted(rows, before[name])
    if kept.hosts is not None:
        domains = old.groups.domains[: int(before["domains"])]
        gone = (numbers[Numbered.DOMAIN].after == GONE) & (domains["day"] == before["day"])
        corpus["day_visits"] -= int(domains["visits"][gone].sum())
    new.seasonality.state["schedules"] = count[Numbered.SCHEDULE] - 1
    new.seasonality.state["profiles"] = count[Numbered.PROFILE]
    new.signals.state["sources"] = count[Numbered.SOURCE]
    new.validators.state["blocks"] = count[Numbered.BLOCK]
    new.validators.state["pages"] = np.count_nonzero(old.pages.validators[rows])


def _write_profiles(old: ShardArrays, new: ShardArrays, numbers: dict[Numbered, Numbers]) -> None:
    """Add the counts of profiles that are gone to those above."""
    before, after = numbers[Numbered.PROFILE]
    for number in np.setdiff1d(np.arange(after.size), before).tolist():
        for name in _COUNTS:
            new.seasonality.profiles[name][after[number]] += old.seasonality.profiles[name][number]


def _write_groups(old: ShardArrays, new: ShardArrays, numbers: dict[Numbered, Numbers]) -> None:
    """Write the names and counts of groups and domains, and fold the sketch of URL patterns."""
    count, rows = numbers[Numbered.GROUP].before.size, np.sort(numbers[Numbered.PAGE].before)
    groups, domains = new.groups.records[:count], new.groups.domains[: int(new.corpus["domains"][0])]
    lengths = span_lengths(groups["name_span"])
    ends = np.cumsum(lengths)
    starts = (groups["name_span"] >> np.uint64(_SPAN_BITS)).astype(np.int64)
    total = int(ends[-1]) if count else 0
    new.groups.names[:total] = old.groups.names[np.repeat(starts - (ends - lengths), lengths) + np.arange(total)]
    groups["name_span"] = ((ends - lengths) << _SPAN_BITS | lengths).astype(np.uint64)
    groups["recheck_rows"] = np.searchsorted(rows, groups["recheck_rows"])
    groups["host_patterns"] = np.bincount(groups["host"][groups["depth"] > 0], minlength=count)
    domains["pages"] = np.bincount(new.groups.domain_of[:count], groups["pages"], domains.size)
    new.corpus["names_end"], new.corpus["domain_pages"] = total, groups["pages"].sum(dtype=np.int64)
    wide, space = int(candidate_space(int(old.corpus["pages"][0]))), int(candidate_space(rows.size))
    folded = old.groups.candidates[:wide].reshape(-1, space).sum(axis=0, dtype=np.int64)
    new.groups.candidates[:space] = np.minimum(folded, 255)


def _write_journal(old: ShardArrays, new: ShardArrays, numbers: dict[Numbered, Numbers]) -> None:
    """Write the visits of the pages that stay, the oldest first."""
    journaled, ring = int(old.corpus["journaled"][0]), old.journal
    visits = np.roll(ring, -(journaled % ring.size)) if journaled > ring.size else ring[:journaled].copy()
    visits = visits[numbers[Numbered.PAGE].after[visits["row"]] != GONE]
    new.journal[: visits.size] = renumber(BY_NAME["journal"], visits, numbers)
    new.corpus["journaled"] = visits.size


def _write_shadows(old: ShardArrays, new: ShardArrays, rows: Ints) -> None:
    """Write the shadows of the pages that are sampled now; one without a shadow begins with its own evidence."""
    sampled = rows[:: int(new.corpus["shadow_stride"][0])]
    stride = int(old.corpus["shadow_stride"][0])
    shadows = new.shadows[: sampled.size]
    for name, own in (("shape", "own_shape"), ("exposure", "own_exposure")):
        shadows[name] = old.pages.records[own][sampled][:, None]
    known = sampled % stride == 0
    shadows[known] = old.shadows[sampled[known] // stride]


def _write_texts(old: ShardArrays, new: PageTable, rows: Ints) -> None:
    """Keep the URLs of `rows`, in the order of their new rows."""
    for first, spans in _pieces(old.pages.traces["url_span"], rows):
        urls = pack_urls(old.pages.text, spans)
        new.reserve(Room(text=int(new.corpus["text_end"][0]) + urls.blob.size))
        arrays = new.arrays
        keep_texts(arrays.pages, arrays.groups, arrays.corpus, first, frozen(urls.blob), frozen(urls.offsets))


def _pieces(spans: Hashes, rows: Ints) -> Iterable[tuple[int, Hashes]]:
    for first in range(0, rows.size, _URLS):
        yield first, spans[rows[first : first + _URLS]]


def _halvings(pages: int) -> int:
    """Return how often a shard that grew to that many pages has halved its sample."""
    return max(-(-pages // SAMPLE_PAGES) - 1, 0).bit_length()


def _shadow_stride(pages: int) -> int:
    """Return the rows from one shadow to the next in a shard that grew to that many pages."""
    return 1 << max(-(-pages // SHADOW_PAGES) - 1, 0).bit_length()
