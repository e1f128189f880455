"""What counts as a change: each rule, and each corner case that the rules leave open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.estimation.change_detection import (
    CHANGE,
    EQUAL,
    FAILURE,
    FIRST,
    NO_EVIDENCE,
    NOT_COMPARED,
    SAME,
    VERDICTS,
    ChangeRule,
    PageBefore,
    detect_change,
    hamming,
    is_failure,
    is_success,
    popcount,
    shows_content,
    verdict,
)
from streamsched.outcomes import CHANGED, CONTENT, FINGERPRINT, STATUS, Outcome

URL = "https://a.example/"
SIX_BITS = 0b111111


def page(status: int | None = None, **fields: Any) -> Outcome:
    return Outcome(URL, 1.0, status, **fields)


SEEN = page(200, fingerprint=0)
HASHED = page(content=1)
BOTH = page(fingerprint=0, content=1)
ALIKE = {"fingerprint": SIX_BITS >> 1}
OTHER = {"fingerprint": SIX_BITS}
CASES: dict[str, list[tuple[Outcome | None, dict[str, Any]]]] = {
    "failure": [
        *((before, {"status": code}) for before in (None, page(), page(404)) for code in (0, 429, 500, 599, 600, 999)),
        (page(), {"status": 503, "changed": True}),
        (page(), {"status": 503, **OTHER}),
        (HASHED, {"status": 503, "content": 2}),
    ],
    "first": [
        (None, {}),
        (None, {"status": 404}),
        (None, {"status": 200, "changed": True, "fingerprint": 1}),
        (page(503), {"status": 200, "changed": True}),  # after nothing but a failure
    ],
    "change": [
        *((before, {"changed": True, "status": code}) for before in (SEEN, page(404)) for code in (None, 304, 404)),
        *((page(alive), {"status": gone}) for alive in (None, 100, 206, 304, 399) for gone in (400, 404, 428, 499)),
        *((page(gone), {"status": alive}) for alive in (None, 100, 206, 399) for gone in (400, 404, 428, 499)),
        *((SEEN, {"status": code, **OTHER}) for code in (None, 200, 302)),
        (page(200, fingerprint=2**64 - 1), {"fingerprint": 2**63}),
        (BOTH, {"fingerprint": 0, "content": 2}),  # however alike the fingerprints are
        (SEEN, {**OTHER, "content": 1}),  # the page has no content
        (page(content=0), {"fingerprint": 0, "content": 2**64 - 1}),
        (HASHED, {"content": 1, "changed": True}),
        (HASHED, {"status": 404, "content": 1}),
    ],
    "same": [
        *((before, {"changed": False, "status": code, **OTHER}) for before in (SEEN, page(404)) for code in (200, 404)),
        (SEEN, {"status": 304, **OTHER}),
        (page(404), {"status": 304}),
        (page(404, fingerprint=0), {"status": 410, **OTHER}),  # error pages are all the same
        *((SEEN, {"status": code, **ALIKE}) for code in (None, 200, 302)),
        (BOTH, {**OTHER, "content": 1}),
        (SEEN, {"fingerprint": 1, "content": 1}),
        (page(content=0), {"fingerprint": 0, "content": 0}),
        (HASHED, {"content": 2, "changed": False}),
        (HASHED, {"status": 304, "content": 2}),
        (page(404, content=1), {"status": 404, "content": 2}),
    ],
    "no_evidence": [
        (page(200), {}),
        (page(200), {"status": 301}),
        (page(200), OTHER),
        (page(200, **OTHER), {}),
        (page(content=0), {"fingerprint": 0}),
    ],
}


@pytest.mark.parametrize("found", CASES)
def test_rules(found: str) -> None:
    for before, now in CASES[found]:
        assert verdict(before, Outcome(URL, 2.0, **now)) == found, (before, now)


def test_threshold_is_a_setting() -> None:
    now = Outcome(URL, 2.0, fingerprint=0b111)
    assert verdict(SEEN, now, threshold=3) == "change"
    assert verdict(SEEN, now, threshold=4) == "same"


def test_similar_goes_by_fingerprints_where_both_have_them() -> None:
    assert verdict(BOTH, Outcome(URL, 2.0, fingerprint=0, content=2), changes="similar") == "same"
    assert verdict(BOTH, Outcome(URL, 2.0, content=1, **OTHER), changes="similar") == "change"  # type: ignore[arg-type]
    assert verdict(HASHED, Outcome(URL, 2.0, fingerprint=0, content=2), changes="similar") == "change"
    assert verdict(SEEN, Outcome(URL, 2.0, fingerprint=1, content=1), changes="similar") == "same"


@pytest.mark.parametrize("changes", ["Exact", "", None, 1, "both"])
def test_other_words_are_no_setting(changes: object) -> None:
    with pytest.raises(SettingsError, match="changes"):
        verdict(page(), page(), changes=changes)  # type: ignore[arg-type]


def test_fingerprints_of_error_pages_and_of_not_modified_are_not_kept() -> None:
    shown = [
        status
        for status in (0, 200, 301, 304, 404, 429, 503)
        if shows_content(STATUS | FINGERPRINT, status, FINGERPRINT)
    ]
    assert shown == [200, 301]
    assert shows_content(FINGERPRINT, 404, FINGERPRINT)  # an absent status is 200, whatever the column holds there
    assert not shows_content(STATUS, 200, FINGERPRINT)
    assert not shows_content(FINGERPRINT, 200, CONTENT)


def test_values_of_absent_fields_are_not_looked_at() -> None:
    seen, rule = PageBefore(True, True, True, np.uint64(0), NOT_COMPARED), ChangeRule()
    assert detect_change(0, 503, np.uint64(SIX_BITS), True, seen, rule) == NO_EVIDENCE
    assert detect_change(FINGERPRINT, 404, np.uint64(SIX_BITS), False, seen, rule) == CHANGE
    assert detect_change(CHANGED, 404, np.uint64(0), True, seen, rule) == CHANGE
    assert detect_change(STATUS, 503, np.uint64(0), True, seen, rule) == FAILURE
    unseen = PageBefore(False, False, False, np.uint64(0), EQUAL)
    assert detect_change(CHANGED, 0, np.uint64(0), True, unseen, rule) == FIRST


def test_verdicts_are_named_in_the_order_of_their_codes() -> None:
    assert [VERDICTS[code] for code in (FAILURE, FIRST, SAME, CHANGE, NO_EVIDENCE)] == [
        *("failure", "first", "same", "change", "no_evidence")
    ]


def test_every_status_is_a_success_a_failure_or_a_client_error() -> None:
    for status in range(1000):
        client_error = 400 <= status < 500 and status != 429
        assert is_success(status) + is_failure(status) + client_error == 1, status


def test_hamming_counts_differing_bits_and_broadcasts() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 100, dtype=np.uint64)
    distances = hamming(words, words[:, None])
    assert distances.shape == (100, 100)
    assert distances.dtype == np.uint8
    assert distances[3, 7] == (int(words[3]) ^ int(words[7])).bit_count()
    assert hamming(2**64 - 1, 0) == 64
    assert np.all(np.diagonal(distances) == 0)


def test_popcount_takes_any_word() -> None:
    assert [popcount(np.uint64(word)) for word in (0, 1, 2**63, 2**64 - 1)] == [0, 1, 1, 64]
