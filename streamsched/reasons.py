"""Reasons of decisions as data: a code and its numbers. `docs/reasons.md` lists all codes with their fields.

Every room that decides about a page returns `Reason` objects; `scheduler.reason_text` alone gives them sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any


@unique
class ReasonCode(StrEnum):
    """Codes of all reasons, equal to their text: ``ReasonCode.LEASED == "leased"``."""

    # Why a page is not eligible.
    NEVER_BY_RULE = "never_by_rule"
    ROBOTS_DENIED = "robots_denied"
    CATCHING_UP = "catching_up"
    LEASED = "leased"
    HOST_RESTING = "host_resting"
    HOST_PROBING = "host_probing"
    HOST_FULL = "host_full"
    BELOW_MIN_REVISIT = "below_min_revisit"
    BACKING_OFF = "backing_off"
    RETRY_AFTER = "retry_after"
    NOT_BEFORE = "not_before"
    RETIRED = "retired"
    UNKNOWN = "unknown"
    # Why it has priority over pages that are ranked by score.
    ASKED_FOR = "asked_for"
    OVERDUE = "overdue"
    # What gave it its place in a batch.
    IN_BATCH_BY_SCORE = "in_batch_by_score"
    IN_BATCH_PANEL = "in_batch_panel"
    IN_BATCH_ASKED_FOR = "in_batch_asked_for"
    IN_BATCH_OVERDUE = "in_batch_overdue"
    IN_BATCH_NEW_SHARE = "in_batch_new_share"
    IN_BATCH_EXPLORATION = "in_batch_exploration"
    IN_BATCH_SURGE_PROBE = "in_batch_surge_probe"
    IN_BATCH_TRIAL = "in_batch_trial"
    IN_BATCH_GRANTED = "in_batch_granted"
    # Why an eligible page is not in a batch.
    OUTRANKED = "outranked"
    TIE_LOST = "tie_lost"
    BATCH_FULL = "batch_full"
    HOST_SHARE_USED = "host_share_used"
    DOMAIN_SHARE_USED = "domain_share_used"
    DISPLACED = "displaced"
    # What is known of its changes.
    LAST_VISITED = "last_visited"
    NEVER_VISITED = "never_visited"
    CHANGES_SEEN = "changes_seen"
    PRIOR = "prior"
    CHANGE_RATE = "change_rate"
    SEASONALITY = "seasonality"
    SURGE_SHOWN = "surge_shown"
    UNSEEN_SURGES = "unseen_surges"
    RELATED_CHANGED = "related_changed"
    ANNOUNCED = "announced"
    PERIODICITY = "periodicity"
    NO_EVIDENCE = "no_evidence"
    FAILED_VISITS = "failed_visits"
    PANEL_MEMBER = "panel_member"
    IN_TRIAL = "in_trial"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: its code and the numbers it rests on.

    ``code``: a `ReasonCode`, or that of a later service; ``fields``: plain values by name. Times are UTC epoch seconds
    and end in ``_s``, as do durations in seconds; rates are changes per cycle; probabilities and shares lie between 0
    and 1; hosts and URL patterns are strings. ``text``: the sentence that they make, in views of pages.
    """

    code: str
    fields: dict[str, Any] = field(default_factory=dict, hash=False)
    text: str = field(default="", compare=False)
