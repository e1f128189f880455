"""Merged offers: as the slow twin merges them, and the batch of one scheduler that has all pages."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamsched.api.answers import Offer, OfferedPage
from streamsched.cluster.merged_batch import Asked, Owed, merge_offers, part_of, whole
from tests.reference import merged_batch as reference
from tests.reference.merged_batch import EXPLORED, NEW, PANEL, PROBE, TRIED

BY_SCORE = "in_batch_by_score"
shares = st.sampled_from([0.0, 0.02, 0.1, 0.3])


seeds = st.integers(0, 1 << 32)


def make_pages(chance: Random, whys: Sequence[str], most: int) -> list[OfferedPage]:
    """Pages with ties of their own, many of them with equal scores."""
    pages = []
    for number in range(chance.randint(0, most)):
        why = chance.choice(whys)
        tier = chance.choice([0] * 8 + [1, 2]) if why == BY_SCORE else 0
        pages.append(
            OfferedPage(
                url=f"https://h{number % 7}.example/{number}",
                host=f"h{number % 7}.example",
                score=chance.choice([None, -1.0, 0.0, 0.25, 0.5, chance.random()]),
                tier=tier,
                probability=chance.choice([0.0, 0.1, 0.5, 1.0]),
                why=why,
                tie=number * 7919 % 1009,
                overdue_since=chance.choice([1.0, 2.0, 3.0]) if tier == 1 else None,
                new=why == NEW or chance.random() < 0.2,
            )
        )
    return pages


@given(seeds, st.integers(1, 90), st.integers(1, 4), shares, shares, shares)
def test_it_is_the_twins_batch(seed: int, k: int, shards: int, new: float, drawn: float, panel: float) -> None:
    chance = Random(seed)
    pages = make_pages(chance, [BY_SCORE] * 4 + [PANEL, NEW, EXPLORED, PROBE, TRIED], 200)
    owed = Owed(*(chance.choice([0.0, 0.3, 0.9]) for _ in Owed._fields))
    asked = {}
    for shard in range(shards):
        mine = pages[shard::shards]
        offer = Offer(pages=mine, now=0.0, new_share=new, explore_share=drawn, panel_share=panel)
        asked[shard] = Asked(chance.choice([len(mine), len(mine) + 1, whole(k)]), offer)
    merged = merge_offers(k, asked, owed)
    urls, unsure = reference.merge(k, asked, owed)
    assert [one.page.url for one in merged.pages] == urls
    assert merged.unsure == unsure
    assert len(set(urls)) == min(k, len(pages))
    assert all(one.page.url in {page.url for page in pages[one.shard :: shards]} for one in merged.pages)
    assert all(0.0 <= left < 1.0 for left in merged.owed._replace(explored=0.0))
    assert merged.owed.explored < 9.0


@given(seeds, st.sampled_from([1, 10, 70, 100, 150]), st.integers(1, 5), shares, st.booleans())
def test_it_is_the_batch_of_one_scheduler(seed: int, k: int, shards: int, new: float, uneven: bool) -> None:
    """Each shard offers what the twin chooses of its pages, a part first and a whole batch if it is asked again."""
    pages = make_pages(Random(seed), [BY_SCORE], 700)
    held = [pages[shard::shards] for shard in range(shards)]
    if uneven:
        held = [pages[shard::10] for shard in range(shards - 1)]
        held.append([page for page in pages if not any(page in some for some in held)])
    asked = {shard: _ask(part_of(k, 1 / shards), mine, new) for shard, mine in enumerate(held)}
    merged = merge_offers(k, asked)
    asked |= {shard: _ask(whole(k), held[shard], new) for shard in merged.unsure}
    urls, _ = reference.merge(k, {0: Asked(k, _with(pages, new))}, Owed())
    merged = merge_offers(k, asked)
    assert merged.unsure == []
    assert [one.page.url for one in merged.pages] == urls


def _ask(k: int, pages: list[OfferedPage], new: float) -> Asked:
    chosen = set(reference.merge(k, {0: Asked(k, _with(pages, new))}, Owed())[0])
    best = set(reference.merge(k, {0: Asked(k, _with(pages, 0.0))}, Owed())[0])
    offered = [structs.replace(page, why=BY_SCORE if page.url in best else NEW) for page in pages if page.url in chosen]
    return Asked(k, _with(offered, new))


def _with(pages: list[OfferedPage], new: float) -> Offer:
    return Offer(pages=pages, now=0.0, new_share=new, explore_share=0.0, panel_share=0.0)
