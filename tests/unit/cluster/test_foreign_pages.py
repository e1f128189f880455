"""What concerns other partitions' hosts waits for their owners, as long as the partition is served."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.cluster.foreign_pages import ForeignPages, partitions_of
from streamsched.errors import ServiceError, SourceError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch

COUNT = 4
URLS = [f"https://h{i}.example/" for i in range(20)]


def foreign(url: str) -> str:
    """A page whose partition is not that of `url`."""
    numbers = partitions_of(PackedUrls.pack([url, *URLS]), COUNT).tolist()
    return next(one for one, number in zip(URLS, numbers[1:], strict=True) if number != numbers[0])


@pytest.mark.parametrize("moves", [True, False])
def test_outcomes_are_left_to_the_next_owner_once_the_partition_ends_here(moves: bool) -> None:
    """Nobody serves the other partition; neither a redirect's target nor outcomes are given up."""
    goes_on, applied = [True, True, False], list[Any]()
    other = foreign(URLS[0])
    outcome = Outcome(URLS[0], 1.0, status=301, moved_to=other) if moves else Outcome(other, 1.0)
    (number,) = partitions_of(PackedUrls.pack(URLS[:1]), COUNT).tolist()
    asked: list[int] = []

    def apply(part: OutcomeBatch, is_last: bool) -> Any:  # noqa: ARG001
        applied.append(part)

    def refuse(partition: int, *_: object) -> None:
        asked.append(partition)
        raise ServiceError(f"shard {partition}", "nobody owns it")

    pages = ForeignPages(number, COUNT, refuse, lambda: goes_on.pop(0))
    with pytest.raises(SourceError, match="ends here"):
        pages.observe(OutcomeBatch.from_outcomes([outcome]), apply)
    assert (len(asked), applied, pages.done) == (2, [], 0)
