"""Outcomes as events, as the columns of an OutcomeBatch, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.connectors.records.outcome_events import OutcomeEvent, read_fingerprint
from streamsched.connectors.records.packed_columns import join_urls
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import COLUMNS, MOVED_TO, STATUS_WORDS, OutcomeBatch

__all__ = ["assemble", "join_outcomes", "outcomes_to_columns", "outcomes_to_events"]

_FROM_TEXT: Final[dict[str, Callable[[str], int]]] = {
    "status": STATUS_WORDS.__getitem__,
    "fingerprint": read_fingerprint,
}
_TO_TEXT: Final[dict[str, dict[Any, str]]] = {"status": {code: word for word, code in STATUS_WORDS.items()}}


def outcomes_to_columns(events: Sequence[OutcomeEvent]) -> OutcomeBatch:
    """Return `events` as columns, in order. O(n), some 0.3 µs an event.

    Raises ValueError or OverflowError if a fingerprint is invalid; `read_fingerprint` says why.
    """
    given = np.zeros(len(events), np.uint8)
    columns: dict[str, Any] = {}
    for field, (bit, dtype) in COLUMNS.items():
        values: list[Any] = list(map(attrgetter(field), events))
        kinds = set(map(type, values))
        if kinds <= {NoneType}:
            continue
        if str in kinds:
            read = _FROM_TEXT[field]
            values = [read(value) if isinstance(value, str) else value for value in values]
        if NoneType in kinds:
            given |= np.array([0 if value is None else bit for value in values]).astype(np.uint8)
            values = [0 if value is None else value for value in values]
        else:
            given |= np.uint8(bit)
        columns[field] = np.array(values, dtype=dtype)
    moves = [event.moved_to for event in events]
    if any(move is not None for move in moves):
        given |= np.array([0 if move is None else MOVED_TO for move in moves], np.uint8)
        columns["moved_to"] = PackedUrls.pack([move or "" for move in moves])
    urls = PackedUrls.pack([event.url for event in events])
    return assemble(urls, np.array([event.fetched_at for event in events], np.float64), given, columns)


def assemble(
    urls: PackedUrls,
    fetched_at: npt.NDArray[np.float64],
    given: npt.NDArray[np.uint8],
    columns: dict[str, Any],
) -> OutcomeBatch:
    """Return a batch of these columns, PackedUrls for `moved_to`, else arrays.

    `given`: uint8[n] says which optional fields a record carries.
    """
    batch = OutcomeBatch(urls, fetched_at, **columns)
    batch.given = given
    return batch


def outcomes_to_events(outcomes: OutcomeBatch) -> Iterator[OutcomeEvent]:
    """Return each record of `outcomes` as an event. O(n)."""
    fields: list[Iterable[Any]] = []
    for field, bit in [(field, bit) for field, (bit, _) in COLUMNS.items()] + [("moved_to", MOVED_TO)]:
        column = getattr(outcomes, field)
        if len(column):
            values = column if field == "moved_to" else column.tolist()
            words = _TO_TEXT.get(field, {})
            pairs = zip(values, (outcomes.given & bit) != 0, strict=True)
            fields.append([words.get(value, value) if there else None for value, there in pairs])
        else:
            fields.append(repeat(None, len(outcomes)))
    return map(OutcomeEvent, outcomes.urls, outcomes.fetched_at.tolist(), *fields)


def join_outcomes(batches: Sequence[OutcomeBatch]) -> OutcomeBatch:
    """Return the records of `batches`, at least one, as one batch. O(bytes), itself if there is only one.

    >>> len(join_outcomes([OutcomeBatch(["https://a.example/"], [1.0]), OutcomeBatch(["https://b.example/"], [2.0])]))
    2
    """
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, Any] = {}
    for field, (_, dtype) in COLUMNS.items():
        own = [getattr(batch, field) for batch in batches]
        if any(column.size for column in own):
            pairs = zip(own, batches, strict=True)
            columns[field] = np.concatenate(
                [column if column.size else np.zeros(len(of), dtype) for column, of in pairs]
            )
    if any(len(batch.moved_to) for batch in batches):
        empty = (PackedUrls(b"", np.zeros(len(batch) + 1, np.int64)) for batch in batches)
        columns["moved_to"] = join_urls([batch.moved_to or none for batch, none in zip(batches, empty, strict=True)])
    fetched_at = np.concatenate([batch.fetched_at for batch in batches])
    given = np.concatenate([batch.given for batch in batches])
    return assemble(join_urls([batch.urls for batch in batches]), fetched_at, given, columns)
