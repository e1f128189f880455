"""The reliability of sources of change signals, for people: one row for each source, and one for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsched.api.views import SourceReliability
from streamsched.estimation.signal_sources import FIRST_LATE, FIRST_LATENESS_DAYS, find_source, unsignalled
from streamsched.estimation.signal_update import DAY_S
from streamsched.numerics.arrays import Record
from streamsched.records.schema import ShardArrays
from streamsched.records.signal_schema import ANNOUNCED, CHANGES, LATE, LATENESS, RESOLVED, TRUE
from streamsched.records.url_patterns import group_name


@dataclass(frozen=True, slots=True)
class Announcement:
    """The signals of a page: the source that says most, since when, and the probability that a signal is true."""

    source: SourceReliability
    since_s: float
    probability: float


def list_sources(shard: ShardArrays, names: Sequence[str]) -> list[SourceReliability]:
    """Return all sources of kinds with these `names`: each kind, then its hosts by their signals. O(sources)."""
    count = int(shard.signals.state["sources"][0])
    sources = [_describe_source(shard, names, number) for number in range(count)]
    sources.sort(key=lambda source: (-source.signals, source.host))
    listed: list[SourceReliability] = []
    for number, name in enumerate(names):
        hosts = [source for source in sources if source.kind == name]
        signals, pages = sum(source.signals for source in hosts), sum(source.pages for source in hosts)
        listed += [_describe(shard.signals.kinds[number], name, None, signals, pages), *hosts]
    return listed


def find_announcement(shard: ShardArrays, row: int, names: Sequence[str]) -> Announcement | None:
    """Return what signals since its last visit say of the page of `row`, None if there was none. O(1)."""
    if not shard.pages.signals.size or not shard.pages.signals[row]["kinds"]:
        return None
    signal, page = shard.pages.signals[row], shard.pages.records[row]
    host = shard.groups.records[shard.groups.records[page["group"]]["host"]]
    source = _describe_source(shard, names, find_source(shard.signals, host, int(signal["lead"])))
    since_s = float(page["last_visit_s"] + signal["first_after_s"])
    return Announcement(source, since_s, 1.0 - unsignalled(signal))


def _describe_source(shard: ShardArrays, names: Sequence[str], number: int) -> SourceReliability:
    """Return what is known of the source of that number. O(1)."""
    source = shard.signals.sources[number]
    host = group_name(shard.groups, int(source["host"]))
    return _describe(source, names[int(source["kind"])], host, int(source["signals"]), int(source["pages"]))


def _describe(record: Record, kind: str, host: str | None, signals: int, pages: int) -> SourceReliability:
    evidence = record["evidence"].tolist()
    late = FIRST_LATE + evidence[LATE]
    return SourceReliability(
        kind=kind,
        host=host,
        signals=signals,
        pages=pages,
        precision=_part(evidence[TRUE], evidence[RESOLVED]),
        checked=evidence[RESOLVED],
        recall=_part(evidence[ANNOUNCED], evidence[CHANGES]),
        changes=evidence[CHANGES],
        lateness_s=DAY_S * (FIRST_LATE * FIRST_LATENESS_DAYS + evidence[LATENESS]) / late,
    )


def _part(some: float, whole: float) -> float | None:
    return min(max(some / whole, 0.0), 1.0) if whole > 0.0 else None
