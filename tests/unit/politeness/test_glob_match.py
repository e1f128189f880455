"""Patterns with ``*``: what fits them from end to end, and the URLs of a table that do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Scheduler
from streamsched.numerics.arrays import Bytes
from streamsched.politeness.rule_targets import fits, mark_fitting
from tests.reference import politeness
from tests.reference.politeness import split_target
from tests.support.cases import examples, grouped


def bytes_of(text: str) -> Bytes:
    return np.array(list(text.encode()), np.uint8)


@grouped(
    ("expected", "glob", "text"),
    {
        True: [
            *[("", ""), ("*", ""), ("***", "a*b"), ("a*", "a"), ("*ab", "aab"), ("a*b*c", "abbcbc"), ("a?c", "a?c")],
            *[("/ä*", "/ä/\n")],
        ],
        False: [("", "a"), ("a*", "ba"), ("*a", "aab"), ("a*b*c", "abbcb"), ("a?c", "abc"), ("*a*a*a*b", "a" * 200)],
    },
)
def test_what_fits(glob: str, text: str, expected: bool) -> None:
    """And nothing around it counts: the text stands between others."""
    blob = bytes_of("*" + text + "b")
    assert fits(blob, 1, blob.size - 1, bytes_of(glob)) is expected


URLS = [
    "https://a.example/docs/1",
    "http://a.example/docs/1?x=/b",
    "HTTPS://a.example",
    "a.example/docs/2",
    "https://u@a.example:8080/b",
    "ftp://a.example?q",
]


@examples(ordinary=9, whole=30)
@given(
    st.sampled_from(["", "https", "http", "ftp", "s"]),
    st.text("/docsb*12?x", max_size=5) | st.sampled_from(["*", "/docs/*", "*1*", ""]),
    st.lists(st.integers(0, 5), max_size=6, unique=True),
)
def test_marked_are_those_that_fit(scheme: str, path: str, places: list[int]) -> None:
    scheduler = Scheduler(schemes=None)
    scheduler.discover(URLS, now=0.0)
    rows = np.arange(6)[::-1].copy()
    numbers = np.full(6, 9, np.uint8)
    mark_fitting(
        scheduler.core.pages.arrays.pages,
        rows,
        np.array(places, np.int64),
        bytes_of(scheme),
        bytes_of(path),
        3,
        numbers,
    )
    for place in range(6):
        own_scheme, _, own_path = split_target(URLS[rows[place]])
        meets = scheme in ("", own_scheme.lower()) and politeness.fits(own_path.encode(), path.encode())
        assert numbers[place] == (3 if place in places and meets else 9)
