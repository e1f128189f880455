"""Sentences of reasons, for people: one template for each `ReasonCode`. Programs compare codes and fields instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from streamsched.api.views import finite
from streamsched.numerics.durations import format_date, format_duration, format_moment
from streamsched.outcomes import NEVER_S
from streamsched.politeness.limits import HOST_CAUSES
from streamsched.reasons import Reason, ReasonCode

_Fields: TypeAlias = Mapping[str, Any]

_KEYS: Final = {"name": "the same name", "token": "the same first token", "directory": "the same directory"}
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HOST_CAUSES: Final = dict(HOST_CAUSES.values())
_MERITS: Final = {"score": "its score would suffice", "asked_for": "it was asked for", "overdue": "it is overdue"}
_TAKEN_BY: Final = {  # for one page, and for several
    "lower_score": ("page with a lower score", "pages with lower scores"),
    "higher_score": ("page with a higher score", "pages with higher scores"),
    "equal_score": ("page with the same score", "pages with the same score"),
    "panel": ("member of the panel", "members of the panel"),
    "asked_for": ("page that was asked for", "pages that were asked for"),
    "overdue": ("overdue page", "overdue pages"),
    "new_share": ("page never visited before", "pages never visited before"),
    "exploration": ("page drawn at random", "pages drawn at random"),
    "surge_probe": ("surge probe", "surge probes"),
    "trial": ("page that the challenger chose", "pages that the challenger chose"),
}
_TIE_LOST: Final = "this cycle's random order put it later"


def describe_reason(reason: Reason) -> str:
    """Return the reason as a sentence, without a full stop.

    >>> describe_reason(Reason(ReasonCode.PANEL_MEMBER, {"share": 0.05}))
    'in the panel: visited every cycle, with 5% of the pages leased'
    """
    return _TEMPLATES[reason.code](reason.fields)


def describe_reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons with their sentences, for readers; a number that is not finite is None."""
    return tuple(Reason(one.code, _plain(one.fields), describe_reason(one)) for one in reasons)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return finite(value) if isinstance(value, float) else value


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _until(fields: _Fields) -> str:
    return f"until {format_moment(fields['until_s'])}, {format_duration(fields['wait_s'])} from now"


def _host_resting(fields: _Fields) -> str:
    cause = _HOST_CAUSES.get(fields["cause"])
    return f"not eligible: {fields['host']} rests {_until(fields)}" + (f", {cause}" if cause else "")


def _host_full(fields: _Fields) -> str:
    return (
        f"not eligible: {fields['host']} has {_count(fields['out'], 'page')} in flight; its limit is {fields['limit']}"
    )


def _once_eligible(fields: _Fields) -> str:
    return ", once it is eligible" if fields["waiting"] else ""


def _in_batch(fields: _Fields) -> str:
    return f"in the next batch of {fields['k']:,}"


def _absent(fields: _Fields, why: str) -> str:
    return f"not in the next batch of {fields['k']:,}: {why}"


def _taken_by(fields: _Fields) -> str:
    counts: dict[str, int] = fields["taken_by"]
    pages = ", ".join(f"{count:,} {_TAKEN_BY[ground][count > 1]}" for ground, count in counts.items())
    return pages + (f", and {_TIE_LOST}" if fields["tie_lost"] else "")


def _host_share_used(fields: _Fields) -> str:
    places = sum(fields["taken_by"].values())
    taken = f"{'has' if places == 1 else 'have'} gone to {_taken_by(fields)}"
    probing = "; after its rest it gives one page at first" if fields["probing"] else ""
    return _absent(fields, f"{_count(places, 'place')} of {fields['host']} {taken}{probing}")


def _domain_share_used(fields: _Fields) -> str:
    had = f"{fields['visits']:,} of the day's {fields['of_visits']:,} visits, at most {fields['allowed']:,}"
    return _absent(fields, f"its domain {fields['domain']} has had its share of visits: {had}")


def _displaced(fields: _Fields) -> str:
    quotas = "pages never visited before or drawn at random"
    others = f"a surge probe or to the shares of {quotas}" if fields["surge_probes"] else f"the shares of {quotas}"
    return _absent(fields, f"{_MERITS[fields['merit']]}, but its place goes to {others}")


def _last_visited(fields: _Fields) -> str:
    when = "later than now" if fields["in_future"] else f"{format_duration(fields['elapsed_s'])} before now"
    return f"last visited {format_moment(fields['last_visit_s'])}, {when}"


def _changes_seen(fields: _Fields) -> str:
    visits = fields["visits"]
    seen = f"{fields['changes']} of {_count(visits, 'later visit')} saw a change" if visits else "visited once"
    return f"{seen}; P(changed since) from its own rate is {fields['probability']:.3g}"


def _prior(fields: _Fields) -> str:
    pages = _count(fields["pages"], "page")
    return (
        f"rate {fields['rate_per_cycle']:.3g} per cycle; without its own visits "
        f"{fields['prior_rate_per_cycle']:.3g}, the prior of {fields['pattern']} ({pages}); what its visits have shown "
        f"counts half after {fields['half_life_s'] / 86_400.0:.0f} days"
    )


def _change_rate(fields: _Fields) -> str:
    about, low, high = (f"{fields[name]:.2g}" for name in ("changes_per_day", "low_per_day", "high_per_day"))
    return f"about {about} changes a day, between {low} and {high} ({fields['probability']:.0%} probable)"


def _seasonality(fields: _Fields) -> str:
    elapsed, weighted = fields["elapsed_cycles"], fields["weighted_cycles"]
    return (
        f"weighted by hours and days, {elapsed:.3g} cycles count as {weighted:.3g}; "
        f"P(changed since) with this weighting is {fields['probability']:.3g}"
    )


def _surge_shown(fields: _Fields) -> str:
    return (
        f"visits to {fields['pattern']} from {format_moment(fields['since_s'])} on show a surge: "
        f"{fields['share']:.0%} of the pages not visited since, this one included, are estimated to have changed in it"
    )


def _unseen_surges(fields: _Fields) -> str:
    return f"surges in {fields['pattern']} that no visit has shown: P(hit by one since) is {fields['probability']:.3g}"


def _related_changed(fields: _Fields) -> str:
    names = " and of ".join(_KEYS[key] for key in fields["keys"])
    return (
        f"related pages changed, of {names}: P(this one followed since its last visit) is {fields['probability']:.3g}"
    )


def _announced(fields: _Fields) -> str:
    right = "no visit has checked it yet"
    if fields["precision"] is not None:
        right = f"it was right in {fields['precision']:.0%} of {_count(fields['signals'], 'signal')}"
    return (
        f"{fields['kind']} of {fields['host']} says since {format_moment(fields['since_s'])} that it has changed: "
        f"{right}; P(a signal since the last visit is true) is {fields['probability']:.3g}"
    )


def _periodicity(fields: _Fields) -> str:
    kind = fields["kind"]
    if kind == "poisson":
        return "its changes show no schedule"
    named = ", ".join(_DAYS[day] for day in fields["days"]) or "some days"
    period = kind if kind in ("hourly", "daily") else f"on {named}"
    hour = "" if fields["hour"] is None else _hour(fields)
    return f"updated {period}{hour} (p = {fields['p_value']:.2g})"


def _hour(fields: _Fields) -> str:
    hour, offset = fields["hour"], fields["utc_offset_minutes"]
    hours, minutes = divmod(abs(offset), 60)
    zone = f"{'+' if offset > 0 else '-'}{hours}{f':{minutes:02d}' if minutes else ''}" if offset else ""
    return f", most likely from {hour:02d}:00 to {hour:02d}:59 UTC{zone}"


def _failed_visits(fields: _Fields) -> str:
    failures = fields["failures"]
    visits = "visit" if failures == 1 else f"{failures} visits"
    return f"{'at least ' if fields['at_least'] else ''}the last {visits} failed"


def _planned(fields: _Fields) -> str:
    plan = f"by {fields['policy']} at {format_moment(fields['planned_at_s'])}"
    if fields["every_s"] is not None:
        return f"planned every {format_duration(fields['every_s'])} {plan}"
    return f"no visits planned {plan}" + ("" if fields["known"] else ", before the page was known")


_TEMPLATES: Final[Mapping[str, Callable[[_Fields], str]]] = {
    ReasonCode.NEVER_BY_RULE: lambda fields: "not eligible: its rule says never to visit it",
    ReasonCode.ROBOTS_DENIED: lambda fields: (
        "not eligible: robots.txt forbids it, until another outcome of it comes or a visit is asked for"
    ),
    ReasonCode.CATCHING_UP: lambda fields: (
        f"not leased yet: outcomes of {fields['partition']} that were there when this host took it over are being read"
    ),
    ReasonCode.LEASED: lambda fields: f"not eligible: leased {_until(fields)}",
    ReasonCode.HOST_RESTING: _host_resting,
    ReasonCode.HOST_PROBING: lambda fields: (
        f"not eligible: {fields['host']} rested and gives no other page before the outcome of {fields['probe']}, "
        f"at the latest {_until(fields)}"
    ),
    ReasonCode.HOST_FULL: _host_full,
    ReasonCode.BELOW_MIN_REVISIT: lambda fields: (
        f"not eligible: visited less than its minimum interval ago, waits {_until(fields)}"
    ),
    ReasonCode.BACKING_OFF: lambda fields: (
        f"not eligible: backing off {_until(fields)}, after {_count(fields['failures'], 'failed visit')}"
    ),
    ReasonCode.RETRY_AFTER: lambda fields: (
        f"not eligible: rests {_until(fields)}, as the Retry-After header of its last answer asked"
    ),
    ReasonCode.NOT_BEFORE: lambda fields: (
        "not eligible: its crawler wants no further visit, unless it is asked for"
        if fields["until_s"] == NEVER_S
        else f"not eligible: its crawler wants no visit {_until(fields)}"
    ),
    ReasonCode.RETIRED: lambda fields: (
        f"not eligible: retired after {_count(fields['gone_answers'], 'answer')} of 404 or 410, "
        f"not probed again {_until(fields)}"
    ),
    ReasonCode.UNKNOWN: lambda fields: "not eligible: it is not known",
    ReasonCode.ASKED_FOR: lambda fields: (
        f"asked for: ranks before others until its next outcome{_once_eligible(fields)}"
    ),
    ReasonCode.OVERDUE: lambda fields: (
        f"overdue since {format_moment(fields['since_s'])}: ranks before others{_once_eligible(fields)}"
    ),
    ReasonCode.IN_BATCH_BY_SCORE: lambda fields: (
        f"{_in_batch(fields)}: by its score; place {fields['place']:,} of the batch, likeliest changes first"
    ),
    ReasonCode.IN_BATCH_PANEL: lambda fields: f"{_in_batch(fields)}: as a member of the panel",
    ReasonCode.IN_BATCH_ASKED_FOR: lambda fields: f"{_in_batch(fields)}: because it was asked for",
    ReasonCode.IN_BATCH_OVERDUE: lambda fields: f"{_in_batch(fields)}: because it is overdue",
    ReasonCode.IN_BATCH_NEW_SHARE: lambda fields: f"{_in_batch(fields)}: in the share of pages never visited before",
    ReasonCode.IN_BATCH_EXPLORATION: lambda fields: (
        f"{_in_batch(fields)}: drawn at random, in the share for exploration"
    ),
    ReasonCode.IN_BATCH_SURGE_PROBE: lambda fields: (
        f"{_in_batch(fields)}: as a surge probe, to see whether a surge has hit the other pages of its URL pattern"
    ),
    ReasonCode.IN_BATCH_TRIAL: lambda fields: f"{_in_batch(fields)}: by the score of the challenger in a trial",
    ReasonCode.IN_BATCH_GRANTED: lambda fields: f"{_in_batch(fields)}: because the caller named it",
    ReasonCode.OUTRANKED: lambda fields: _absent(
        fields, f"its score is below that of the last page in it, {fields['lowest_score']:.6g}"
    ),
    ReasonCode.TIE_LOST: lambda fields: _absent(
        fields, f"its score equals that of the last page in it, and {_TIE_LOST}"
    ),
    ReasonCode.BATCH_FULL: lambda fields: _absent(fields, f"all its places go to {_taken_by(fields)}"),
    ReasonCode.HOST_SHARE_USED: _host_share_used,
    ReasonCode.DOMAIN_SHARE_USED: _domain_share_used,
    ReasonCode.DISPLACED: _displaced,
    ReasonCode.LAST_VISITED: _last_visited,
    ReasonCode.NEVER_VISITED: lambda fields: f"never visited; known for {format_duration(fields['known_for_s'])}",
    ReasonCode.CHANGES_SEEN: _changes_seen,
    ReasonCode.PRIOR: _prior,
    ReasonCode.CHANGE_RATE: _change_rate,
    ReasonCode.SEASONALITY: _seasonality,
    ReasonCode.SURGE_SHOWN: _surge_shown,
    ReasonCode.UNSEEN_SURGES: _unseen_surges,
    ReasonCode.RELATED_CHANGED: _related_changed,
    ReasonCode.ANNOUNCED: _announced,
    ReasonCode.PERIODICITY: _periodicity,
    ReasonCode.NO_EVIDENCE: lambda fields: (
        f"{fields['share']:.0%} of the visits, of any page, say that it was fetched and nothing about a change"
    ),
    ReasonCode.FAILED_VISITS: _failed_visits,
    ReasonCode.PANEL_MEMBER: lambda fields: (
        f"in the panel: visited every cycle, with {fields['share']:.0%} of the pages leased"
    ),
    ReasonCode.IN_TRIAL: lambda fields: (
        f"in a trial since {format_date(fields['since_s'])}: ranked by {fields['formula']}, not by the champion"
    ),
    ReasonCode.PLANNED: _planned,
}
