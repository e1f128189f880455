"""Every code has a template and a row in docs/reasons.md; one sentence each, and those that depend on a field."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import pytest

from streamsched.reasons import Reason, ReasonCode
from streamsched.scheduler.reason_text import describe_reason, describe_reasons

DAY = 86_400.0
DOCS = Path(__file__).parents[3] / "docs" / "reasons.md"
WAIT = {"until_s": DAY, "wait_s": 90.0}
PLACE = {"k": 1000, "place": 1234}
UNTIL = "until 1970-01-02 00:00:00 UTC, 1.5 min from now"
ABSENT = "not in the next batch of 1,000:"
PLANNED = {
    "policy": "lambdacrawl",
    "planned_at_s": 33_120.0,
    "known": True,
    "visits_per_cycle": 1 / 3,
    "every_s": 3 * DAY,
}
PERIODIC = {"kind": "other", "p_value": 0.001, "days": [0, 4], "hour": 9, "utc_offset_minutes": -210}
PROBING = "as a surge probe, to see whether a surge has hit the other pages of its URL pattern"

SENTENCES = [
    (Reason(ReasonCode.NEVER_BY_RULE), "not eligible: its rule says never to visit it"),
    (
        Reason(ReasonCode.CATCHING_UP, {"partition": "kafka://outcomes/3"}),
        "not leased yet: outcomes of kafka://outcomes/3 that were there when this host took it over are being read",
    ),
    (Reason(ReasonCode.LEASED, WAIT), f"not eligible: leased {UNTIL}"),
    (
        Reason(ReasonCode.HOST_RESTING, {"host": "a.example", "cause": "too_many_requests", **WAIT}),
        f"not eligible: a.example rests {UNTIL}, because it answered 429",
    ),
    (
        Reason(ReasonCode.HOST_PROBING, {"host": "a.example", "probe": "https://a.example/1", **WAIT}),
        (
            "not eligible: a.example rested and gives no other page before the outcome of https://a.example/1, "
            f"at the latest {UNTIL}"
        ),
    ),
    (
        Reason(ReasonCode.ROBOTS_DENIED, {}),
        "not eligible: robots.txt forbids it, until another outcome of it comes or a visit is asked for",
    ),
    (
        Reason(ReasonCode.HOST_FULL, {"host": "a.example", "out": 1, "limit": 1}),
        "not eligible: a.example has 1 page in flight; its limit is 1",
    ),
    (
        Reason(ReasonCode.BELOW_MIN_REVISIT, WAIT),
        f"not eligible: visited less than its minimum interval ago, waits {UNTIL}",
    ),
    (
        Reason(ReasonCode.BACKING_OFF, {"failures": 2, **WAIT}),
        f"not eligible: backing off {UNTIL}, after 2 failed visits",
    ),
    (
        Reason(ReasonCode.RETRY_AFTER, WAIT),
        f"not eligible: rests {UNTIL}, as the Retry-After header of its last answer asked",
    ),
    (
        Reason(ReasonCode.NOT_BEFORE, WAIT),
        f"not eligible: its crawler wants no visit {UNTIL}",
    ),
    (
        Reason(ReasonCode.RETIRED, {"gone_answers": 1, **WAIT}),
        f"not eligible: retired after 1 answer of 404 or 410, not probed again {UNTIL}",
    ),
    (Reason(ReasonCode.UNKNOWN), "not eligible: it is not known"),
    (Reason(ReasonCode.ASKED_FOR, {"waiting": False}), "asked for: ranks before others until its next outcome"),
    (
        Reason(ReasonCode.OVERDUE, {"since_s": 0.0, "waiting": True}),
        "overdue since 1970-01-01 00:00:00 UTC: ranks before others, once it is eligible",
    ),
    (
        Reason(ReasonCode.IN_BATCH_BY_SCORE, PLACE),
        "in the next batch of 1,000: by its score; place 1,234 of the batch, likeliest changes first",
    ),
    (Reason(ReasonCode.IN_BATCH_PANEL, PLACE), "in the next batch of 1,000: as a member of the panel"),
    (Reason(ReasonCode.IN_BATCH_ASKED_FOR, PLACE), "in the next batch of 1,000: because it was asked for"),
    (Reason(ReasonCode.IN_BATCH_OVERDUE, PLACE), "in the next batch of 1,000: because it is overdue"),
    (
        Reason(ReasonCode.IN_BATCH_NEW_SHARE, PLACE),
        "in the next batch of 1,000: in the share of pages never visited before",
    ),
    (
        Reason(ReasonCode.IN_BATCH_EXPLORATION, PLACE),
        "in the next batch of 1,000: drawn at random, in the share for exploration",
    ),
    (Reason(ReasonCode.IN_BATCH_SURGE_PROBE, PLACE), f"in the next batch of 1,000: {PROBING}"),
    (
        Reason(ReasonCode.IN_BATCH_TRIAL, PLACE),
        "in the next batch of 1,000: by the score of the challenger in a trial",
    ),
    (Reason(ReasonCode.IN_BATCH_GRANTED, PLACE), "in the next batch of 1,000: because the caller named it"),
    (
        Reason(ReasonCode.OUTRANKED, {"k": 1000, "score": 1.0, "lowest_score": 1.5}),
        f"{ABSENT} its score is below that of the last page in it, 1.5",
    ),
    (
        Reason(ReasonCode.TIE_LOST, {"k": 1000, "score": 1.0}),
        f"{ABSENT} its score equals that of the last page in it, and this cycle's random order put it later",
    ),
    (
        Reason(ReasonCode.BATCH_FULL, {"k": 1000, "taken_by": {"panel": 2, "overdue": 1}, "tie_lost": False}),
        f"{ABSENT} all its places go to 2 members of the panel, 1 overdue page",
    ),
    (
        Reason(
            ReasonCode.DOMAIN_SHARE_USED,
            {"k": 10, "domain": "a.example", "visits": 100, "of_visits": 1_005, "allowed": 100},
        ),
        (
            "not in the next batch of 10: its domain a.example has had its share of visits: "
            "100 of the day's 1,005 visits, at most 100"
        ),
    ),
    (
        Reason(
            ReasonCode.HOST_SHARE_USED,
            {
                "k": 1000,
                "host": "a.example",
                "taken_by": {"higher_score": 1, "equal_score": 1},
                "tie_lost": True,
                "probing": False,
            },
        ),
        (
            f"{ABSENT} 2 places of a.example have gone to 1 page with a higher score, 1 page with the same score, "
            "and this cycle's random order put it later"
        ),
    ),
    (
        Reason(ReasonCode.DISPLACED, {"k": 1000, "merit": "overdue", "surge_probes": 3}),
        (
            f"{ABSENT} it is overdue, but its place goes to a surge probe or to the shares of pages "
            "never visited before or drawn at random"
        ),
    ),
    (
        Reason(ReasonCode.LAST_VISITED, {"last_visit_s": DAY, "elapsed_s": 90.0, "in_future": False}),
        "last visited 1970-01-02 00:00:00 UTC, 1.5 min before now",
    ),
    (Reason(ReasonCode.NEVER_VISITED, {"known_for_s": DAY}), "never visited; known for 1 d"),
    (
        Reason(ReasonCode.CHANGES_SEEN, {"changes": 1, "visits": 2, "probability": 0.25}),
        "1 of 2 later visits saw a change; P(changed since) from its own rate is 0.25",
    ),
    (
        Reason(
            ReasonCode.PRIOR,
            {
                "rate_per_cycle": 0.5,
                "prior_rate_per_cycle": 0.1,
                "pattern": "a.example",
                "pages": 1,
                "half_life_s": 180 * 86_400.0,
            },
        ),
        (
            "rate 0.5 per cycle; without its own visits 0.1, the prior of a.example (1 page); what its visits have "
            "shown counts half after 180 days"
        ),
    ),
    (
        Reason(
            ReasonCode.CHANGE_RATE,
            {"changes_per_day": 0.5, "low_per_day": 0.0123, "high_per_day": 12.3, "probability": 0.9},
        ),
        "about 0.5 changes a day, between 0.012 and 12 (90% probable)",
    ),
    (
        Reason(ReasonCode.SEASONALITY, {"elapsed_cycles": 2.0, "weighted_cycles": 0.5, "probability": 0.1}),
        "weighted by hours and days, 2 cycles count as 0.5; P(changed since) with this weighting is 0.1",
    ),
    (
        Reason(ReasonCode.SURGE_SHOWN, {"pattern": "a.example/docs/", "since_s": 0.0, "share": 0.5}),
        (
            "visits to a.example/docs/ from 1970-01-01 00:00:00 UTC on show a surge: 50% of the pages not "
            "visited since, this one included, are estimated to have changed in it"
        ),
    ),
    (
        Reason(ReasonCode.UNSEEN_SURGES, {"pattern": "a.example", "probability": 0.05}),
        "surges in a.example that no visit has shown: P(hit by one since) is 0.05",
    ),
    (
        Reason(
            ReasonCode.ANNOUNCED,
            {
                "kind": "sitemap",
                "host": "a.example",
                "since_s": 0.0,
                "probability": 0.625,
                "precision": 0.71,
                "checked": 180.5,
                "signals": 1_204,
            },
        ),
        (
            "sitemap of a.example says since 1970-01-01 00:00:00 UTC that it has changed: "
            "it was right in 71% of 1,204 signals; P(a signal since the last visit is true) is 0.625"
        ),
    ),
    (
        Reason(ReasonCode.RELATED_CHANGED, {"probability": 0.25, "keys": ["name", "directory"]}),
        (
            "related pages changed, of the same name and of the same directory: "
            "P(this one followed since its last visit) is 0.25"
        ),
    ),
    (
        Reason(ReasonCode.PERIODICITY, PERIODIC),
        "updated on Monday, Friday, most likely from 09:00 to 09:59 UTC-3:30 (p = 0.001)",
    ),
    (
        Reason(ReasonCode.NO_EVIDENCE, {"share": 0.8}),
        "80% of the visits, of any page, say that it was fetched and nothing about a change",
    ),
    (Reason(ReasonCode.FAILED_VISITS, {"failures": 255, "at_least": True}), "at least the last 255 visits failed"),
    (
        Reason(ReasonCode.PANEL_MEMBER, {"share": 0.05}),
        "in the panel: visited every cycle, with 5% of the pages leased",
    ),
    (
        Reason(ReasonCode.IN_TRIAL, {"formula": "t * X", "since_s": 0.0}),
        "in a trial since 1970-01-01: ranked by t * X, not by the champion",
    ),
    (Reason(ReasonCode.PLANNED, PLANNED), "planned every 3 d by lambdacrawl at 1970-01-01 09:12:00 UTC"),
]


@pytest.mark.parametrize(("reason", "text"), SENTENCES, ids=[reason.code for reason, _ in SENTENCES])
def test_sentence(reason: Reason, text: str) -> None:
    assert describe_reason(reason) == text


@pytest.mark.parametrize(
    ("code", "fields", "part"),
    [
        (ReasonCode.HOST_RESTING, {"host": "{a}", "cause": None, **WAIT}, f"{{a}} rests {UNTIL}"),
        (ReasonCode.LAST_VISITED, {"last_visit_s": 0.0, "elapsed_s": 0.0, "in_future": True}, "later than now"),
        (ReasonCode.CHANGES_SEEN, {"changes": 0, "visits": 0, "probability": 0.5}, "visited once; "),
        (ReasonCode.FAILED_VISITS, {"failures": 1, "at_least": False}, "the last visit failed"),
        (ReasonCode.DISPLACED, {"k": 1, "merit": "score", "surge_probes": 0}, "goes to the shares of pages never"),
        (
            ReasonCode.HOST_SHARE_USED,
            {"k": 1, "host": "a.example", "taken_by": {"exploration": 1}, "tie_lost": False, "probing": True},
            "1 place of a.example has gone to 1 page drawn at random; after its rest it gives one page at first",
        ),
        (
            ReasonCode.PLANNED,
            {**PLANNED, "every_s": None},
            "no visits planned by lambdacrawl at 1970-01-01 09:12:00 UTC",
        ),
        (ReasonCode.PLANNED, {**PLANNED, "every_s": None, "known": False}, "00 UTC, before the page was known"),
        (ReasonCode.PERIODICITY, {**PERIODIC, "kind": "poisson", "days": [], "hour": None}, "show no schedule"),
        (
            ReasonCode.PERIODICITY,
            {**PERIODIC, "kind": "hourly", "days": [], "hour": None},
            "updated hourly (p = 0.001)",
        ),
        (
            ReasonCode.PERIODICITY,
            {**PERIODIC, "kind": "daily", "hour": 3, "utc_offset_minutes": 120},
            "updated daily, most likely from 03:00 to 03:59 UTC+2 (p",
        ),
        (
            ReasonCode.PERIODICITY,
            {**PERIODIC, "kind": "weekly", "days": [6], "hour": None},
            "updated on Sunday (p = 0.001)",
        ),
        (ReasonCode.PERIODICITY, {**PERIODIC, "days": [], "hour": 3, "utc_offset_minutes": 0}, "on some days, most"),
    ],
)
def test_parts_that_depend_on_a_field(code: ReasonCode, fields: dict[str, object], part: str) -> None:
    assert part in describe_reason(Reason(code, fields))


def test_every_ground_has_words() -> None:
    listed = re.search(r"`taken_by` counts.*?\.", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert listed is not None
    grounds = re.findall(r"`(\w+)`", listed[0])[1:]
    assert len(grounds) == 10
    for count in (1, 2):
        fields = {"k": 9, "taken_by": dict.fromkeys(grounds, count), "tie_lost": False}
        assert describe_reason(Reason(ReasonCode.BATCH_FULL, fields)).count(f"{count} ") == 10


def test_docs_list_every_code_with_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {code: set(re.findall(r"`(\w+)`", fields)) for code, fields in rows}
    assert len(documented) == len(rows)
    assert documented == {reason.code: set(reason.fields) for reason, _ in SENTENCES}
    assert set(documented) == {code.value for code in ReasonCode}


def test_json_is_plain_and_finite() -> None:
    reason = Reason(ReasonCode.OUTRANKED, {"k": 1, "score": math.nan, "lowest_score": math.inf, "more": ({"a": 1.5},)})
    (described,) = describe_reasons([reason])
    assert described.fields == {"k": 1, "score": None, "lowest_score": None, "more": [{"a": 1.5}]}
    assert (described.code, described.text) == ("outranked", describe_reason(reason))
    content = msgspec.to_builtins(described)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert type(content["code"]) is str


def test_a_reason_is_a_value() -> None:
    reason = Reason(ReasonCode.PANEL_MEMBER, {"share": 0.1})
    assert reason == Reason(ReasonCode.PANEL_MEMBER, {"share": 0.1}) != Reason(ReasonCode.PANEL_MEMBER, {"share": 0.2})
    assert len({reason, Reason(ReasonCode.PANEL_MEMBER, {"share": 0.1})}) == 1
    with pytest.raises(AttributeError):
        reason.code = ReasonCode.LEASED  # type: ignore[misc]
