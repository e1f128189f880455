"""The two types of records that a stream may carry, each with all that reading and writing need of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
import numpy as np

from streamsched.connectors.records.outcome_columns import join_outcomes, outcomes_to_columns, outcomes_to_events
from streamsched.connectors.records.outcome_events import OUTCOME_CHECKS, OutcomeEvent, read_outcome_text
from streamsched.connectors.records.outcome_frames import OutcomeFrame, decode_frame, encode_frame
from streamsched.connectors.records.signal_events import (
    SIGNAL_CHECKS,
    SignalEvent,
    join_signals,
    signals_to_columns,
    signals_to_events,
)
from streamsched.connectors.records.signal_frames import SignalFrame, decode_signal_frame, encode_signal_frame
from streamsched.connectors.source import Records
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

if TYPE_CHECKING:
    from streamsched.connectors.records.event_checks import FieldChecks

__all__ = ["OUTCOMES", "SIGNALS", "RecordType", "type_of_position"]

_OF_SIGNALS: Final = " signals"  # ends the kind of their positions


@dataclass(frozen=True, slots=True)
class RecordType(Generic[Records]):
    """A type of records: how its events, columns and frames become each other.

    ``name``: "outcomes" or "signals"; ``batch``: their columns; ``time``: the field with the time of a record;
    ``formats``: of files that hold them. ``event``, ``frame``: one record and one frame as the wire has them;
    ``checks``: what fields of an event must be; ``read_text(event)``: makes numbers of what an event says in text,
    raises ParseError; ``join``: one batch of several, at least one.
    """

    name: str
    batch: type[Records]
    time: str
    formats: tuple[str, ...]
    event: type[msgspec.Struct]
    checks: FieldChecks
    read_text: Callable[[Any], None]
    to_columns: Callable[[Sequence[Any]], Records]
    to_events: Callable[[Records], Iterator[Any]]
    join: Callable[[Sequence[Records]], Records]
    frame: type[msgspec.Struct]
    encode_frame: Callable[[Records], bytes]
    decode_frame: Callable[[Mapping[str, Any]], Records]

    def none(self) -> Records:
        """Return a batch without records."""
        return self.to_columns([])

    def encode(self, records: Records, row: int) -> bytes:
        """Return one of `records` as JSON. O(bytes)."""
        (event,) = self.to_events(records.take(np.array([row], np.intp)))
        return msgspec.json.encode(event)

    def position_kind(self, format_name: str) -> str:
        """Return the kind of positions in files of a format, or in topics: one of signals is none of outcomes.

        >>> OUTCOMES.position_kind("jsonl"), SIGNALS.position_kind("jsonl")
        ('jsonl', 'jsonl signals')
        """
        return format_name + (_OF_SIGNALS if self.name == "signals" else "")

    def format_of(self, position_kind: str) -> str:
        """Return the format that `position_kind` made a kind of."""
        return position_kind.removesuffix(self.position_kind(""))


OUTCOMES: Final = RecordType(
    name="outcomes",
    batch=OutcomeBatch,
    time="fetched_at",
    formats=("changes", "jsonl", "microsoft", "msgpack"),
    event=OutcomeEvent,
    checks=OUTCOME_CHECKS,
    read_text=read_outcome_text,
    to_columns=outcomes_to_columns,
    to_events=outcomes_to_events,
    join=join_outcomes,
    frame=OutcomeFrame,
    encode_frame=encode_frame,
    decode_frame=decode_frame,
)
SIGNALS: Final = RecordType(
    name="signals",
    batch=SignalBatch,
    time="at",
    formats=("jsonl", "msgpack"),
    event=SignalEvent,
    checks=SIGNAL_CHECKS,
    read_text=lambda event: None,
    to_columns=signals_to_columns,
    to_events=signals_to_events,
    join=join_signals,
    frame=SignalFrame,
    encode_frame=encode_signal_frame,
    decode_frame=decode_signal_frame,
)


def type_of_position(kind: str) -> RecordType[Any]:
    """Return the type of records that a position of the kind `kind` is in.

    >>> type_of_position("jsonl signals").name
    'signals'
    """
    return SIGNALS if kind.endswith(_OF_SIGNALS) else OUTCOMES
