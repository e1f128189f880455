"""The offset to start at in each partition: a saved position, the group's committed offset, or an end of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamsched.connectors.kafka.clients.protocol import partition_path
from streamsched.errors import SettingsError, SourceError

if TYPE_CHECKING:
    from streamsched.connectors.kafka.kafka_settings import KafkaSettings
    from streamsched.connectors.source import Position

__all__ = ["Bounds", "StartOffset", "choose_partitions", "choose_start", "find_partition", "offset_out_of_range"]

Bounds = tuple[int, int]
"""The first offset in the log and the next to be written."""


@dataclass(frozen=True, slots=True)
class StartOffset:
    """Where to start in a partition; ``skipped`` messages before it were deleted before they were read."""

    offset: int
    records: int = 0
    skipped: int = 0


def choose_partitions(settings: KafkaSettings, existing: Sequence[int]) -> dict[str, int]:
    """Return the numbers of the partitions to read, by path; with a group, all that exist.

    Raises SettingsError if the settings name partitions that do not exist, or both partitions and a group.
    """
    asked = settings.partitions
    if asked is not None and (settings.group is not None or not set(asked) <= set(existing)):
        raise SettingsError("partitions", asked, f"some of the topic's, 0 to {existing[-1]}, and no group")
    return {partition_path(settings.topic, one): one for one in (existing if asked is None else asked)}


def choose_start(
    settings: KafkaSettings, partition: int, bounds: Bounds, saved: Position | None, committed: int | None
) -> StartOffset:
    """Return the start in `partition`: `saved`, else `committed`, else the end of the log in ``settings.start``.

    Raises SourceError if that offset is not in the log and ``settings.lost`` is "fail".
    """
    first, last = bounds
    wanted = committed if saved is None else saved.offset
    if wanted is None:
        return StartOffset(first if settings.start == "earliest" else last)
    records = 0 if saved is None else saved.records
    if first <= wanted <= last:
        return StartOffset(wanted, records)
    if settings.lost == "fail":
        raise offset_out_of_range(settings, partition, wanted, bounds)
    offset = first if settings.lost == "earliest" else last
    return StartOffset(offset, records, max(0, offset - wanted) if wanted <= last else 0)


def offset_out_of_range(settings: KafkaSettings, partition: int, wanted: int, bounds: Bounds) -> SourceError:
    """Return the error for the offset `wanted`, which is not in the log."""
    first, last = bounds
    if wanted < first:
        why = f"the log begins at {first}: {first - wanted} messages were deleted before they were read"
    else:
        why = f"the log ends at {last}: the topic was recreated or truncated"
    reason = f"cannot continue at offset {wanted}, {why}; set lost=earliest or lost=latest to continue at that end"
    return SourceError(partition_path(settings.topic, partition), reason, wanted)


def find_partition(settings: KafkaSettings, position: Position, kind: str, known: Mapping[str, int]) -> int:
    """Return the partition of `position`, one of `known` by path. Raises SourceError if it has none or another kind."""
    if position.kind != kind or position.path not in known:
        reason = f"the position belongs to {position.path} ({position.kind}), not to a partition of this topic ({kind})"
        raise SourceError(f"kafka://{settings.topic}", reason)
    return known[position.path]
