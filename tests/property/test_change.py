"""The change rule's kernel agrees with the list of rules read out in Python, over every mixture of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.change_detection import VERDICTS, detect_change, hamming, popcount
from streamsched.outcomes import CHANGED, FINGERPRINT, STATUS
from tests.reference import estimators

words = st.integers(0, 2**64 - 1)
near = st.builds(lambda bits: sum(1 << bit for bit in bits), st.sets(st.integers(0, 63), max_size=12))
statuses = st.sampled_from([0, 100, 200, 204, 301, 304, 399, 400, 404, 410, 429, 499, 500, 503, 599, 999])
visits = st.fixed_dictionaries({}, optional={"status": statuses, "fingerprint": near, "changed": st.booleans()})
pages = st.none() | st.fixed_dictionaries({"success": st.booleans()}, optional={"fingerprint": near})


@given(visits, pages, st.integers(0, 65), words)
def test_judge_is_the_list_of_rules(visit: dict[str, Any], page: dict[str, Any] | None, bits: int, junk: int) -> None:
    """Absent fields hold junk, so that a look at one would show."""
    given_bits = STATUS * ("status" in visit) + FINGERPRINT * ("fingerprint" in visit) + CHANGED * ("changed" in visit)
    known = page or {}
    code = detect_change(
        given_bits,
        visit.get("status", junk % 1000),
        np.uint64(visit.get("fingerprint", junk)),
        visit.get("changed", junk % 2 == 1),
        page is not None,
        known.get("success", junk % 2 == 1),
        "fingerprint" in known,
        np.uint64(known.get("fingerprint", junk)),
        bits,
    )
    assert VERDICTS[code] == estimators.judge(visit, page, bits)


@given(words, words)
def test_hamming_is_popcount_of_the_difference(left: int, right: int) -> None:
    assert hamming(left, right) == popcount(np.uint64(left ^ right)) == (left ^ right).bit_count()
