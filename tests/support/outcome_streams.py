"""Streams of a shard's events for its tests: passes over the pages of a directory, discoveries and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import NEVER_S, Outcome, OutcomeBatch, StatusWord

DAY = 86_400.0
PREFIXES = (  # a page's number follows; all spellings of one host and of one directory below it, and other hosts
    "https://a.example/docs/",
    "https://A.Example:443/docs/api/",
    "https://user@a.example/docs/api/v1/",
    "http://a.example/blog/",
    "http://a.example:8080/docs/",
    "https://b.example/",
    "https://b.example/?page=/docs/",
    "https://[::1]/ä/1/2/3/4/5/6/7/8/9/",
)


@dataclass(frozen=True)
class Crawl:
    """A pass over `count` pages of a prefix, `step_s` apart; the values of each field repeat in turn."""

    prefix: str
    first: int
    count: int
    start_s: float
    step_s: float
    statuses: Sequence[int | StatusWord | None] = (None,)
    fingerprints: Sequence[int | None] = (None,)
    verdicts: Sequence[bool | None] = (None,)
    importances: Sequence[float | None] = (None,)
    costs: Sequence[float | None] = (None,)
    retry_afters: Sequence[float | None] = (None,)
    moved_tos: Sequence[str | None] = (None,)
    significances: Sequence[float | None] = (None,)
    etags: Sequence[str | None] = (None,)
    last_modifieds: Sequence[str | None] = (None,)
    contents: Sequence[int | None] = (None,)
    rests: Sequence[float | None] = (None,)  # from the visit to not_before, in seconds

    def outcomes(self) -> Iterator[Outcome]:
        for i in range(self.count):
            url = f"{self.prefix}{self.first + i}"
            fetched_at, rest_s = self.start_s + i * self.step_s, self.rests[i % len(self.rests)]
            moved_to = self.moved_tos[i % len(self.moved_tos)]
            yield Outcome(
                url,
                fetched_at,
                self.statuses[i % len(self.statuses)],
                self.fingerprints[i % len(self.fingerprints)],
                self.verdicts[i % len(self.verdicts)],
                self.importances[i % len(self.importances)],
                self.costs[i % len(self.costs)],
                self.retry_afters[i % len(self.retry_afters)],
                None if moved_to == url else moved_to,
                self.significances[i % len(self.significances)],
                self.etags[i % len(self.etags)],
                self.last_modifieds[i % len(self.last_modifieds)],
                self.contents[i % len(self.contents)],
                None if rest_s is None else min(fetched_at + rest_s, NEVER_S),
            )


def some(*values: object, most: int = 3) -> st.SearchStrategy[list]:  # type: ignore[type-arg]
    return st.lists(st.sampled_from(values), min_size=1, max_size=most)


# Mostly onwards by hours and days, sometimes back or not at all, so that duplicates and late outcomes come too.
steps = st.sampled_from([*range(1, 30), 300, 300, 0, 0, -1, -24]).map(lambda hours: 3_600.0 * hours)
clock_errors = st.sampled_from([1.0, 3_600.0, 5e-324, 9.9e10])


@st.composite
def streams(draw: st.DrawFn) -> list[Outcome]:
    """Up to 16 passes over up to three prefixes."""
    prefixes = st.sampled_from(draw(st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=3)))
    outcomes: list[Outcome] = []
    start_s = 20 * DAY
    for _ in range(draw(st.integers(1, 16))):
        start_s += draw(steps)
        crawl = Crawl(
            prefix=draw(prefixes),
            first=draw(st.integers(0, 12)),
            count=draw(st.integers(1, 24)),
            start_s=draw(clock_errors) if draw(st.integers(0, 40)) == 40 else start_s,
            step_s=draw(st.sampled_from([0.0, 1e-9, 10.0])),
            statuses=draw(
                some(
                    *(None, None, None, None, 200, 301, 304, 404, 410, 429, 500, 503, 503, 0),
                    *("robots_denied", "not_attempted"),
                )
            ),
            fingerprints=draw(some(None, 0, 0b11111, 0b111111, 2**64 - 1)),
            verdicts=draw(some(None, False, True)),
            importances=draw(some(None, None, 0.0, 0.1, 3e38)),
            costs=draw(some(None, None, 0.0, 2.5)),
            retry_afters=draw(some(None, None, 0.0, 90.0, 1e6)),
            moved_tos=draw(
                some(None, None, None, f"{draw(prefixes)}{draw(st.integers(0, 20))}", "https://c.example/ä")
            ),
            significances=draw(some(None, None, 0.0, 0.3, 1.0)),
            etags=draw(some(None, None, "", 'W/"1"', '"ä"', '"' + 25 * "2" + '"', 255 * "3", 256 * "4", "a\nb")),
            last_modifieds=draw(some(None, None, "Wed, 21 Oct 2015 07:28:00 GMT", 64 * "5", 65 * "6", "\x7f")),
            rests=draw(some(None, None, 0.5, 3_600.0, 30 * DAY, NEVER_S)),
            contents=draw(some(None, None, 0, 1, 2**64 - 2, 0xC0E7 << 48, (0xC0E7 << 48) + 1, 0xC0E7 << 48 | 1 << 38)),
        )
        outcomes += crawl.outcomes()
    return outcomes


@st.composite
def bursts(draw: st.DrawFn) -> list[Outcome]:
    """2 to 8 passes over the same pages, nanoseconds apart within each of three hours: estimates lose digits there."""
    passes = st.builds(
        Crawl,
        prefix=st.sampled_from(PREFIXES[:4]),
        first=st.integers(0, 3),
        count=st.integers(1, 20),
        start_s=st.sampled_from([1.0, 3_600.0, 7_200.0]),
        step_s=st.just(1e-9),
        statuses=some(None, 200, 404, 410),
        verdicts=some(None, False, True),
    )
    crawls = sorted(draw(st.lists(passes, min_size=2, max_size=8)), key=lambda crawl: crawl.start_s)
    return [outcome for crawl in crawls for outcome in crawl.outcomes()]


def cut(outcomes: list[Outcome], sizes: Sequence[int]) -> Iterator[list[Outcome]]:
    """The stream in batches of `sizes`, taken in turn."""
    at = place = 0
    while at < len(outcomes):
        yield outcomes[at : at + sizes[place % len(sizes)]]
        at += sizes[place % len(sizes)]
        place += 1


def daily_crawl(pages: int, visits: int, seed: int) -> OutcomeBatch:
    """`visits` outcomes of `pages` pages in directories of 30, in 20 hosts, an hour apart; some out of order."""
    rng = np.random.default_rng(seed)
    page = rng.integers(0, pages, visits)
    urls = PackedUrls.pack([f"https://h{p % 20}.example/d{p // 20 // 30}/p{p}" for p in page.tolist()])
    fetched_at = 1.7e9 + 3_600.0 * np.arange(visits) * 24 / pages - 7_200.0 * (rng.random(visits) < 0.05)
    status = np.where(rng.random(visits) < 0.05, 503, 200).astype(np.int32)
    return OutcomeBatch(urls, fetched_at, status=status, changed=rng.random(visits) < (page % 10) / 10)
