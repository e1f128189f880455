"""Batches of the whole cluster: every shard offers, the offers are merged, and the owners grant what was chosen."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from streamsched.api.answers import Grant, LeasedBatch, LeasedPage
from streamsched.api.operations import GRANT, OFFER, NextBatch
from streamsched.cluster.merged_batch import LEAST_PART, Asked, Chosen, Owed, merge_offers, part_of, whole
from streamsched.cluster.shard_calls import ShardCalls
from streamsched.errors import KeyReusedError
from streamsched.http.endpoints.crawling import LOOK_EVERY_S, KeysInUse
from streamsched.http.protocol.problems import HttpError
from streamsched.http.service import ServiceState, read_wait
from streamsched.numerics.durations import parse_lease

_GRANT_S: Final = 2.0  # of a shard at least: pages of a grant without an answer are leased, and nobody visits them
_ROUNDS: Final = 2  # pages that are refused, as another front has leased them, are replaced once


class BatchFront:
    """Answers requests for batches. For one event loop; batches are made one after another."""

    def __init__(self, calls: ShardCalls, state: ServiceState) -> None:
        self._calls = calls
        self._state = state
        self._keys = KeysInUse()
        self._turn = asyncio.Lock()  # two batches at once would want the same pages
        self._owed = Owed()
        self._shares = dict.fromkeys(range(calls.shards.count), 1.0 / calls.shards.count)  # of the last batches

    async def next_batch(self, asked: NextBatch) -> LeasedBatch:
        """Lease the best pages of all shards, or wait for one.

        Shards that do not answer in time are left out, and named in ``missing``.
        """
        wait_s, loop = read_wait(asked.wait), asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        with self._keys.using(asked.key):
            while True:
                batch = await self._lease(asked, asked.key or secrets.token_urlsafe(18))
                left_s = until_s - loop.time()
                if batch.pages or left_s <= 0.0 or self._state.is_stopping:
                    return batch
                await asyncio.sleep(min(left_s, LOOK_EVERY_S))

    async def _lease(self, asked: NextBatch, key: str) -> LeasedBatch:
        """Return the pages that were granted under `key`, or else lease a batch under it."""
        shards = set(range(self._calls.shards.count))
        here, pages, times = set(shards), list[LeasedPage](), [0.0]
        keys = [f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}-{number}" for number in range(_ROUNDS)]
        async with self._turn:
            for number, round_key in enumerate(keys):
                wanted = asked.k - len(pages)
                parts = {shard: part_of(wanted, self._shares[shard]) for shard in here}
                offers = await self._ask(asked, parts, () if number else keys)
                here &= offers.keys()
                kept = [one.offer.granted for one in offers.values() if one.offer.granted is not None]
                if kept:
                    return _repeat([page for some in kept for page in some], asked, sorted(shards - here))
                merged = merge_offers(wanted, offers, self._owed)
                if merged.unsure:
                    more = await self._ask(asked, dict.fromkeys(merged.unsure, whole(wanted)), ())
                    here -= set(merged.unsure) - more.keys()
                    offers = {shard: one for shard, one in (offers | more).items() if shard in here}
                    merged = merge_offers(wanted, offers, self._owed)
                self._owed = merged.owed
                self._note_shares(merged.pages)
                grants = await self._grant(asked, merged.pages, round_key)
                here -= {one.shard for one in merged.pages} - grants.keys()
                times += [one.offer.now for one in offers.values()] + [grant.now for grant in grants.values()]
                granted = _show_pages(merged.pages, grants)
                pages += granted
                if len(granted) == len(merged.pages):
                    break
        now = max(times) or self._state.clock()
        return LeasedBatch(pages=pages, now=now, repeated=False, missing=sorted(shards - here))

    def _note_shares(self, chosen: list[Chosen]) -> None:
        """Note which share of a batch each shard had, for the next one's first questions."""
        if len(chosen) >= LEAST_PART:
            counts = Counter(one.shard for one in chosen)
            for shard, share in self._shares.items():
                self._shares[shard] = (share + counts[shard] / len(chosen)) / 2.0

    async def _ask(self, asked: NextBatch, parts: Mapping[int, int], keys: Sequence[str]) -> dict[int, Asked]:
        """Return the offers of the shards that answer in time; `parts`: how many pages each is asked for."""
        given: dict[str, Any] = {"lease": asked.lease, "hosts": asked.hosts, "per_host": asked.per_host, "keys": keys}
        offers = await self._calls.each_in_time(OFFER, {shard: {**given, "k": k} for shard, k in parts.items()})
        return {shard: Asked(parts[shard], offer) for shard, offer in offers.items()}

    async def _grant(self, asked: NextBatch, chosen: list[Chosen], key: str) -> dict[int, Grant]:
        """Lease the pages that were chosen; return the grants of the shards that answer in time.

        Raises HttpError, 409, if another request with the same key leases pages at the same time.
        """
        urls: dict[int, list[str]] = {}
        for one in chosen:
            urls.setdefault(one.shard, []).append(one.page.url)
        given = {shard: {"urls": mine, "lease": asked.lease, "key": key} for shard, mine in urls.items()}
        try:
            return await self._calls.each_in_time(GRANT, given, _GRANT_S)
        except KeyReusedError:
            detail = "another request with this key leases pages"
            raise HttpError(HTTPStatus.CONFLICT, "key_running", detail, headers={"retry-after": "1"}) from None


def _show_pages(chosen: list[Chosen], grants: dict[int, Grant]) -> list[LeasedPage]:
    return [
        LeasedPage(
            url=page.url,
            host=page.host,
            score=page.score,
            tier=page.tier,
            probability=page.probability,
            lease_until=grants[shard].lease_until,
            why=page.why,
            etag=page.etag,
            last_modified=page.last_modified,
        )
        for _, shard, page in chosen
        if shard in grants and page.url not in grants[shard].refused
    ]


def _repeat(kept: list[LeasedPage], asked: NextBatch, missing: list[int]) -> LeasedBatch:
    """Return what was granted under a key before."""
    pages = sorted(kept, key=lambda page: (-page.tier, -page.probability))
    now = min((page.lease_until for page in pages), default=0.0) - parse_lease(asked.lease)
    return LeasedBatch(pages=pages, now=now, repeated=True, missing=missing)
