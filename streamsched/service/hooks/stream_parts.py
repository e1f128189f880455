"""What works between the outcomes of a run: hooks that take them in parts, cut where a cycle of their time begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.results import Observed

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats
    from streamsched.scheduler.any_scheduler import AnyScheduler

__all__ = ["Apply", "StreamHook", "cut_at_cycles", "find_drift", "observe_through", "split_outcomes"]

Apply = Callable[[OutcomeBatch, bool], Observed]
"""Applies a part of a delivery; the second argument says whether it is the last part."""


class StreamHook(Protocol):
    """What a run does besides ingest, as the ingest loop drives it: evolutions, plans."""

    @property
    def drifted(self) -> bool | None:
        """Whether the hit rate has drifted since the last evolution; None if it is not watched."""
        ...

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with `outcomes`, in one or several parts."""
        ...

    def tick(self) -> None:
        """Advance what runs beside; called about every second."""
        ...

    def counts(self) -> dict[str, int]:
        """Return what is completed, by name."""
        ...


def find_drift(hooks: Sequence[StreamHook]) -> bool | None:
    """Return whether the hit rate has drifted since the last evolution; None if no hook watches it."""
    return next((hook.drifted for hook in hooks if hook.drifted is not None), None)


def observe_through(hooks: Sequence[StreamHook], outcomes: OutcomeBatch, apply: Apply) -> Observed:
    """Call `apply` with the parts into which all `hooks` cut `outcomes`, the first hook before the others."""
    if not hooks:
        return apply(outcomes, True)

    def cut_further(part: OutcomeBatch, is_last: bool) -> Observed:
        return observe_through(hooks[1:], part, lambda smaller, last: apply(smaller, is_last and last))

    return hooks[0].observe(outcomes, cut_further)


def split_outcomes(
    scheduler: AnyScheduler, outcomes: OutcomeBatch, cycle_s: float, reached: int | None
) -> list[tuple[OutcomeBatch, int | None]]:
    """Return `outcomes` in parts, as `cut_at_cycles` yields them; times that `scheduler` rejects do not count. O(n)."""
    times = outcomes.fetched_at.copy()
    if scheduler.core.clock.newest_s == -np.inf:
        times[:1] = np.nan  # the stream's first time may be wrong: no other confirms it
    times[[problem.record for problem in scheduler.find_ahead(outcomes)]] = np.nan
    return list(cut_at_cycles(outcomes, times, cycle_s, reached))


def cut_at_cycles(
    outcomes: OutcomeBatch, times: Floats, cycle_s: float, reached: int | None
) -> Iterator[tuple[OutcomeBatch, int | None]]:
    """Yield `outcomes` in parts, each with the newest cycle in the stream at its start. O(n).

    `times`: float64[n], those of the outcomes, NaN for one that does not count; `reached`: the newest cycle before the
    first outcome, None if there was none. Late outcomes, of an earlier cycle, start no part.
    """
    if len(outcomes) == 0:
        return
    with np.errstate(invalid="ignore"):
        cycles = np.where(np.isfinite(times), np.floor(times / cycle_s), -np.inf)
    newest = np.maximum.accumulate(np.maximum(cycles, -np.inf if reached is None else float(reached)))
    starts = np.flatnonzero(np.r_[True, newest[1:] > newest[:-1]])
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(outcomes)], strict=True):
        part = outcomes if stop - start == len(outcomes) else outcomes.take(np.arange(start, stop))
        yield part, int(newest[start]) if np.isfinite(newest[start]) else reached
