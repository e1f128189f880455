"""What counts as a change: each rule, and each corner case that the rules leave open."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.estimation.change_detection import (
    CHANGE,
    CHANGES,
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


def after(before: Outcome | None, status: int | None = None, **fields: int | bool) -> str:
    return verdict(before, Outcome(URL, 2.0, status, **fields))  # type: ignore[arg-type]


def page(status: int | None = None, fingerprint: int | None = None) -> Outcome:
    return Outcome(URL, 1.0, status, fingerprint)


@pytest.mark.parametrize("status", [0, 429, 500, 503, 599, 600, 999])
def test_failure_tells_nothing_even_with_the_crawlers_verdict(status: int) -> None:
    for before in (None, page(), page(404)):
        assert after(before, status) == "failure"
        assert after(before, status, changed=True) == "failure"
        assert after(before, status, fingerprint=SIX_BITS) == "failure"


def test_first_visit_is_never_a_change() -> None:
    assert after(None) == "first"
    assert after(None, 404) == "first"
    assert after(None, 200, changed=True, fingerprint=1) == "first"


def test_visit_after_nothing_but_a_failure_is_the_first() -> None:
    assert after(page(503), 200, changed=True) == "first"


@pytest.mark.parametrize("status", [None, 200, 304, 404])
def test_crawlers_verdict_wins(status: int | None) -> None:
    for before in (page(200, 0), page(404)):
        assert after(before, status, changed=True, fingerprint=0) == "change"
        assert after(before, status, changed=False, fingerprint=SIX_BITS) == "same"


def test_not_modified_is_no_change_whatever_came_before() -> None:
    assert after(page(200, 0), 304, fingerprint=SIX_BITS) == "same"
    assert after(page(404), 304) == "same"


@pytest.mark.parametrize("alive", [None, 100, 200, 206, 301, 399])
@pytest.mark.parametrize("gone", [400, 403, 404, 410, 428, 499])
def test_vanishing_and_coming_back_are_changes(alive: int | None, gone: int) -> None:
    assert after(page(alive), gone) == "change"
    assert after(page(gone), alive) == "change"
    assert after(page(304), gone) == "change"


def test_error_pages_are_all_the_same() -> None:
    assert after(page(404, 0), 410, fingerprint=SIX_BITS) == "same"


@pytest.mark.parametrize("status", [None, 200, 302])
def test_fingerprints_six_bits_apart_are_a_change(status: int | None) -> None:
    assert after(page(200, 0), status, fingerprint=SIX_BITS) == "change"
    assert after(page(200, 0), status, fingerprint=SIX_BITS >> 1) == "same"
    assert after(page(200, 2**64 - 1), status, fingerprint=2**63) == "change"


def test_threshold_is_a_setting() -> None:
    now = Outcome(URL, 2.0, fingerprint=0b111)
    assert verdict(page(200, 0), now, threshold=3) == "change"
    assert verdict(page(200, 0), now, threshold=4) == "same"


def test_success_without_two_fingerprints_is_no_evidence() -> None:
    assert after(page(200)) == "no_evidence"
    assert after(page(200), 301) == "no_evidence"
    assert after(page(200), fingerprint=SIX_BITS) == "no_evidence"
    assert after(page(200, SIX_BITS)) == "no_evidence"


def test_another_content_is_a_change_however_alike_the_fingerprints_are() -> None:
    before = Outcome(URL, 1.0, fingerprint=0, content=1)
    assert after(before, fingerprint=0, content=2) == "change"
    assert after(before, fingerprint=SIX_BITS, content=1) == "same"
    assert verdict(before, Outcome(URL, 2.0, fingerprint=0, content=2), changes="similar") == "same"
    assert verdict(before, Outcome(URL, 2.0, fingerprint=SIX_BITS, content=1), changes="similar") == "change"


@pytest.mark.parametrize("changes", CHANGES)
def test_where_one_of_the_hashes_is_missing_the_other_decides(changes: str) -> None:
    def found(before: Outcome, **now: int) -> str:
        return verdict(before, Outcome(URL, 2.0, **now), changes=changes)  # type: ignore[arg-type]

    assert found(page(200, 0), fingerprint=SIX_BITS, content=1) == "change"
    assert found(page(200, 0), fingerprint=1, content=1) == "same"
    assert found(Outcome(URL, 1.0, content=0), fingerprint=0, content=0) == "same"
    assert found(Outcome(URL, 1.0, content=0), fingerprint=0, content=2**64 - 1) == "change"
    assert found(Outcome(URL, 1.0, content=0), fingerprint=0) == "no_evidence"


def test_content_yields_to_the_crawlers_verdict_and_to_status_codes() -> None:
    before = Outcome(URL, 1.0, content=1)
    assert after(before, content=2, changed=False) == "same"
    assert after(before, content=1, changed=True) == "change"
    assert after(before, 304, content=2) == "same"
    assert after(before, 404, content=1) == "change"
    assert after(Outcome(URL, 1.0, 404, content=1), 404, content=2) == "same"
    assert after(before, 503, content=2) == "failure"


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
