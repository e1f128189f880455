"""Text and hashes of generated pages, beside trafilatura, and how often noise and small changes decide wrongly.

The pages are made up (`tests.support.generated_pages`): their counts of false and missed changes check the rules, and
measure nothing about the web.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from benchmarks.report import Row, best_seconds, digits
from streamsched.content import content_hash, page_text, simhash
from streamsched.estimation.change_detection import CHANGE_BITS
from tests.support.generated_pages import KINDS, Noise, make_page

_FEW: Final = 4 * len(KINDS)
_ROUNDS: Final = 50
Item = TypeVar("Item")


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark of contents."""
    rng = random.Random(7)
    versions = [make_page(KINDS[number % len(KINDS)], number) for number in range(pages)]
    before, noisy, changed = ([made(Noise.draw(rng), step == 2) for made in versions] for step in range(3))
    size = sum(map(len, before)) / len(before) / 1000
    texts = [page_text(page) for page in before]
    rounds = _ROUNDS * repeats
    ours = _per_second(lambda page: content_hash(page_text(page)), before, rounds)
    rival = _per_second(lambda page: content_hash(page_text(page, by="trafilatura")), before, repeats)
    alone = _per_second(content_hash, texts, rounds)
    similar = _per_second(simhash, texts, repeats)
    return [
        Row(f"page_text and content_hash, pages of {size:.1f} kB a second and core", *_beside(ours, rival)),
        Row("content_hash of their texts; rival: simhash", *_beside(alone, similar)),
        _wrong("other noise counts as a change; rival: by SimHash", before, noisy, wrong_if=True),
        _wrong("a small change is missed; rival: by SimHash", before, changed, wrong_if=False),
    ]


def _per_second(work: Callable[[Item], object], items: Sequence[Item], repeats: int) -> float:
    """Return how many items a second and core `work` takes, of a few of each kind: best of many short runs."""
    few = items[:_FEW]
    return len(few) / best_seconds(lambda: [work(item) for item in few], repeats, time.thread_time)


def _beside(ours: float, rival: float) -> tuple[str, str, str]:
    return f"{digits(ours)}/s", f"{digits(rival)}/s", f"{digits(ours / rival, 2)}×"


def _wrong(what: str, left: Sequence[str], right: Sequence[str], *, wrong_if: bool) -> Row:
    """Return the row of the shares of pairs that each hash decides wrongly."""
    pairs = [(page_text(one), page_text(other)) for one, other in zip(left, right, strict=True)]
    exact = sum((content_hash(one) != content_hash(other)) == wrong_if for one, other in pairs)
    similar = sum(((simhash(one) ^ simhash(other)).bit_count() >= CHANGE_BITS) == wrong_if for one, other in pairs)
    ours, rival = (f"{100 * count / len(pairs):.0f} %" for count in (exact, similar))
    return Row(f"generated pairs in which {what}", ours, rival)
