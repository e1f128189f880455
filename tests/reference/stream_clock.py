"""Slow reference implementation of `stream_clock`: one time after another, with all that was accepted kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clock:
    """All accepted times that count, newest first in `heard`, and the refusals since the last of them."""

    max_ahead_s: float | None
    heard: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    rivals: list[float] = field(default_factory=list)
    replaced: list[float] = field(default_factory=list)
    is_supported: bool = False

    @property
    def newest_s(self) -> float:
        return max(self.heard)

    def admit(self, time_s: float) -> bool:
        if not self.heard:
            self.heard = [time_s]
            return True
        if self.max_ahead_s is None:
            self.heard.append(time_s)
            return True
        newest_s = self.newest_s
        is_near = -self.max_ahead_s <= time_s - newest_s <= self.max_ahead_s
        if not is_near and not self.is_supported:
            if time_s < newest_s:
                self.replaced.append(newest_s)
                self.heard = [time_s]
                return True
            agreeing = [one for one in self.rivals[-1:] if 0 < abs(one - time_s) <= self.max_ahead_s]
            self.rivals.append(time_s)
            if agreeing:
                self.heard, self.is_supported = [*agreeing, time_s], True
                return True
            return any(abs(one - time_s) <= self.max_ahead_s for one in self.replaced[-1:])
        if not is_near and time_s > newest_s + self.max_ahead_s * (1 + len(self.refused)):
            self.refused.append(time_s)
            return False
        if is_near:
            self.is_supported = self.is_supported or time_s != newest_s
        if time_s > newest_s or is_near:
            self.heard.append(time_s)
            self.refused = []
        return True

    def advance(self, now: float) -> None:
        self.heard = [*self.heard, now] if self.is_supported else [now]
        self.refused, self.is_supported = [], True
