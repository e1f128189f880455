"""The progress line of a run on a terminal, redrawn in place."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from streamsched.service.intake.ingest_loop import IngestLoop

__all__ = ["ProgressLine"]

_SPEED_S: Final = 0.2  # interval of speed measurements
_WEIGHT: Final = 0.3  # of the newest measurement in the moving average


class ProgressLine:
    """Shows the progress of an ingest loop while its block runs, if `console` is a terminal: ``is_shown``."""

    def __init__(self, console: Console) -> None:
        self.is_shown = console.is_terminal
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not self.is_shown)
        self._task = self._bar.add_task("", total=None)
        self._since = time.monotonic()
        self._applied = 0
        self._speed = 0.0

    def show(self, loop: IngestLoop) -> None:
        """Update the line from `loop`."""
        if not self.is_shown:
            return
        now, applied = time.monotonic(), loop.total.applied
        if now >= self._since + _SPEED_S:
            self._speed += (applied - self._applied) / (now - self._since) * _WEIGHT - self._speed * _WEIGHT
            self._applied, self._since = applied, now
        lag = "" if loop.lag is None else f", {loop.lag:,} messages behind"
        text = f"{applied:,} outcomes, {loop.pages:,} pages, {self._speed:,.0f} a second{lag}"
        self._bar.update(self._task, description=text)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
