"""Ingest: the kernel that applies a batch of outcomes to pages, in stream order."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.change_detection import (
    CHANGE,
    FAILURE,
    FIRST,
    NO_CONTENT,
    NO_EVIDENCE,
    NOT_COMPARED,
    SAME,
    ChangeRule,
    PageBefore,
    compare_content,
    count_evidence,
    detect_change,
    is_gone,
    is_success,
    pack_content,
    popcount,
    shows_content,
)
from streamsched.estimation.content import learn_significance, refresh_significance
from streamsched.estimation.gamma_posterior import ObservedInterval
from streamsched.estimation.hierarchical_prior import advance_sweep, refresh_prior
from streamsched.estimation.interval_update import update_estimators
from streamsched.estimation.related_pages import claim_related, drop_claims, is_claimed, kinds_to_claim
from streamsched.estimation.seasonality.group_profiles import refresh_link, store_utc_offset
from streamsched.estimation.seasonality.seasonality_update import prefetch_seasonality, update_seasonality
from streamsched.estimation.signal_update import begin_silence, has_source
from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints, Record
from streamsched.numerics.compilation.machine_operations import call, call_for_int, prefetch, prefetch_field
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.keyed_hash import keyed_hash
from streamsched.numerics.url_syntax import UrlStarts, is_absolute
from streamsched.outcomes import (
    CHANGED,
    CONTENT,
    COST,
    ETAG,
    FINGERPRINT,
    IMPORTANCE,
    LAST_MODIFIED,
    MOVED_TO,
    NOT_ATTEMPTED,
    NOT_BEFORE,
    RETRY_AFTER,
    ROBOTS_DENIED,
    SIGNIFICANCE,
    STATUS,
)
from streamsched.politeness.host_responses import (
    HostResponse,
    apply_host_response,
    demanded_wait,
    rest_end,
)
from streamsched.politeness.limits import Limits, ends_lease, give_back, release_slot
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row
from streamsched.records.group_schema import HOST_AT, SURGES_AT
from streamsched.records.page_schema import (
    DENIED,
    FOR_PANEL,
    LEASED,
    SUCCEEDED,
    URGENT,
    VISITED,
    WITH_FINGERPRINT,
    BoundLimits,
)
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_row
from streamsched.records.trial_counts import count_visit
from streamsched.records.url_index import LOOKUP_CHUNK, IndexArrays
from streamsched.records.url_store import prefetch_url
from streamsched.records.validators import ValidatorColumns
from streamsched.records.visit_journal import NO_EVIDENCE as WITHOUT
from streamsched.records.visit_journal import SAW_CHANGE, WAS_FIRST, record_visit
from streamsched.state.known_pages import NewUrl
from streamsched.state.lazy_kernels import LazyKernels
from streamsched.state.look_ahead import PREFETCHED, LookAhead, look_up, prefetch_page

# Positions in the counts that `apply_outcomes` adds to. An outcome counts as APPLIED, DUPLICATES, LATE or REFUSED, or
# as WRONG if its URL, or one that it names, is not absolute; an applied one also as one of CHANGES, FIRST_VISITS,
# FAILURES, UNCHANGED, UNPROVEN (no evidence of either), DENIALS and NOT_TRIED. SERVED are outcomes of pages leased for
# their score that show whether the page had changed, HITS those of them that found a change. MOVED are applied outcomes
# that name another URL.
APPLIED, CHANGES, FIRST_VISITS, FAILURES, DUPLICATES, LATE, UNCHANGED, SERVED, HITS = range(9)
REFUSED, DENIALS, NOT_TRIED, MOVED, UNPROVEN, WRONG = range(9, 15)
COUNTS: Final = 15

_AHEAD: Final = 12  # outcomes between prefetching a group and using it
_HOST_AHEAD: Final = 6  # ... its host, which the group names


class IngestRules(NamedTuple):
    """How outcomes are read: the cycle in seconds, how hashes decide, the limits of politeness, whether surges are
    learned, the bounds on pages, how their URLs begin, and the rarely needed kernels.
    """

    cycle_s: float
    change: ChangeRule
    limits: Limits
    surges: bool
    bounds: BoundLimits
    starts: UrlStarts
    lazy: LazyKernels


class OutcomeColumns(NamedTuple):
    """The columns of a batch for kernels; an absent one has length 0."""

    blob: Bytes
    offsets: Ints
    fetched_at: Floats
    given: npt.NDArray[np.uint16]
    status: npt.NDArray[np.int32]
    fingerprint: Hashes
    changed: Bools
    importance: Floats
    cost: Floats
    retry_after: Floats
    significance: Floats
    content: Hashes
    not_before: Floats
    moved_blob: Bytes
    moved_offsets: Ints  # of length 1 if absent
    validators: ValidatorColumns


class IngestCounts(NamedTuple):
    """What a batch did: ``counts``: int64[COUNTS], the rows whose scores it may have changed, and its changes.

    ``found``: float64[n, 3], of each change its place in the batch, the last visit before, UTC epoch seconds, and how
    much changed, NaN if unknown; ``verdicts``: uint8[n], of each applied outcome the position of its count besides
    APPLIED, of others what it was. Both are of length 0 if they are not wanted.
    """

    counts: Ints
    invalidated: InvalidationBuffer
    found: npt.NDArray[np.float64]
    verdicts: Bytes


@bare_kernel
def apply_outcomes(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays,
    index: IndexArrays,
    columns: OutcomeColumns,
    span: tuple[int, int],
    rules: IngestRules,
    ahead: LookAhead,
    result: IngestCounts,
) -> None:
    """Apply the outcomes from ``span[0]`` up to ``span[1]``, in order, and add to `result`. O(1) each.

    A new page gets the next row, for which the arrays must have room, or is refused. Rows are looked up `LOOKUP_CHUNK`
    outcomes at a time, few enough that their records are still in the core's own cache when the outcomes are applied.
    ``span[0]`` is a multiple of `LOOKUP_CHUNK`.
    """
    for start in range(span[0], span[1], LOOKUP_CHUNK):
        stop = min(start + LOOKUP_CHUNK, span[1])
        look_up(shard.pages, index, columns.blob, columns.offsets, (start, stop), ahead)
        _apply(shard, index, index.rows[: stop - start], start, columns, rules, result)


@bare_kernel
def _apply(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays,
    index: IndexArrays,
    rows: Ints,
    start: int,
    columns: OutcomeColumns,
    rules: IngestRules,
    result: IngestCounts,
) -> None:
    """Apply outcome ``start + i`` to ``rows[i]``, in order; a page that was unknown before is added first."""
    counts = result.counts
    for i in range(rows.size):
        _prefetch(shard, rows, columns.fetched_at[start : start + rows.size], i)
        at = start + i
        fetched_at = columns.fetched_at[at]
        if _is_wrong(columns, at, rows[i] < 0, rules.starts):
            counts[WRONG] += 1
            continue
        if rows[i] < 0:
            rows[i] = _add(shard, index, columns, at, rules)
            if rows[i] < 0:
                counts[REFUSED] += 1
                continue
        page: Record = shard.pages.records[rows[i]]
        trace: Record = shard.pages.traces[rows[i]]
        if fetched_at <= trace.last_outcome_s:
            counts[DUPLICATES if fetched_at == trace.last_outcome_s else LATE] += 1
            continue
        counts[APPLIED] += 1
        invalidate_row(result.invalidated, rows[i])
        leased = (page.flags & (LEASED | FOR_PANEL)) == LEASED
        outcome = _apply_one(shard, rows[i], at, columns, rules, result)
        counts[outcome] += 1
        if result.verdicts.size:
            result.verdicts[at] = outcome
        shard.corpus[0].newest_s = max(shard.corpus[0].newest_s, fetched_at)
        if leased and not page.flags & LEASED and outcome in (CHANGES, UNCHANGED):
            counts[SERVED] += 1
            counts[HITS] += outcome == CHANGES
            count_visit(shard.corpus[0], page, fetched_at, outcome == CHANGES)
        if columns.given[at] & MOVED_TO:
            counts[MOVED] += 1
            _discover_target(shard, index, columns, at, rules)


@inlined_kernel
def _is_wrong(columns: OutcomeColumns, at: int, is_unknown: bool, starts: UrlStarts) -> bool:
    """Return whether outcome `at` has or names a URL that is not absolute. That of a known page was checked before."""
    if is_unknown and not is_absolute(columns.blob, columns.offsets[at], columns.offsets[at + 1], starts):
        return True
    if not columns.given[at] & MOVED_TO:
        return False
    return not is_absolute(columns.moved_blob, columns.moved_offsets[at], columns.moved_offsets[at + 1], starts)


@bare_kernel
def _add(shard: ShardArrays, index: IndexArrays, columns: OutcomeColumns, at: int, rules: IngestRules) -> int:
    """Return the row of the page of outcome `at`, which was unknown: a new one, or NOT_FOUND if it is refused."""
    start, stop = columns.offsets[at], columns.offsets[at + 1]
    hash_: Any = keyed_hash(index.key, columns.blob, start, stop)
    url = NewUrl(columns.blob, start, stop, hash_)
    return call_for_int(rules.lazy.add_page, (shard, index, url, columns.fetched_at[at], rules.bounds))


@inlined_kernel
def _prefetch(shard: ShardArrays, rows: Ints, fetched_at: Floats, i: int) -> None:
    """Prefetch what the outcomes after number `i` of a chunk will use, page by page in the order of dependence."""
    if i + PREFETCHED < rows.size:
        prefetch_page(shard.pages, rows[i + PREFETCHED])
    if i + _AHEAD < rows.size and rows[i + _AHEAD] >= 0:
        soon: Record = shard.pages.records[rows[i + _AHEAD]]
        group = np.int64(soon.group)
        prefetch(shard.groups.records, group)
        prefetch_field(shard.groups.records, group, SURGES_AT)
        prefetch(shard.seasonality.of_group, group)
        prefetch(shard.seasonality.links, rows[i + _AHEAD])
        if shard.validators.state[0].pages > 0:
            prefetch(shard.pages.validators, rows[i + _AHEAD])
        if rows[i + _AHEAD] < shard.pages.contents.size:
            prefetch(shard.pages.contents, rows[i + _AHEAD])
        if soon.flags & LEASED:
            prefetch(shard.pages.lease_until_s, rows[i + _AHEAD])
            prefetch(shard.pages.lease_s, rows[i + _AHEAD])
    if i + _HOST_AHEAD < rows.size and rows[i + _HOST_AHEAD] >= 0:
        near: Record = shard.pages.records[rows[i + _HOST_AHEAD]]
        deepest: Record = shard.groups.records[near.group]
        prefetch_field(shard.groups.records, np.int64(deepest.host), HOST_AT)
        prefetch(shard.groups.records, np.int64(deepest.parent))
        prefetch_seasonality(shard.seasonality, rows[i + _HOST_AHEAD], near, fetched_at[i + _HOST_AHEAD])
        _prefetch_keys(shard, rows[i + _HOST_AHEAD])


@inlined_kernel
def _prefetch_keys(shard: ShardArrays, row: int) -> None:
    """Prefetch the URL of a page with claims: its keys are found by it."""
    if is_claimed(shard.seasonality.links[row]):
        trace: Record = shard.pages.traces[row]
        prefetch_url(shard.pages.text, trace.url_span)


@bare_kernel
def _discover_target(
    shard: ShardArrays, index: IndexArrays, columns: OutcomeColumns, at: int, rules: IngestRules
) -> None:
    """Add the URL that outcome `at` names as a page never visited, unless it is known or refused. O(URL)."""
    start, stop = columns.moved_offsets[at], columns.moved_offsets[at + 1]
    hash_: Any = keyed_hash(index.key, columns.moved_blob, start, stop)
    url = NewUrl(columns.moved_blob, start, stop, hash_)
    call_for_int(rules.lazy.add_page, (shard, index, url, columns.fetched_at[at], rules.bounds))


@inlined_kernel
def _apply_one(
    shard: ShardArrays, row: int, at: int, columns: OutcomeColumns, rules: IngestRules, result: IngestCounts
) -> int:
    """Apply an outcome newer than all of its page's; return the position of its count besides APPLIED."""
    corpus: Record = shard.corpus[0]
    invalidated = result.invalidated
    groups, seasonality, dirty = shard.groups.records, shard.seasonality, shard.dirty
    page: Record = shard.pages.records[row]
    trace: Record = shard.pages.traces[row]
    given = columns.given[at]
    group: Record = groups[page.group]
    host: Record = groups[group.host]
    mark_dirty_row(dirty, shard.pages, seasonality, row)
    mark_dirty_group(dirty, groups, np.int64(page.group))
    mark_dirty_group(dirty, groups, np.int64(group.host))
    fetched_at = columns.fetched_at[at]
    status: Any = columns.status[at] if given & STATUS else np.int32(200)
    answers = ends_lease(shard.pages, row, rules.limits, fetched_at)
    if status in (NOT_ATTEMPTED, ROBOTS_DENIED):
        return _apply_without_visit(shard, row, host, fetched_at, status, answers)
    retry_after = columns.retry_after[at] if given & RETRY_AFTER else 0.0
    wait_s = demanded_wait(rules.limits, given, status, retry_after)
    newest_s = corpus.newest_s if corpus.newest_s > -np.inf else fetched_at
    response = HostResponse(row, status, wait_s, fetched_at, answers, newest_s)
    rests = apply_host_response(host, page, trace, rules.limits, response)
    trace.last_outcome_s = trace.last_attempt_s = fetched_at
    if answers:
        release_slot(page, host)
    page.flags &= ~np.uint8(DENIED | LEASED | FOR_PANEL | URGENT if answers else DENIED)
    corpus.applied += 1
    _refresh(shard, row, host)  # for any outcome, while the records are in cache
    _store_weights(page, given, columns, at)
    fingerprint = columns.fingerprint[at] if given & FINGERPRINT else np.uint64(0)
    changed = columns.changed[at] if given & CHANGED else False
    verdict = _detect_change(
        page, trace, given, status, fingerprint, changed, rules.change, _compare_content(shard, row, columns, at)
    )
    rests_alone = verdict == FAILURE and wait_s >= 0.0 and not rests
    until_s = rest_end(response, wait_s, rules.limits.retry_after_most_s) if rests_alone else -np.inf
    _keep_back(shard, row, columns, at, until_s)
    if verdict == FAILURE:
        return _apply_failure(shard, row)
    if verdict not in (FIRST, NO_EVIDENCE):
        cycles = (fetched_at - page.last_visit_s) / rules.cycle_s
        observed = ObservedInterval(fetched_at, cycles, rules.cycle_s, verdict == CHANGE)
        _learn(shard, row, observed, rules, invalidated)
    else:
        _begin_interval(shard, row, fetched_at, rules.cycle_s)
    if verdict == CHANGE:
        _learn_change(shard, row, columns, at, result)
    renewed = verdict in (CHANGE, NO_EVIDENCE)
    _store_visit(page, trace, status, renewed, shows_content(given, status, FINGERPRINT), fingerprint)
    _store_content(shard, row, columns, at, status, renewed)
    _keep_validators(shard, row, at, columns, is_success(status), verdict == SAME, rules.lazy.keep_validators)
    page.last_visit_s = fetched_at
    store_utc_offset(seasonality, row, fetched_at)
    return _count_visit(shard, row, fetched_at, verdict, rules)


@inlined_kernel
def _count_visit(shard: ShardArrays, row: int, fetched_at: float, verdict: int, rules: IngestRules) -> int:
    """Count an informative visit in the journal and the corpus; return the position of its count."""
    corpus: Record = shard.corpus[0]
    flags = SAW_CHANGE * (verdict == CHANGE) + WAS_FIRST * (verdict == FIRST) + WITHOUT * (verdict == NO_EVIDENCE)
    record_visit(shard.journal, corpus, row, fetched_at, flags)
    if verdict == FIRST:
        return FIRST_VISITS
    count_evidence(corpus, verdict)
    if verdict == NO_EVIDENCE:
        return UNPROVEN
    advance_sweep(shard, rules.lazy.step_sweep)
    return CHANGES if verdict == CHANGE else UNCHANGED


@inlined_kernel
def _refresh(shard: ShardArrays, row: int, host: Record) -> None:
    """Bring what a page has from its groups up to date: prior, profile and expected significance. O(1)."""
    page: Record = shard.pages.records[row]
    corpus: Record = shard.corpus[0]
    refresh_prior(page, corpus, shard.groups.records)
    refresh_link(shard.seasonality, row, page, corpus.sweep)
    refresh_significance(shard.seasonality.links[row], corpus, host)


@inlined_kernel
def _begin_interval(shard: ShardArrays, row: int, fetched_at: float, cycle_s: float) -> None:
    """End what was said of a page before a visit that does not show whether it was right. O(1)."""
    link: Record = shard.seasonality.links[row]
    if is_claimed(link):
        drop_claims(link)
    if has_source(shard.pages, row):
        begin_silence(shard, row, fetched_at, cycle_s, 0.0)


@inlined_kernel
def _learn(
    shard: ShardArrays, row: int, observed: ObservedInterval, rules: IngestRules, invalidated: InvalidationBuffer
) -> None:
    """Learn from an observed interval of a page, whose record is as before the visit. O(1), O(members) at a change."""
    corpus: Record = shard.corpus[0]
    due = update_seasonality(shard, row, observed, rules.lazy.update_own_schedule)
    link: Record = shard.seasonality.links[row]
    if (observed.changed or is_claimed(link)) and shard.related.state[0].joined < corpus.pages:
        call(rules.lazy.join_pages, (shard, corpus.pages))
    unexplained = update_estimators(shard, row, observed, due, rules.surges, invalidated)
    kinds = kinds_to_claim(shard.related, corpus, link) if rules.surges and observed.changed else 0
    if kinds:
        claim_related(shard, row, observed, unexplained, kinds, invalidated)


@inlined_kernel
def _apply_without_visit(
    shard: ShardArrays, row: int, host: Record, fetched_at: float, status: int, answers: bool
) -> int:
    """Apply an outcome without a visit, which ends the lease if it `answers` it.

    Return the position of its count besides APPLIED.
    """
    page: Record = shard.pages.records[row]
    shard.pages.traces[row].last_outcome_s = fetched_at
    if answers:
        give_back(shard.pages, row, host)
    if status == NOT_ATTEMPTED:
        return NOT_TRIED
    if answers:
        page.flags &= ~np.uint8(URGENT)
    page.flags |= np.uint8(DENIED)
    shard.corpus[0].applied += 1
    return DENIALS


@inlined_kernel
def _keep_back(shard: ShardArrays, row: int, columns: OutcomeColumns, at: int, until_s: float) -> None:
    """Keep a page back until `until_s`, or the time that outcome `at` names if that is no earlier. O(1)."""
    page: Record = shard.pages.records[row]
    if page.flags & LEASED:
        return  # its time is the end of the lease
    if columns.given[at] & NOT_BEFORE and columns.not_before[at] >= until_s:
        until_s = -columns.not_before[at]
    shard.pages.lease_until_s[row] = until_s


@inlined_kernel
def _apply_failure(shard: ShardArrays, row: int) -> int:
    """Count a failed visit; return the position of its count."""
    page: Record = shard.pages.records[row]
    shard.corpus[0].failures += 1
    if page.failures < 0xFF:
        page.failures += 1
    return FAILURES


@inlined_kernel
def _store_weights(page: Record, given: int, columns: OutcomeColumns, at: int) -> None:
    """Store the importance and the cost of a page, if outcome `at` has them. A cost of 0 is no price of a visit."""
    if given & IMPORTANCE:
        page.importance = columns.importance[at]
    if given & COST and np.float32(columns.cost[at]) > 0.0:
        page.cost = columns.cost[at]


@inlined_kernel
def _keep_validators(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays, row: int, at: int, columns: OutcomeColumns, succeeded: bool, same: bool, keep: int
) -> None:
    """Store the validators that outcome `at` has of a page, by the kernel `keep`. O(1), O(bytes) if there are any.

    If the content is the `same`, those that are not reported stay. An answer that has not `succeeded` removes all.
    """
    given = columns.given[at] & np.uint16(ETAG | LAST_MODIFIED)
    if given or shard.validators.state[0].pages > 0:
        reported = np.int64(given) if succeeded else np.int64(0)
        heads, texts = shard.pages.validators, shard.pages.validator_texts
        call(keep, (heads, texts, shard.validators, row, columns.validators, at, reported, succeeded and same))


@inlined_kernel
def _detect_change(  # noqa: PLR0913, PLR0917  a kernel
    page: Record,
    trace: Record,
    given: int,
    status: int,
    fingerprint: int,
    changed: bool,
    rule: ChangeRule,
    contents: int,
) -> int:
    """Return the verdict on an outcome, compared with what the page's records hold of the visit before."""
    return detect_change(
        given,
        status,
        fingerprint,
        changed,
        PageBefore(
            (page.flags & VISITED) != 0,
            (page.flags & SUCCEEDED) != 0,
            (page.flags & WITH_FINGERPRINT) != 0,
            trace.fingerprint,
            contents,
        ),
        rule,
    )


@inlined_kernel
def _compare_content(shard: ShardArrays, row: int, columns: OutcomeColumns, at: int) -> int:
    """Return how the `content` of outcome `at` compares with that of the page. O(1)."""
    given = columns.given[at]
    if not given & CONTENT or row >= shard.pages.contents.size:
        return NOT_COMPARED
    return compare_content(given, columns.content[at], shard.pages.contents[row])


@inlined_kernel
def _store_content(shard: ShardArrays, row: int, columns: OutcomeColumns, at: int, status: int, renewed: bool) -> None:
    """Store the `content` of an informative visit; if it has none, that of the page stays unless it is `renewed`."""
    contents = shard.pages.contents
    if row < contents.size and is_success(status):
        if shows_content(columns.given[at], status, CONTENT):
            contents[row] = pack_content(columns.content[at])
        elif renewed:
            contents[row] = NO_CONTENT


@inlined_kernel
def _learn_significance(shard: ShardArrays, row: int, columns: OutcomeColumns, at: int) -> float:
    """Learn how much of a page changed by outcome `at`, and return it, NaN if unknown.

    The page's record is as before the visit.
    """
    page: Record = shard.pages.records[row]
    given, compared = columns.given[at], np.uint8(SUCCEEDED | WITH_FINGERPRINT)
    if given & SIGNIFICANCE:
        significance: float = columns.significance[at]
    elif page.flags & compared == compared and shows_content(
        given, columns.status[at] if given & STATUS else 200, FINGERPRINT
    ):
        significance = popcount(columns.fingerprint[at] ^ shard.pages.traces[row].fingerprint) / 64.0
    else:
        return np.nan
    group: Record = shard.groups.records[page.group]
    learn_significance(shard.seasonality.links[row], shard.corpus[0], shard.groups.records[group.host], significance)
    return significance


@inlined_kernel
def _learn_change(shard: ShardArrays, row: int, columns: OutcomeColumns, at: int, result: IngestCounts) -> None:
    """Learn how much of a page changed by outcome `at`, and note the change if that is wanted. O(1)."""
    significance = _learn_significance(shard, row, columns, at)
    if result.found.size:
        found = result.found[result.counts[CHANGES]]
        found[0], found[1], found[2] = at, shard.pages.records[row].last_visit_s, significance


@inlined_kernel
def _store_visit(page: Record, trace: Record, status: int, renewed: bool, shows: bool, fingerprint: int) -> None:
    """Store what the next visit is compared with; `renewed`: the content that was stored is gone, or may be."""
    page.failures = 0
    page.gone = min(page.gone + 1, 255) if is_gone(status) else 0
    page.flags |= np.uint8(VISITED)
    if is_success(status):
        page.flags |= np.uint8(SUCCEEDED)
        if renewed:
            page.flags &= ~np.uint8(WITH_FINGERPRINT)  # set again below if there is a new one
    else:
        page.flags &= ~np.uint8(SUCCEEDED)
    if shows and not page.flags & WITH_FINGERPRINT:  # else that of the last change stays, so that slow drift adds up
        page.flags |= np.uint8(WITH_FINGERPRINT)
        trace.fingerprint = fingerprint
