"""Single change signals as maps, in JSON Lines, msgpack and messages, and as the columns of a SignalBatch.

``significance`` may be absent or null; unknown fields are ignored; a boolean is no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final

import msgspec
import numpy as np

from streamsched.connectors.records.event_checks import FieldCheck, FieldChecks, is_number, is_text
from streamsched.connectors.records.packed_columns import join_urls
from streamsched.signals import SignalBatch

__all__ = ["SIGNAL_CHECKS", "SignalEvent", "join_signals", "signals_to_columns", "signals_to_events"]


class SignalEvent(msgspec.Struct, gc=False, omit_defaults=True):
    """One signal as the wire has it."""

    url: str
    at: float
    source: str
    significance: float | None = None


SIGNAL_CHECKS: Final[FieldChecks] = {
    "url": FieldCheck("text", is_text, required=True),
    "at": FieldCheck("a number", is_number, required=True),
    "source": FieldCheck("text", is_text, required=True),
    "significance": FieldCheck("a number", is_number),
}


def signals_to_columns(events: Sequence[SignalEvent]) -> SignalBatch:
    """Return `events` as columns, in order. O(n), some 0.3 µs an event."""
    amounts = [event.significance for event in events]
    return SignalBatch(
        [event.url for event in events],
        np.array([event.at for event in events], np.float64),
        [event.source for event in events],
        amounts if any(amount is not None for amount in amounts) else None,
    )


def signals_to_events(signals: SignalBatch) -> Iterator[SignalEvent]:
    """Return each of `signals` as an event. O(n)."""
    amounts: Iterable[float | None] = repeat(None, len(signals))
    if signals.significance.size:
        pairs = zip(signals.significance.tolist(), signals.given.tolist(), strict=True)
        amounts = [amount if given else None for amount, given in pairs]
    sources = map(signals.names.__getitem__, signals.source.tolist())
    return map(SignalEvent, signals.urls, signals.at.tolist(), sources, amounts)


def join_signals(batches: Sequence[SignalBatch]) -> SignalBatch:
    """Return the signals of `batches`, at least one, as one batch. O(bytes), itself if there is only one.

    >>> parts = [SignalBatch(["https://a.example/"], [1.0], name) for name in ("feed", "sitemap")]
    >>> join_signals(parts).names
    ('feed', 'sitemap')
    """
    if len(batches) == 1:
        return batches[0]
    names: dict[str, int] = {}
    codes = []
    for batch in batches:
        own = [names.setdefault(name, len(names)) for name in batch.names]
        codes.append(np.array(own, np.int32)[batch.source])
    joined = SignalBatch(
        join_urls([batch.urls for batch in batches]),
        np.concatenate([batch.at for batch in batches]),
        np.concatenate(codes),
        names=tuple(names),
    )
    if any(batch.significance.size for batch in batches):
        joined.given = np.concatenate([batch.given for batch in batches])
        joined.significance = np.concatenate(
            [batch.significance if batch.significance.size else np.zeros(len(batch)) for batch in batches]
        )
    return joined
