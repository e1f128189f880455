"""Why this URL: what a page's score is made of, said in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.periodicity import find_periodicity
from streamsched.estimation.surges import share_not_hit
from streamsched.formula import BLOCK
from streamsched.formula.champion import Champion
from streamsched.formula.terminals import PROVIDED, TerminalColumns, context_of
from streamsched.numerics.arrays import Floats, Hashes, Ints, Record
from streamsched.numerics.durations import format_duration, format_moment
from streamsched.numerics.topk_order import sort_keys, tie_keys
from streamsched.politeness.eligibility import are_eligible, describe_eligibility
from streamsched.politeness.leases import are_leased
from streamsched.politeness.limits import Limits
from streamsched.politeness.priority import read_overdue
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_index import url_text
from streamsched.records.url_patterns import group_name

__all__ = ["Explanation", "RankedBy", "explain_page"]

_WORTH_SAYING: Final = 0.01  # a probability, or by how much two differ
_UNEVEN: Final = 0.1  # share by which time differs when hours are weighed
_MOST_COUNTED: Final = 255  # failures in a row, in the byte of a page's record: it may have been more


@dataclass(frozen=True, slots=True)
class Explanation:
    """A page at one time. Times are UTC epoch seconds, None where there is none yet; rates are changes per cycle.

    ``eligible_from_s``: the earliest time from now on at which the page may be handed out, None where the clock alone
    does not tell it; ``position``: its place among the eligible pages, 1 the best (what is overdue or asked for
    is before all others), None while it is not eligible;
    ``pattern``: the URL pattern that its prior comes from; ``prior_rate``: the mean of the prior it was last given;
    ``terminals``: every terminal's value, whether the formula reads it or not; ``champion``: how the formula came to be
    the one in use; ``reasons``: why the page stands where it stands.
    """

    url: str
    host: str
    pattern: str
    formula: str
    champion: str
    score: float
    eligible: bool
    eligible_from_s: float | None
    position: int | None
    of_eligible: int
    terminals: dict[str, float]
    prior_rate: float
    prior_pages: int
    first_visited: bool
    last_visit_s: float | None
    last_outcome_s: float | None
    failures: int
    leased_until_s: float | None
    reasons: tuple[str, ...]
    in_batch: bool | None = None  # whether the next batch would have it, where that was asked

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON; a score that is not finite is None."""
        fields = asdict(self)
        fields["score"] = self.score if np.isfinite(self.score) else None
        fields["reasons"] = list(self.reasons)
        return fields

    def __str__(self) -> str:
        place = f"{self.position} of {self.of_eligible} eligible pages" if self.position else "not in the ranking"
        lines = [self.url, f"  score      {self.score:.6g} = {self.formula}", f"  formula    {self.champion}"]
        lines.append(f"  place      {place}")
        lines += [f"  because    {reason}" for reason in self.reasons]
        lines += [f"  {name:<10} {value:.6g}" for name, value in self.terminals.items()]
        return "\n".join(lines)


class RankedBy(NamedTuple):
    """What pages are ranked by, and which of them are."""

    champion: Champion
    ranking: FullScan
    limits: Limits


def explain_page(shard: ShardArrays, ranked: RankedBy, query: Query, row: int) -> Explanation:
    """Return the explanation of `row` at `query.now`. O(pages), for its place."""
    rows = np.array([row])
    page = shard.pages.records[row]
    now = query.now
    fill = TerminalColumns(PROVIDED, 1).fill
    context = context_of(shard.groups.records, shard.seasonality, rows)
    columns = fill(shard.pages.records[rows], shard.pages.traces[rows], context, now, query.cycle_s)
    terminals = {name: float(column[0]) for name, column in columns.items()}
    group = shard.groups.records[page["group"]]
    leased = bool(are_leased(shard, rows, now)[0])
    eligible = bool(are_eligible(shard, rows, now, ranked.limits)[0])
    from_s, standing = describe_eligibility(shard, row, now, ranked.limits)
    visited = bool(page["flags"] & VISITED)
    last_outcome_s = shard.pages.traces["last_outcome_s"][row]
    position, of_eligible = _place(shard, ranked, query, row)
    return Explanation(
        url=url_text(shard.pages, row),
        host=group_name(shard.groups, int(group["host"])),
        pattern=group_name(shard.groups, int(page["group"])),
        formula=ranked.champion.formula.text,
        champion=str(ranked.champion),
        score=float(ranked.ranking.score(shard, now, query.cycle_s, rows)[0]),
        eligible=eligible,
        eligible_from_s=from_s,
        position=position if eligible else None,
        of_eligible=of_eligible,
        terminals=terminals,
        prior_rate=_prior_rate(page),
        prior_pages=int(group["pages"]),
        first_visited=visited,
        last_visit_s=float(page["last_visit_s"]) if visited else None,
        last_outcome_s=float(last_outcome_s) if np.isfinite(last_outcome_s) else None,
        failures=int(page["failures"]),
        leased_until_s=float(shard.pages.lease_until_s[row]) if leased else None,
        reasons=(*standing, *_reasons(shard, query, row, terminals)),
    )


def _prior_rate(page: Record) -> float:
    """Return the mean of the prior that the page was last given."""
    return float(page["prior_shape"]) / float(page["prior_exposure"])


def _place(shard: ShardArrays, ranked: RankedBy, query: Query, row: int) -> tuple[int, int]:
    """Return the row's place among the eligible pages, were it one of them, and how many these are."""
    pages = int(shard.corpus["pages"][0])
    better = eligible = 0
    overdue_s, keys = _rank_keys(shard, ranked, query, np.array([row]))
    own = (overdue_s[0], keys[0], tie_keys(shard.pages.records["url_hash"][row : row + 1], query.salt)[0])
    for start in range(0, pages, BLOCK):
        rows = np.arange(start, min(start + BLOCK, pages))
        rows = rows[are_eligible(shard, rows, query.now, ranked.limits)]
        overdue_s, keys = _rank_keys(shard, ranked, query, rows)
        same = overdue_s == own[0]
        level = rows[same & (keys == own[1])]
        better += int(np.count_nonzero((overdue_s < own[0]) | (same & (keys > own[1]))))
        better += int(np.count_nonzero(tie_keys(shard.pages.records["url_hash"][level], query.salt) < own[2]))
        eligible += rows.size
    return better + 1, eligible


def _rank_keys(shard: ShardArrays, ranked: RankedBy, query: Query, rows: Ints) -> tuple[Floats, Hashes]:
    """Return the overdue times of ``rows``: int64[m], which come first, and the sort keys of the others' scores."""
    overdue_s = read_overdue(shard, rows, ranked.limits, query.now)
    keys = sort_keys(ranked.ranking.score(shard, query.now, query.cycle_s, rows))
    return overdue_s, np.where(overdue_s < np.inf, np.uint64(0), keys)


def _reasons(shard: ShardArrays, query: Query, row: int, terminals: dict[str, float]) -> list[str]:
    page = shard.pages.records[row]
    group = shard.groups.records[page["group"]]
    reasons = []
    since = format_duration(terminals["t"] * query.cycle_s)
    if page["flags"] & VISITED:
        when = f"{since} before now" if page["last_visit_s"] <= query.now else "later than now"
        reasons.append(f"last visited {format_moment(page['last_visit_s'])}, {when}")
        seen = f"{page['changes']} of {page['visits']} later visits saw a change" if page["visits"] else "visited once"
        reasons.append(f"{seen}; P(changed since) by its own rate is {terminals['posterior']:.3g}")
    else:
        reasons.append(f"never visited; known for {since}")
    pattern = group_name(shard.groups, int(page["group"]))
    reasons.append(
        f"rate {terminals['rate']:.3g} a cycle; without its own visits it would be taken for {_prior_rate(page):.3g}, "
        f"the prior of {pattern} ({group['pages']} {'page' if group['pages'] == 1 else 'pages'})"
    )
    reasons += _hours_since(terminals)
    reasons += _borne_surges(group, page, pattern)
    unseen = 1.0 - (1.0 - terminals["surge"]) / share_not_hit(group, page["last_visit_s"])
    if unseen >= _WORTH_SAYING:
        reasons.append(f"surges in {pattern} that no visit told of: P(hit since by one) is {unseen:.3g}")
    if shard.seasonality.links["schedule"][row]:
        reasons.append(str(find_periodicity(page, shard.seasonality, row)))
    if page["failures"]:
        visits = "visit" if page["failures"] == 1 else f"{page['failures']} visits"
        reasons.append(f"{'at least ' if page['failures'] == _MOST_COUNTED else ''}the last {visits} failed")
    return reasons


def _hours_since(terminals: dict[str, float]) -> list[str]:
    """Return what to say of the hours and days since the last visit, where these or a schedule make a difference."""
    busier = abs(terminals["tau"] - terminals["t"]) > _UNEVEN * terminals["t"]
    if not busier and abs(terminals["due"] - terminals["posterior"]) < _WORTH_SAYING:
        return []
    counted = f"by hours and days, {terminals['t']:.3g} cycles count for {terminals['tau']:.3g}"
    return [f"{counted}; P(changed since) by these is {terminals['due']:.3g}"]


def _borne_surges(group: Record, page: Record, pattern: str) -> list[str]:
    """Return what to say of the surges that the page's group shows and that the page may bear, the newest first."""
    return [
        f"visits to {pattern} from {format_moment(group[begin])} on tell of a surge: "
        f"of the pages not visited since, this one among them, {group[shown]:.0%} are taken for changed by it"
        for begin, shown in (("open_s", "open_share"), ("kept_s", "kept_share"))
        if group[shown] > 0.0 and page["last_visit_s"] < group[begin]
    ]
