"""Where to begin in each partition: at a saved position, at what the group committed, or at an end of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsched.connectors.kafka.clients.protocol import part_path
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.source import Position
from streamsched.errors import SourceError

__all__ = ["Bounds", "Start", "check_place", "choose_start", "report_loss"]

Bounds = tuple[int, int]
"""The first offset in the log and the next to be written."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin in a partition; ``skipped`` messages before it were never read, and are gone."""

    offset: int
    records: int = 0
    skipped: int = 0


def choose_start(
    settings: KafkaSettings, partition: int, bounds: Bounds, saved: Position | None, committed: int | None
) -> Start:
    """Return where to begin in `partition`: where `saved` says, else what is `committed`, else ``settings.start``.

    Raises SourceError where that is no longer in the log and the settings do not say what to do then.
    """
    first, last = bounds
    wanted = committed if saved is None else saved.offset
    if wanted is None:
        return Start(first if settings.start == "earliest" else last)
    records = 0 if saved is None else saved.records
    if first <= wanted <= last:
        return Start(wanted, records)
    if settings.lost == "fail":
        raise report_loss(settings, partition, wanted, bounds)
    offset = first if settings.lost == "earliest" else last
    return Start(offset, records, max(0, offset - wanted) if wanted <= last else 0)


def report_loss(settings: KafkaSettings, partition: int, wanted: int, bounds: Bounds) -> SourceError:
    """Return the error that says that the offset `wanted` is not in the log."""
    first, last = bounds
    if wanted < first:
        why = f"the log begins at {first}: {first - wanted} messages were deleted before they were read"
    else:
        why = f"the log ends at {last}: the topic was made anew, or cut"
    reason = (
        f"cannot go on at offset {wanted}, {why}; lost=earliest or lost=latest goes on at that end of what there is"
    )
    return SourceError(part_path(settings.topic, partition), reason, wanted)


def check_place(settings: KafkaSettings, position: Position, known: Mapping[str, int]) -> int:
    """Return the partition that `position` belongs to; raises SourceError where it is none of `known`, by path."""
    if position.kind != "kafka" or position.path not in known:
        there = f"belongs to {position.path} ({position.kind}), not to a partition of this topic"
        raise SourceError(f"kafka://{settings.topic}", f"the position {there}")
    return known[position.path]
