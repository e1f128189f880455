"""Keys of pages are those of the slow twin, and claims move the terminal as they should."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.related_pages import join_claims, unclaimed
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.related_schema import find_name, hash_names
from streamsched.records.seasonality_schema import SEASONAL_LINK
from tests.reference.related_pages import UNIT, hash_key, names_of

segments = st.text("ab-_.+~%é", max_size=6)
urls = st.builds(
    lambda scheme, parts, tail, query: f"{scheme}H.example{''.join(f'/{part}' for part in parts)}{tail}{query}",
    st.sampled_from(["https://", "http://", "//", ""]),
    st.lists(segments, max_size=4),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "?q=a/b", "#a-b", "?a#/c"]),
)


@given(urls, st.integers(0, 1 << 20), st.booleans())
def test_keys_of_any_url_are_those_of_the_twin(url: str, host: int, is_common: bool) -> None:
    raw = np.frombuffer(url.encode(), np.uint8)
    place = find_name(raw, find_authority(raw, 0, raw.size)[1], raw.size)
    found = [int(one) for one in hash_names(raw, place, host, is_common)]
    assert found == [0 if key is None else hash_key(key) for key in names_of(url, host, is_common=is_common)]


shares = st.lists(st.integers(0, UNIT - 1), min_size=3, max_size=3)
chances = st.floats(0.0, 1.0)


@given(shares, st.lists(chances, min_size=1, max_size=30))
def test_claims_keep_the_order_of_probabilities_and_never_lower_them(parts: list[int], given_: list[float]) -> None:
    """So bounds of the probability without claims become bounds of that with them."""
    links = np.zeros(len(given_), SEASONAL_LINK)
    links["related"] = parts
    before = np.sort(np.array(given_))
    after = before.copy()
    join_claims(links, after)
    assert np.all(np.diff(after) >= 0.0)
    assert np.all((after >= before - 1e-15) & (after <= 1.0))
    np.testing.assert_allclose(after, 1.0 - (1.0 - before) * np.prod([1.0 - one / UNIT for one in parts]), atol=1e-15)
    if not any(parts):
        np.testing.assert_array_equal(after, before)
    assert unclaimed(links[0]) <= 1.0
