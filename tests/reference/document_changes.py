"""The slow twin of what a document announces: dictionaries, one entry at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_S = 86_400.0


@dataclass(frozen=True)
class DatedEntry:
    """An entry as a document has it; ``second``: its time, of which it states the day alone if ``day``."""

    url: str
    second: int | None = None
    day: bool = False
    content: str = ""

    def span(self) -> tuple[float, float]:
        """The first and the last second of its time."""
        assert self.second is not None
        if not self.day:
            return self.second, self.second
        midnight = self.second // DAY_S * DAY_S
        return midnight, midnight + DAY_S - 1

    def states(self, read_at: float) -> bool:
        """Whether it has a time that is not in the future anywhere on earth."""
        return self.second is not None and self.span()[0] - (14 * 3600 if self.day else 0) <= read_at


@dataclass
class Announced:
    """The signals of a reading, and its entries by their fate."""

    signals: list[tuple[str, float]] = field(default_factory=list)
    fates: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("new", "changed", "unchanged", "remembered", "repeated"), 0)
    )


class TwinMemory:
    """What each URL of one document was last known with: its time and its content."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[float, str]] | None = None

    def read(self, entries: list[DatedEntry], read_at: float, since: float | None = None) -> Announced:
        """Return what a document of these entries announces, and remember it."""
        result = Announced()
        newest: dict[str, DatedEntry] = {}
        for entry in entries:
            rank = entry.span()[0] if entry.states(read_at) else float("-inf")
            rival = newest.get(entry.url)
            if rival is None or rank > (rival.span()[0] if rival.states(read_at) else float("-inf")):
                newest[entry.url] = entry
        result.fates["repeated"] = len(entries) - len(newest)
        kept = [entry for entry in entries if newest.get(entry.url) is entry]
        times = [entry.span()[0] if entry.states(read_at) else None for entry in kept]
        one_time = len(kept) > 1 and None not in times and len(set(times)) == 1
        for entry in kept:
            fate, at = self._judge(entry, entry.states(read_at) and not one_time, read_at, since)
            result.fates[fate] += 1
            if fate in ("new", "changed"):
                result.signals.append((entry.url, at))
        self.last = {
            entry.url: (read_at if time is None else time, entry.content)
            for entry, time in zip(kept, times, strict=True)
        }
        return result

    def _judge(self, entry: DatedEntry, telling: bool, read_at: float, since: float | None) -> tuple[str, float]:
        at = min(entry.span()[1], read_at) if telling else read_at
        if self.last is None:
            return ("new" if telling and since is not None and at > since else "remembered"), at
        if entry.url not in self.last:
            return "new", at
        time, content = self.last[entry.url]
        if telling and entry.span()[0] > time:
            return "changed", at
        return ("unchanged" if content == entry.content else "changed"), read_at
