"""Calls to shards: each goes to the present owner of its partition, over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar

from streamsched.api.operations import Operation
from streamsched.client import AsyncClient
from streamsched.errors import ServiceError
from streamsched.http.protocol.problems import HttpError

_SHORT_S: Final = 0.2  # in which a shard must answer that did not answer in time before
_WHOLE_EVERY: Final = 10.0  # deadlines after which one call of such a shard has a whole one: it may only be slow
Answer = TypeVar("Answer")


class ShardMissing(HttpError):
    """A shard that a request needs does not answer. ``partition``: its number."""

    def __init__(self, partition: int, reason: str = "nobody owns it") -> None:
        self.partition = partition
        detail = f"shard {partition} does not answer: {reason}"
        fields = {"field": "shard", "found": str(partition)}
        super().__init__(
            HTTPStatus.SERVICE_UNAVAILABLE, "shard_missing", detail, fields=fields, headers={"retry-after": "1"}
        )


class Shards(Protocol):
    """The shards of a cluster."""

    @property
    def count(self) -> int:
        """How many partitions there are, and so shards."""
        ...

    def client(self, partition: int, /) -> AsyncClient:
        """Return the client of the present owner. Raises ShardMissing if nobody owns the partition.

        Its `RetryPolicy` should have one attempt, or two: batches do not wait for more.
        """
        ...

    def lost(self, partition: int, /) -> None:
        """Note that the owner did not answer as one: it is to be looked up again."""
        ...


class ShardCalls:
    """Calls the method of the owners' clients for an operation, with arguments by name.

    `deadline_s`: in which a shard must answer a call that can do without it.
    """

    def __init__(self, shards: Shards, deadline_s: float) -> None:
        self.shards = shards
        self._deadline_s = deadline_s
        # Shards that did not answer within the whole deadline, and when one call has it again.
        self._silent: dict[int, float] = {}

    async def call(self, shard: int, operation: Operation[Answer], /, **given: Any) -> Answer:
        """Return the answer of a shard. Raises ShardMissing without one, and what the shard refuses the call with.

        A call that may be repeated is made again if there is a new owner.
        """
        before: AsyncClient | None = None
        while True:
            client = self.shards.client(shard)
            try:
                answer: Answer = await getattr(client, operation.name)(**given)
                return answer
            except ServiceError as error:
                self.shards.lost(shard)
                if before is not None or not operation.is_repeatable or self.shards.client(shard) is client:
                    raise ShardMissing(shard, error.reason) from error
                before = client

    async def each(self, operation: Operation[Answer], given: Mapping[int, Mapping[str, Any]]) -> list[Answer]:
        """Return the answers of all shards that are `given` arguments, once all have answered.

        Raises the first error in the order of `given`.
        """
        calls = (self.call(shard, operation, **arguments) for shard, arguments in given.items())
        found = await asyncio.gather(*calls, return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return [one for one in found if not isinstance(one, BaseException)]

    async def each_in_time(
        self, operation: Operation[Answer], given: Mapping[int, Mapping[str, Any]], least_s: float = 0.0
    ) -> dict[int, Answer]:
        """Return the answers of those shards that answer in time. Raises what one refuses the call with.

        `least_s`: time that each has at least.
        """
        calls = (self._call_in_time(shard, operation, arguments, least_s) for shard, arguments in given.items())
        found = await asyncio.gather(*calls, return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException) and not isinstance(one, ShardMissing):
                raise one
        return {shard: one for shard, one in zip(given, found, strict=True) if not isinstance(one, BaseException)}

    async def _call_in_time(
        self, shard: int, operation: Operation[Answer], given: Mapping[str, Any], least_s: float
    ) -> Answer:
        now_s, every_s = time.monotonic(), _WHOLE_EVERY * self._deadline_s
        is_short = now_s < self._silent.get(shard, now_s)
        if shard in self._silent and not is_short:
            self._silent[shard] = now_s + every_s  # the calls beside this one do not wait
        limit_s = max(min(_SHORT_S, self._deadline_s) if is_short else self._deadline_s, least_s)
        try:
            async with asyncio.timeout(limit_s):
                answer = await self.call(shard, operation, timeout_s=2.0 * limit_s, **given)
        except TimeoutError:
            if not is_short:  # a short one says nothing of a slow shard, which may have answered another call meanwhile
                self._silent[shard] = time.monotonic() + every_s
            self.shards.lost(shard)
            raise ShardMissing(shard, f"no answer within {limit_s:g} s") from None
        except (HttpError, ServiceError):
            self._silent.pop(shard, None)  # it is not silent, or nobody owns it
            raise
        self._silent.pop(shard, None)
        return answer
