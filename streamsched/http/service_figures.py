"""Figures of a service: samples of what it does at regular times, and how long its requests took."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from streamsched.api.answers import Sample
from streamsched.api.views import Observed
from streamsched.http.scheduler_thread import SchedulerThread
from streamsched.numerics.durations import format_duration
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.monitoring import Reliability, SchedulerWatch
from streamsched.service.event_log import LOG
from streamsched.service.ingest_loop import StreamProgress

_CURRENT_S: Final = 60.0  # a stream less behind has caught up: crawlers report outcomes in batches
KEPT_SAMPLES: Final = 720  # an hour of them at five seconds


class ServiceFigures:
    """Samples of `scheduler`, whose requests wait in `thread`. Methods may be called from several threads.

    `wall`: the present time, UTC epoch seconds; `clock`: seconds of a clock that is never set. ``every_s``: seconds
    between two samples, as `Sampler` takes them; ``watch``: counts of what the scheduler did since the making;
    ``calibration``: the forecasts of the newest sample; ``stream``: how far the stream is read, None if there is none;
    ``drifted``: whether the hit rate has drifted, set by who knows it, None if nobody does.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        thread: SchedulerThread,
        wall: Callable[[], float],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = every_s
        self.watch = SchedulerWatch(scheduler.core)
        self.stream: StreamProgress | None = None
        self._caught_up = False
        self.drifted: bool | None = None
        self._scheduler = scheduler
        self._thread = thread
        self._wall = wall
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self._sampled_at_s = clock()
        self._image, self._saved_at_s = scheduler.saved, clock()
        self.calibration: Reliability = self.watch.calibration(now=wall())
        self.take()

    def note_stream(self, progress: StreamProgress) -> None:
        """Note how far the stream is read now. O(1)."""
        self.stream = progress
        behind_s = self.behind_s
        self._caught_up = self._caught_up or (behind_s is not None and behind_s < _CURRENT_S)

    @property
    def lag(self) -> int | None:
        """The number of messages that the stream is behind, None if that is not known."""
        return None if self.stream is None else self.stream.lag

    @property
    def behind_s(self) -> float | None:
        """The age of the newest outcome that was read last, 0 if none is left to be read; None if it is not known."""
        if self.stream is None or self.stream.at_end:
            return None if self.stream is None else 0.0
        return None if self.stream.reached_s is None else max(self._wall() - self.stream.reached_s, 0.0)

    @property
    def backlog(self) -> str | None:
        """How far behind the stream is, in words, until it has caught up for the first time since the start."""
        if self._caught_up or self.stream is None or self.stream.at_end is not False:
            return None
        behind_s = self.behind_s
        words = [f"{self.lag} messages"] if self.lag else []
        words += [] if behind_s is None else [format_duration(behind_s)]
        return f"the stream is {' and '.join(words) or 'still'} behind: it has not caught up since the start"

    @property
    def latest(self) -> Sample:
        """The newest sample."""
        return self._samples[-1]

    def since(self, at_s: float) -> list[Sample]:
        """Return the samples that are later than `at_s`, oldest first. O(samples)."""
        with self._lock:
            return [sample for sample in self._samples if sample.at_s > at_s]

    def take(self) -> Sample:
        """Take a sample, keep it and return it. O(groups), and the lock is held for milliseconds."""
        lock_wait_s = self._wait()
        now, watch = self._wall(), self.watch
        with self._scheduler.core.lock:
            self.calibration = watch.calibration(now=now)
            leased, freshness, observed = watch.leased(now=now), watch.freshness(now=now), watch.observed
            fetches = dict(watch.fetches)
            state_bytes = sum(self._scheduler.state_bytes().values())
        with self._lock:
            outcomes_per_s, hit_rate = self._compare(observed)
            sample = Sample(
                at_s=now,
                pages=len(self._scheduler),
                leased=leased,
                waiting=self._thread.length,
                lag=self.lag,
                applied=observed.applied,
                served=observed.served,
                hits=observed.hits,
                fetches=fetches,
                handed_out=watch.handed_out,
                outcomes_per_s=outcomes_per_s,
                hit_rate=hit_rate,
                freshness=freshness,
                calibration_error=self.calibration.error,
                image_age_s=self._find_image_age(),
                lock_wait_s=lock_wait_s,
                drifted=self.drifted,
                state_bytes=state_bytes,
            )
            self._samples.append(sample)
        return sample

    def _compare(self, observed: Observed) -> tuple[float | None, float | None]:
        """Return the outcomes a second and the hit rate since the sample before, None if there is none."""
        elapsed_s, self._sampled_at_s = self._clock() - self._sampled_at_s, self._clock()
        if not self._samples:
            return None, None
        before = self._samples[-1]
        applied, served = observed.applied - before.applied, observed.served - before.served
        rate = applied / elapsed_s if elapsed_s > 0.0 else None
        return rate, (observed.hits - before.hits) / served if served else None

    def _wait(self) -> float:
        """Return how long the scheduler's lock was waited for."""
        begun_s = self._clock()
        with self._scheduler.core.lock:
            return self._clock() - begun_s

    def _find_image_age(self) -> float:
        """Return for how long there have been changes that no image holds, as far as samples have seen."""
        now_s = self._clock()
        if self._scheduler.is_saved or self._scheduler.saved is not self._image:
            self._image, self._saved_at_s = self._scheduler.saved, now_s
        return now_s - self._saved_at_s


class Sampler:
    """Takes a sample of `figures` every ``figures.every_s`` seconds while its block runs."""

    def __init__(self, figures: ServiceFigures) -> None:
        self._figures = figures
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="streamsched figures", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.wait(self._figures.every_s):
            try:
                self._figures.take()
            except Exception as error:  # noqa: BLE001  the service continues without this sample
                LOG.error("no sample of figures", exc_info=error)


BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, upper bounds of what is counted together; longer requests are counted after them."""


@dataclass(slots=True)
class Durations:
    """Durations of one operation. ``counts``: by the bounds of `BOUNDS_S`, the last for longer ones; ``total_s``."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0


class RequestDurations:
    """Counts durations, ``by_operation``. For one thread. `clock`: seconds.

    >>> clock = iter([10.0, 10.004])
    >>> durations = RequestDurations(clock.__next__)
    >>> with durations.measure("rank"):
    ...     pass
    >>> durations.by_operation["rank"].counts[:4]
    [0, 0, 1, 0]
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_operation: dict[str, Durations] = {}
        self._clock = clock

    @contextmanager
    def measure(self, operation: str) -> Iterator[None]:
        """Count how long the block takes, whether or not it raises. O(1)."""
        begun_s = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - begun_s
            durations = self.by_operation.setdefault(operation, Durations())
            durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
            durations.total_s += seconds
