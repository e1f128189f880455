"""The change rule's kernel agrees with the list of rules read out in Python, over every mixture of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome
from streamsched.estimation.change_detection import (
    CHANGES,
    EXACT,
    NO_CONTENT,
    VERDICTS,
    ChangeRule,
    PageBefore,
    compare_content,
    detect_change,
    hamming,
    pack_content,
    popcount,
    verdict,
)
from streamsched.outcomes import CHANGED, CONTENT, FINGERPRINT, STATUS
from tests.reference import estimators
from tests.reference.shard import left_behind

words = st.integers(0, 2**64 - 1)
near = st.builds(lambda bits: sum(1 << bit for bit in bits), st.sets(st.integers(0, 63), max_size=12))
statuses = st.sampled_from([0, 100, 200, 204, 301, 304, 399, 400, 404, 410, 429, 499, 500, 503, 599, 999])
made = [0xC0E7 << 48 | version << 38 | bits for version in (0, 1, 1023) for bits in (0, 1, (1 << 38) - 1)]
contents = st.sampled_from([0, 1, 2, 2**63, 2**64 - 3, 0xC0E8 << 48, *made])
visits = st.fixed_dictionaries(
    {}, optional={"status": statuses, "fingerprint": near, "changed": st.booleans(), "content": contents}
)
pages = st.none() | st.fixed_dictionaries(
    {"success": st.booleans()}, optional={"fingerprint": near, "content": contents}
)
BITS = {"status": STATUS, "fingerprint": FINGERPRINT, "changed": CHANGED, "content": CONTENT}


@given(visits, pages, st.integers(0, 65), words, st.sampled_from(CHANGES))
def test_judge_is_the_list_of_rules(
    visit: dict[str, Any], page: dict[str, Any] | None, bits: int, junk: int, changes: str
) -> None:
    """Absent fields hold junk, so that a look at one would show."""
    given_bits = sum(BITS[name] for name in visit)
    known = page or {}
    kept = np.uint64(pack_content(np.uint64(known["content"]))) if "content" in known else NO_CONTENT
    code = detect_change(
        given_bits,
        visit.get("status", junk % 1000),
        np.uint64(visit.get("fingerprint", junk)),
        visit.get("changed", junk % 2 == 1),
        PageBefore(
            page is not None,
            known.get("success", junk % 2 == 1),
            "fingerprint" in known,
            np.uint64(known.get("fingerprint", junk)),
            compare_content(given_bits, np.uint64(visit.get("content", junk)), kept),
        ),
        ChangeRule(bits, changes == EXACT),
    )
    assert VERDICTS[code] == estimators.judge(visit, page, bits, changes)


@given(visits, visits, st.sampled_from(CHANGES))
def test_verdict_is_the_same_list_for_outcomes(before: dict[str, Any], now: dict[str, Any], changes: str) -> None:
    url = "https://a.example/"
    page = left_behind(before, None, False) if estimators.judge(before, None, 6) == "first" else None
    found = verdict(Outcome(url, 1.0, **before), Outcome(url, 2.0, **now), changes=changes)
    assert found == estimators.judge(now, page, 6, changes)


@given(words, words)
def test_packed_contents_differ_as_contents_do_below_the_largest(left: int, right: int) -> None:
    packed = [pack_content(np.uint64(min(one, 2**64 - 2))) for one in (left, right)]
    assert (packed[0] == packed[1]) == (min(left, 2**64 - 2) == min(right, 2**64 - 2))
    assert NO_CONTENT not in packed


@given(words, words)
def test_hamming_is_popcount_of_the_difference(left: int, right: int) -> None:
    assert hamming(left, right) == popcount(np.uint64(left ^ right)) == (left ^ right).bit_count()
